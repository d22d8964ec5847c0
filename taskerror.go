package gputrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/supervisor"
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
	// CauseOutputs is a success whose Outputs are not there or could not be brought
	// back, or whose result, or a value of its stream, is larger than
	// Limits.ResultBytes.
	CauseOutputs
)

// String returns the cause in lower case: "out of memory".
func (c Cause) String() string {
	return nameOf(c, "exit", "signal", "out of memory", "timed out", "cancelled", "node lost",
		"never started", "function error", "panic", "worker lost", "outputs")
}

// shownFailures is how many of the tasks that failed an error shows, if they are more, and
// shownBytes how much of each.
const (
	shownFailures = 10
	shownBytes    = 300
)

// A tasksError is what was wrong with several tasks of one call. errors.Is and errors.As
// look at each.
type tasksError struct {
	errs    []error
	tasks   int    // of the call
	verdict string // what became of those with an error: "failed"
}

// joinTasks returns the error of a call with so many tasks, or nil if none of them has one.
func joinTasks(errs []error, tasks int, verdict string) error {
	if len(errs) == 0 {
		return nil
	}
	return &tasksError{errs, tasks, verdict}
}

// Error is the text of each, or, if they are many, a line that counts them and a line for
// each of the first.
func (e *tasksError) Error() string {
	if len(e.errs) <= shownFailures {
		return errors.Join(e.errs...).Error()
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d tasks %s%s; %d of them:", len(e.errs), e.tasks, e.verdict, e.causes(), shownFailures)
	for _, err := range e.errs[:shownFailures] {
		line, _, _ := strings.Cut(err.Error(), "\n")
		if len(line) > shownBytes {
			line = strings.ToValidUTF8(line[:shownBytes], "") + " ..."
		}
		b.WriteString("\n" + line)
	}
	return b.String()
}

// causes counts the causes of tasks that ran: " (900 exit, 100 timed out)".
func (e *tasksError) causes() string {
	counts := map[Cause]int{}
	for _, err := range e.errs {
		if failed, ok := err.(*TaskError); ok {
			counts[failed.Cause]++
		}
	}
	var words []string
	for _, cause := range slices.Sorted(maps.Keys(counts)) {
		words = append(words, fmt.Sprintf("%d %v", counts[cause], cause))
	}
	if words == nil {
		return ""
	}
	return " (" + strings.Join(words, ", ") + ")"
}

// Unwrap returns the errors of all tasks that have one, in their order.
func (e *tasksError) Unwrap() []error { return e.errs }

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
	case e.Err != nil && e.Err.Error() != e.Cause.String() && e.Err.Error() != context.Canceled.Error():
		fmt.Fprintf(&b, "%v: %s", e.Cause, e.beyond())
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

// beyond is what the error says that the cause does not say already.
func (e *TaskError) beyond() string {
	text := e.Err.Error()
	for cause, same := range map[Cause]error{CauseCancelled: context.Canceled, CauseNeverStarted: supervisor.ErrNotStarted} {
		if e.Cause == cause {
			text = strings.TrimPrefix(text, same.Error()+": ")
		}
	}
	return text
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
