package gputrain

import (
	"time"

	"github.com/gputrain/gputrain/internal/codec"
)

// A Result is what became of a task.
type Result struct {
	// Index is the task's place among those of the call; for Broadcast, the
	// node's place.
	Index int
	// Node is where the last attempt ran.
	Node Node
	// Err is why the task failed, or nil. It is the error that came with the
	// result, mostly a *TaskError.
	Err error
	// ExitCode is the command's, or -1 where it did not exit by itself.
	ExitCode int
	// Stdout and Stderr are what the last attempt wrote, as bytes: the beginning of
	// it, if StdoutFile and StderrFile are set. Limits.KeptOutputBytes and KeptTotalBytes
	// say how much is kept in memory. Those of a function are empty if other calls ran in
	// its process meanwhile: see Func.
	Stdout, Stderr []byte
	// StdoutBytes and StderrBytes are how much it wrote altogether.
	StdoutBytes, StderrBytes int64
	// StdoutFile and StderrFile hold the whole stream, up to Limits.OutputBytes, if
	// Stdout and Stderr have only its beginning. They are in the pool's results
	// directory: see WithResultsDir.
	StdoutFile, StderrFile string
	// Truncated means that more than Limits.OutputBytes came of a stream: its file, or
	// Stdout or Stderr, has only the start of it. StdoutBytes and StderrBytes count the
	// rest too. For a function it can also mean that the node has not kept all.
	Truncated bool
	// OutputDir holds the files that match Task.Outputs, under their names
	// relative to Task.Dir. Outputs lists them. Empty means that there are none. A
	// task that failed with CauseOutputs has those that came.
	OutputDir string
	Outputs   []OutputFile
	// Attempts counts how often the task was started.
	Attempts int
	// CostUSD is what the task has cost with all its attempts: the time they ran, at
	// the price of their nodes, each divided by the node's slots.
	CostUSD Price
	// Elapsed is how long the last attempt ran on its node, also if Attach found it
	// there. The node tells it: of commands to a hundredth of a second. It is never
	// negative, and never longer than the time since the attempt was asked for.
	Elapsed time.Duration

	function string     // the function that was called
	value    codec.Body // what it returned, encoded
}

// An OutputFile is one file that a task left.
type OutputFile struct {
	// Name is relative to Result.OutputDir, with slashes.
	Name string
	// Size is in bytes, and SHA256 in hex: both were the same on the node.
	Size   int64
	SHA256 string
}
