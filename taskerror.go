package gputrain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/internal/printable"
)

// A Cause is why a task ended without success.
type Cause int

const (
	// CauseExit is an exit code other than 0.
	CauseExit Cause = iota
	// CauseSignal is a signal that gputrain did not send. Exit codes 130, 141
	// and 143 count as SIGINT, SIGPIPE and SIGTERM, as the shell has them.
	CauseSignal
	// CauseOutOfMemory is the kernel, ending the task for its memory.
	CauseOutOfMemory
	// CauseTimeout is Task.Timeout.
	CauseTimeout
	// CauseCancelled is the end of a context, or of the pool.
	CauseCancelled
	// CauseNodeLost is the loss of the node, more often than MaxNodeLosses.
	CauseNodeLost
	// CauseNeverStarted is a task that never ran: its directory is missing,
	// its program could not be shipped.
	CauseNeverStarted
	// CauseFunction is an error that the function returned.
	CauseFunction
	// CausePanic is a panic of the function; TaskError.Stack is the node's.
	CausePanic
	// CauseWorkerLost is the end of the process that ran the function.
	CauseWorkerLost
	// CauseOutputs is a success whose Outputs could not be brought back, or whose
	// result, or a value of its stream, is larger than Limits.ResultBytes.
	CauseOutputs
)

// String returns the cause in lower case: "out of memory".
func (c Cause) String() string {
	return nameOf(c, "exit", "signal", "out of memory", "timed out", "cancelled", "node lost",
		"never started", "function error", "panic", "worker lost", "outputs")
}

// A TaskError is why a task failed. errors.Is finds [ErrTimeout],
// [ErrOutOfMemory], [ErrNodeLost], context.Canceled and the like in it, and
// syscall.ENOSPC where the disk was full: the node's, or, for output and outputs
// that are kept here, this machine's.
type TaskError struct {
	// Index and Name are the task's, and Node where it ran last.
	Index int
	Name  string
	Node  Node
	// Attempt counts from 1; 0 means that it was never started.
	Attempt int
	Cause   Cause
	// ExitCode is the command's, or -1 where it did not exit by itself.
	ExitCode int
	// Signal is the name of the signal that ended it, without SIG: "KILL".
	Signal string
	// Tail is the last lines of stderr, without secrets.
	Tail string
	// Stack is the stack of a panic, on the node.
	Stack string
	// Err is the cause as an error, where there is one.
	Err error
}

// Error says which task, where, why, and ends with the last lines of stderr.
func (e *TaskError) Error() string {
	var b strings.Builder
	b.WriteString(e.Name)
	if e.Attempt > 0 {
		fmt.Fprintf(&b, " on node %d", e.Node.Rank)
		if e.Attempt > 1 {
			fmt.Fprintf(&b, " (attempt %d)", e.Attempt)
		}
	}
	b.WriteString(": ")
	switch {
	case e.Cause == CauseExit:
		fmt.Fprintf(&b, "exit code %d", e.ExitCode)
		e.why(&b)
	case e.Cause == CauseSignal:
		if e.Signal == "" { // the shell that would know was ended too
			b.WriteString("ended by a signal")
		} else {
			b.WriteString("ended by signal SIG" + e.Signal)
		}
		e.why(&b)
	case e.Err != nil && (e.Cause == CauseFunction || e.Cause == CausePanic || e.Cause == CauseNodeLost && errors.Is(e.Err, ErrNodeLost)):
		b.WriteString(e.Err.Error())
	case e.Err != nil && e.Err.Error() != e.Cause.String():
		fmt.Fprintf(&b, "%v: %v", e.Cause, e.Err)
	default:
		b.WriteString(e.Cause.String())
	}
	if e.Stack != "" {
		b.WriteString("\n" + strings.TrimRight(e.Stack, "\n"))
	} else if tail := strings.TrimRight(e.Tail, "\n"); tail != "" {
		b.WriteString("\n\t" + strings.ReplaceAll(tail, "\n", "\n\t"))
	}
	return printable.Text(b.String())
}

// why adds what is known beyond an exit code or a signal.
func (e *TaskError) why(b *strings.Builder) {
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
}

// Unwrap returns the kind of failure, as one of the package's Err values or
// context.Canceled, and the cause.
func (e *TaskError) Unwrap() []error {
	var errs []error
	switch e.Cause {
	case CauseOutOfMemory:
		errs = append(errs, ErrOutOfMemory)
	case CauseTimeout:
		errs = append(errs, ErrTimeout)
	case CauseNodeLost:
		errs = append(errs, ErrNodeLost)
	case CauseCancelled:
		if !errors.Is(e.Err, context.DeadlineExceeded) {
			errs = append(errs, context.Canceled)
		}
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}
