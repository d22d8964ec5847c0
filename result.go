package gputrain

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Result is the outcome of a task.
type Result struct {
	// Task is the task's ID, as its events and folders have it, and Name its name: Task.Name or, without one, "task 0" by
	// Index, "node 0" for Broadcast, and the training's name and the rank for a process of [Compute.Train], which has no ID.
	Task, Name string
	// Index is the task's place among those of the call, from 0; for Broadcast, the
	// node's place.
	Index int
	// Node is the node on which the last attempt ran.
	Node Node
	// Err is why the task failed, or nil. It is the error that was returned with the result, mostly
	// a *TaskError.
	Err error
	// ExitCode is the command's, or -1 if it did not exit by itself.
	ExitCode int
	// Stdout and Stderr are what the last attempt wrote, as bytes: only the beginning if StdoutFile
	// and StderrFile are set. Limits.KeptOutputBytes and KeptTotalBytes say how much is kept in
	// memory. They are empty for a function if other calls ran in its process meanwhile: see Func.
	//
	// They have what comes after a command's end too, until no process holds the streams. What the
	// command has left in its process group may print for two seconds, unless a signal ended the
	// command, and is then ended; a filter, whose stdin is a pipe, such as the tee of
	// "exec > >(tee log)", has ten. A process of another group may print for two seconds, and runs on.
	Stdout, Stderr []byte
	// StdoutBytes and StderrBytes are how much it wrote altogether.
	StdoutBytes, StderrBytes int64
	// StdoutFile and StderrFile hold the whole stream, up to Limits.OutputBytes, if
	// Stdout and Stderr have only its beginning. They are in the pool's results
	// directory: see WithResultsDir.
	StdoutFile, StderrFile string
	// Truncated means that a stream was longer than Limits.OutputBytes: its file, or Stdout or
	// Stderr, has only the start of it. StdoutBytes and StderrBytes count the rest too. For a
	// function it can also mean that the node has not kept all.
	Truncated bool
	// OutputDir holds the files that match Task.Outputs, under their names relative to Task.Dir.
	// Outputs lists them. Empty means that there are none. They are those of the last attempt; if
	// that failed without any, they are those of the last attempt before it that brought some:
	// OutputFile.Attempt says which. The files of other attempts stay on this computer too, in
	// folders of their own beside OutputDir's, and are not listed.
	OutputDir string
	Outputs   []OutputFile
	// Attempts counts how often the task was started.
	Attempts int
	// CostUSD is what the task has cost with all its attempts: the time they ran, at
	// the price of their nodes, each divided by the node's slots.
	CostUSD Price
	// Elapsed is how long the last attempt ran on its node, also if Attach found it there. The node
	// measures it, for commands to a hundredth of a second. It is never negative, and never longer
	// than the time since the attempt was asked for.
	Elapsed time.Duration

	function string     // the function that was called
	value    codec.Body // what it returned, encoded
}

// An OutputFile is one file that a task left.
type OutputFile struct {
	// Name is relative to Result.OutputDir, with slashes.
	Name string
	// Size is in bytes, and SHA256 in hex. Both match the file on the node, or the part of it that
	// was there when it came.
	Size   int64
	SHA256 string
	// Attempt is the attempt that wrote it, as Result.Attempts counts them. It is 0 in a result of an
	// earlier version that Attach has found.
	Attempt int
}

// String says in one line which task it was, how it ended, on which node, how long it ran, what that cost, and
// how much it left. It does not contain the task's output.
func (r Result) String() string {
	var b strings.Builder
	name := cmp.Or(r.Name, fmt.Sprintf("task %d", r.Index))
	if r.Task != "" {
		fmt.Fprintf(&b, "%s: ", r.Task)
	}
	switch {
	case r.Err != nil:
		b.WriteString(firstLine(r.Err.Error()))
	case r.Attempts == 0:
		b.WriteString(name + ": not run")
	default:
		fmt.Fprintf(&b, "%s on node %d: done", name, r.Node.Rank)
		if r.Attempts > 1 {
			fmt.Fprintf(&b, " at attempt %d", r.Attempts)
		}
	}
	if r.Attempts > 0 {
		fmt.Fprintf(&b, ", %v", output.Rounded(r.Elapsed))
		if usd, known := r.CostUSD.USD(); known {
			b.WriteString(", " + dollars(usd))
		}
	}
	for _, stream := range []struct {
		name string
		n    int64
	}{{"stdout", r.StdoutBytes}, {"stderr", r.StderrBytes}} {
		if stream.n > 0 {
			fmt.Fprintf(&b, ", %s %s", stream.name, output.Size(stream.n))
		}
	}
	if n := len(r.Outputs); n > 0 {
		fmt.Fprintf(&b, ", %s in %s", count(n, "output"), r.OutputDir)
	}
	return b.String()
}

// String says in one line what the pool has cost, what it costs per hour, and what it
// costs at most.
func (c Cost) String() string {
	running := 0
	for _, n := range c.Nodes {
		if n.To.IsZero() {
			running++
		}
	}
	parts := []string{dollars(c.USD) + " so far"}
	if running == 0 {
		parts = append(parts, "no machine runs")
	} else {
		parts = append(parts, fmt.Sprintf("%s for %s an hour", count(running, "machine"), dollars(c.HourlyUSD)))
	}
	if c.Unknown > 0 {
		parts = append(parts, "not counting "+count(c.Unknown, "machine")+" of unknown price")
	}
	switch {
	case running == 0:
	case c.Bounded:
		parts = append(parts, "at most "+dollars(c.AtMostUSD)+" if this program dies now")
	default:
		parts = append(parts, "without a bound if this program dies now")
	}
	if c.OverspendUSD > 0 {
		parts = append(parts, dollars(c.OverspendUSD)+" over the budget then")
	}
	return strings.Join(parts, ", ")
}

// count returns "1 machine" or "3 machines".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// dollars formats an amount for a person.
func dollars(usd float64) string { return driver.USD(usd).String() }

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}
