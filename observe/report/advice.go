package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/rootcause"
	"github.com/gputrain/gputrain/observe"
)

// advice says what to do about the cause.
func (c cause) advice() string {
	f := c.First
	if c.Root != nil {
		f = *c.Root
	}
	if f.Cause == "exit" {
		printed := f.Tail
		for _, l := range linesOf(c.run, f) {
			printed += "\n" + l.Text
		}
		if hint := rootcause.Hint(printed); hint != "" {
			return hint
		}
	}
	if text, ok := adviceByCause[f.Cause]; ok {
		return text
	}
	switch {
	case failedPhase(c.run, f) != nil:
		return adviceByKind["phase"]
	case f.Kind == "node" && wasRefused(c.run, f):
		return adviceByKind["offer"]
	}
	if text, ok := adviceByKind[f.Kind]; ok {
		return text
	}
	return "read the error, and the events before it"
}

// wasRefused reports whether a node failed because no offer had room for it.
func wasRefused(run observe.Run, f observe.Failure) bool {
	return slices.ContainsFunc(run.Offers, func(o observe.Offer) bool {
		return o.State == "refused" && o.Pool == f.Pool && o.Err != "" && strings.Contains(f.Err, firstLine(o.Err))
	})
}

// withoutFailure describes a Run without failures, in three to ten lines.
func withoutFailure(run observe.Run) []string {
	lines := []string{"No failure is recorded."}
	for _, p := range run.Pools {
		if len(lines) < 5 && hasNotOpened(run, p.ID) {
			lines = append(lines, fmt.Sprintf("Pool %s ended before it was ready. Its events do not say why: read the error that gputrain.Open returned.", cleanLine(p.ID)))
		}
		if len(lines) < 5 && p.Waiting != "" {
			lines = append(lines, fmt.Sprintf("Pool %s waited: %s", cleanLine(p.ID), firstLine(p.Waiting)))
		}
	}
	for _, o := range slices.Backward(run.Offers) {
		if o.State == "refused" {
			lines = append(lines, "The last offer that was refused: "+firstLine(o.Err))
			break
		}
	}
	n := run.Counts
	return append(lines,
		fmt.Sprintf("%d tasks are done, %d run, %d wait; %d nodes are ready, %d are starting.", n.Done, n.Running, n.Waiting, n.Ready, n.Starting),
		"Look at: report.html for the timeline, events.jsonl for what happened last.")
}

var adviceByCause = map[string]string{
	"exit":               "read what the command wrote to stderr; run it in a shell on a node (Compute.Shell)",
	"signal":             "find out what sent the signal: the program itself, or a limit of the node",
	"out of memory":      "give the task more memory (Spec.MemoryGiB), fewer neighbours (Spec.Concurrency), or less data at once",
	"timed out":          "see what it did last; raise Task.Timeout if it only needed longer",
	"node lost":          "see why the node was lost; allow more starts (Task.Retries), or rent on demand if it was preempted",
	"never started":      "see whether the task's directory and program were there",
	"function error":     "read the error that the function returned",
	"panic":              "read the stack of the panic; its first line of your own code is the place",
	"worker lost":        "see whether the process was ended for its memory, or called os.Exit",
	"outputs":            "see whether the task wrote what Task.Outputs names, and whether disks have room",
	"stalled":            "read the stacks of its processes: they show what it waited for",
	"idle":               "see why the accelerators had nothing to do: a data loader, a lock, a lost peer",
	"accelerator failed": "use another machine; the fault is one of the device, not of the program",
}

var adviceByKind = map[string]string{
	"offer":       "see the offers tried: allow other regions, accelerators or prices, ask for quota, or set Spec.WaitForCapacity",
	"pool":        "read the error: the pool ended with it",
	"node":        "see whether its provider took it back, or its network or machine failed",
	"phase":       "read the last lines of the phase; run its command in a shell on a node",
	"accelerator": "use another machine; the fault is one of the device, not of the program",
	"training":    "read the failure of the process that failed first",
	"transfer":    "see whether both disks have room, and the connection holds",
}
