package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/observe"
)

// A cause is what ended badly first in a Run.
type cause struct {
	run observe.Run
	// First is the first failure that was not repaired and did not follow from another one. If all were repaired, it is the
	// first of them, and Repaired is true.
	First    observe.Failure
	Repaired bool
	// Root is an earlier failure that First followed from, or nil.
	Root *observe.Failure
	// Others counts the later failures that were not repaired, and Echoes those of them that followed from another one.
	Others, Echoes int
}

// findCause returns what ended badly first. It is false if nothing did.
func findCause(run observe.Run) (cause, bool) {
	c := cause{run: run}
	first := slices.IndexFunc(run.Failures, isFinal)
	if first < 0 { // parts failed, and the run went on
		first = slices.IndexFunc(run.Failures, func(f observe.Failure) bool {
			return !f.Retried && f.Kind != "offer" && f.Kind != "trouble" && !isEcho(f)
		})
		c.Repaired = true
	}
	if first < 0 {
		first = slices.IndexFunc(run.Failures, func(f observe.Failure) bool { return f.Kind != "trouble" })
	}
	if first < 0 {
		return c, false
	}
	if f := run.Failures[first]; f.Kind == "pool" { // it ended with what a node has failed with
		if i := slices.IndexFunc(run.Failures[:first], func(e observe.Failure) bool { return isSame(f, e) }); i >= 0 {
			first = i
		}
	}
	c.First = run.Failures[first]
	c.Repaired = c.Repaired && !hasNotOpened(run, c.First.Pool)
	c.Root = rootOf(run.Failures[:first], c.First)
	for _, f := range run.Failures[first+1:] {
		if f.Retried || f.Kind == "offer" || f.Kind == "pool" && isSame(f, c.First) {
			continue
		}
		c.Others++
		if isEcho(f) {
			c.Echoes++
		}
	}
	return c, true
}

// isFinal reports whether a failure is one that the run ended badly with, and that followed from no other one.
func isFinal(f observe.Failure) bool {
	return (f.Kind == "task" || f.Kind == "pool" || f.Kind == "training") && !f.Retried && !isEcho(f)
}

// isSame reports whether a pool has ended with another failure, whose error it has as its own.
func isSame(pool, f observe.Failure) bool {
	return pool.Pool == f.Pool && (f.Kind == "node" || f.Kind == "phase") && f.Err != "" && strings.Contains(pool.Err, f.Err)
}

// hasNotOpened reports whether a pool has ended before it was ready.
func hasNotOpened(run observe.Run, id string) bool {
	return slices.ContainsFunc(run.Pools, func(p observe.Pool) bool {
		return p.ID == id && p.ReadyAt.IsZero() && (p.State == "closed" || !p.Closed.IsZero())
	})
}

// isEcho reports whether a failure only followed from another one.
func isEcho(f observe.Failure) bool {
	return f.Cause == "cancelled" || f.Cause == "followed from another failure" || strings.Contains(f.Err, "a critical task of the call has failed")
}

// rootOf returns the earlier failure that a failure followed from, or nil.
func rootOf(before []observe.Failure, f observe.Failure) *observe.Failure {
	find := func(kinds string, matches func(observe.Failure) bool) *observe.Failure {
		for i, e := range before {
			if strings.Contains(" "+kinds+" ", " "+e.Kind+" ") && e.Pool == f.Pool && matches(e) {
				return &before[i]
			}
		}
		return nil
	}
	anyOf := func(observe.Failure) bool { return true }
	switch {
	case f.Kind == "pool":
		return cmp.Or(find("accelerator phase", anyOf), find("node", anyOf), find("offer", anyOf))
	case f.Kind == "training":
		return cmp.Or(find("accelerator", anyOf), find("task node", func(e observe.Failure) bool { return !isEcho(e) }))
	case f.Cause == "node lost", f.Cause == "worker lost", f.Cause == "accelerator failed", f.Cause == "never started":
		same := func(e observe.Failure) bool { return f.Node == "" || e.Node == f.Node }
		return cmp.Or(find("accelerator", same), find("node phase", same))
	}
	return nil
}

// text describes the cause in three to ten lines. With files they name those of the bundle.
func (c cause) text(files bool) []string {
	s := summarize(observe.Run{Nodes: c.run.Nodes, Began: c.run.Began, At: c.run.At})
	say := func(f observe.Failure) string {
		text := what(f) + strings.TrimSuffix(" on "+s.nodeName(f.Node, f.Rank), " on ")
		if f.Kind == "node" || f.Kind == "accelerator" {
			text = strings.TrimSpace(cmp.Or(s.nodeName(f.Node, f.Rank), f.Kind))
		}
		if f.Attempt > 1 {
			text += fmt.Sprintf(" (attempt %d)", f.Attempt)
		}
		if p := failedPhase(c.run, f); f.Kind == "node" && p != nil {
			text += ", in phase " + cleanLine(p.Name)
		}
		if f.Cause == "exit" {
			text += c.exitCode(f)
		} else if f.Cause != "" {
			text += ": " + cleanLine(f.Cause)
		}
		return text
	}
	verb := "Failed first: "
	if c.Repaired {
		verb = "Nothing failed for good; went wrong first: "
	}
	lines := []string{verb + say(c.First) + ", " + clock(c.First.At) + " UTC."}
	if err := firstLine(c.First.Err); err != "" {
		lines = append(lines, "Error: "+err)
	}
	if c.Root != nil {
		lines = append(lines, "It followed from: "+say(*c.Root)+", "+clock(c.Root.At)+" UTC: "+firstLine(c.Root.Err))
	}
	if printed := lastPrinted(c.run, c.First); printed != "" {
		lines = append(lines, "Last line that it printed: "+printed)
	}
	if c.Others > 0 {
		lines = append(lines, fmt.Sprintf("After it: %s, of which %d only followed from another one.", count(c.Others, "other failure"), c.Echoes))
	}
	lines = append(lines, "Next: "+c.advice())
	if files {
		lines = append(lines, "Look at: "+strings.Join(c.files(), ", ")+".")
	}
	if len(lines) < 3 {
		lines = append(lines, fmt.Sprintf("At that time %s.", s.state(c.First.Node)))
	}
	return lines
}

// exitCode returns the exit code of a task that failed by it.
func (c cause) exitCode(f observe.Failure) string {
	for _, t := range c.run.Tasks {
		if isOf(t, f) == 1 {
			return fmt.Sprintf(": exit code %d", t.ExitCode)
		}
	}
	return ": exit code other than 0"
}

// state says what is known of a node.
func (s *summary) state(key string) string {
	n := s.node(key)
	if n == nil {
		return count(len(s.Nodes), "node") + " were known"
	}
	return s.nodeName(key, n.Rank) + " was " + cmp.Or(cleanLine(n.State), "in no known state")
}

// lastPrinted returns the last line of output of what failed that is not empty.
func lastPrinted(run observe.Run, f observe.Failure) string {
	for _, l := range slices.Backward(linesOf(run, f)) {
		if text := cleanLine(l.Text); text != "" {
			return text
		}
	}
	return ""
}

// files names the files of the bundle that have more about the cause.
func (c cause) files() []string {
	var names []string
	for _, f := range []*observe.Failure{&c.First, c.Root} {
		switch {
		case f == nil:
		case f.Task != "":
			names = append(names, taskFolder(f.Pool, f.Task, len(c.run.Pools) > 1)+"/")
		case f.Node != "":
			names = append(names, nodeFolder(f.Node, f.Rank)+"/")
		}
	}
	return append(names, "report.html", "MISSING.txt")
}
