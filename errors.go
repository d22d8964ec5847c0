package gputrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/providers/driver"
)

// Kinds of failures, which a program can test for with errors.Is.
var (
	// ErrInvalid is a mistake in what was asked for: a Spec, a Task, a Config.
	ErrInvalid = driver.ErrInvalid
	// ErrNoOffers means that nothing the provider has satisfies the spec.
	ErrNoOffers = driver.ErrNoOffers
	// ErrBalance means that the account has too little money. It is found before anything is rented
	// if the provider tells.
	ErrBalance = driver.ErrBalance
	// ErrNoCapacity means that nothing that satisfies the spec is free now.
	ErrNoCapacity = driver.ErrNoCapacity
	// ErrQuota means that this account may not have more.
	ErrQuota = driver.ErrQuota
	// ErrAuth means that a credential is missing, wrong, or not enough.
	ErrAuth = driver.ErrAuth
	// ErrRateLimited means that the provider wants fewer calls.
	ErrRateLimited = driver.ErrRateLimited
	// ErrNotFound means that what was named does not exist.
	ErrNotFound = driver.ErrNotFound
	// ErrUnsupported means that the provider, or the node, cannot do this.
	ErrUnsupported = driver.ErrUnsupported
	// ErrUnavailable means that the provider, its engine or a node does not
	// answer, or not yet.
	ErrUnavailable = driver.ErrUnavailable
	// ErrPreempted means that the provider took the machine back.
	ErrPreempted = driver.ErrPreempted
	// ErrNodeLost means that a node was lost while it was needed, more often
	// than the task may be started again.
	ErrNodeLost = driver.ErrNodeLost
	// ErrHostKey means that a server's host key has changed, or is not the one that is required.
	// The message names both fingerprints.
	ErrHostKey = driver.ErrHostKey
	// ErrBootstrap means that a node could not be made ready.
	ErrBootstrap = driver.ErrBootstrap
	// ErrClosed means that the pool has ended.
	ErrClosed = driver.ErrClosed
	// ErrExpired means that the pool has lived for its TTL.
	ErrExpired = driver.ErrExpired
	// ErrBudget means that Spec.BudgetUSD is spent, or would be.
	ErrBudget = driver.ErrBudget
	// ErrLedger means that the pool's ledger cannot be written or read, so nothing is rented.
	ErrLedger = driver.ErrLedger
	// ErrInUse means that another program has the pool.
	ErrInUse = driver.ErrInUse
	// ErrFenced means that another program has taken the pool over with Attach.
	ErrFenced = driver.ErrFenced
	// ErrNoInit means that main, or TestMain, does not call Init first.
	ErrNoInit = driver.ErrNoInit
	// ErrUnknownFunction means that the node's program has no such function.
	ErrUnknownFunction = driver.ErrUnknownFunction
	// ErrTimeout means that a task ran longer than its Timeout.
	ErrTimeout = driver.ErrTimeout
	// ErrOutOfMemory means that the kernel ended a task for its memory.
	ErrOutOfMemory = driver.ErrOutOfMemory
	// ErrStalled means that a task made no progress for its StallTimeout, or said nothing for Training.StartTimeout.
	ErrStalled = driver.ErrStalled
	// ErrIdle means that accelerators did nothing for Spec.IdleTimeout or Training.IdleTimeout.
	ErrIdle = driver.ErrIdle
	// ErrAccelerator means that an accelerator is broken. The message names the node, the device and the fault.
	ErrAccelerator = driver.ErrAccelerator
	// ErrNoProgress means that a training gets no further, however often it starts again.
	ErrNoProgress = driver.ErrNoProgress
	// ErrLimit means that a node sent more than [Limits] allow.
	ErrLimit = driver.ErrLimit
	// ErrOutsideLink means that a folder of an Upload, a Download or an Image has
	// links that lead out of it. The message names them; a [FileOption], or
	// Image.FollowOutsideLinks, says what else to do with such links.
	ErrOutsideLink = transfer.ErrOutsideLink
)

// An Error is a provider's or a pool's failure. It unwraps to its kind, one of the Err values
// above, and to its cause, so that errors.Is(err, ErrQuota) and errors.As both work. It has
// the fields Provider, Op (what was being done), Kind, RequestID, Hint (what to do next) and
// Err (the cause).
type Error = driver.Error

// A Cause is the reason why a task ended without success.
type Cause int

const (
	// CauseExit is an exit code other than 0.
	CauseExit Cause = iota
	// CauseSignal is a signal that gputrain did not send. Exit codes 130, 141 and 143 count as
	// SIGINT, SIGPIPE and SIGTERM, as in the shell.
	CauseSignal
	// CauseOutOfMemory means that the kernel ended the task for its memory.
	CauseOutOfMemory
	// CauseTimeout means that the task ran longer than Task.Timeout.
	CauseTimeout
	// CauseCancelled is the end of a context, or of the pool, or the failure of a task that is
	// Critical: TaskError.Err says which.
	CauseCancelled
	// CauseNodeLost means that nodes were lost more often than the task may be started again.
	CauseNodeLost
	// CauseNeverStarted means that the task never ran: its directory is missing, or its program
	// could not be shipped.
	CauseNeverStarted
	// CauseFunction is an error that the function returned.
	CauseFunction
	// CausePanic is a panic of the function; TaskError.Stack is the node's.
	CausePanic
	// CauseWorkerLost means that the process that ran the function has ended.
	CauseWorkerLost
	// CauseOutputs means that the task succeeded, but its Outputs are missing or could not be
	// brought back (after another failure, that is only part of its text), or its result, or a value
	// of its stream, is larger than Limits.ResultBytes.
	CauseOutputs
	// CauseStalled means that the task made no progress for its StallTimeout.
	CauseStalled
	// CauseIdle means that an accelerator of a training did nothing for its IdleTimeout.
	CauseIdle
	// CauseAccelerator means that an accelerator failed: TaskError.Err says which, and how.
	CauseAccelerator
	// CausePeer means that a process of a training failed only because another one had.
	CausePeer
)

// String returns the cause in lower case: "out of memory".
func (c Cause) String() string {
	return nameOf(c, "exit", "signal", "out of memory", "timed out", "cancelled", "node lost",
		"never started", "function error", "panic", "worker lost", "outputs", "stalled", "idle", "accelerator failed", "followed from another failure")
}

// If more than shownFailures tasks failed, an error shows only so many of them, with shownBytes
// bytes each.
const (
	shownFailures = 10
	shownBytes    = 300
)

// A tasksError is the error of a call of which several tasks failed. errors.Is and errors.As find
// each of their errors.
type tasksError struct {
	errs      []error
	tasks     int    // of the call
	verdict   string // what happened to tasks with an error: "failed"
	cancelled int    // because of the first of errs, a critical task's; none of these is in errs
}

// joinTasks returns the error of a call with so many tasks, or nil if none of them has one.
func joinTasks(errs []error, tasks int, verdict string) error {
	if len(errs) == 0 {
		return nil
	}
	return &tasksError{errs: errs, tasks: tasks, verdict: verdict}
}

// joinResults returns the error of a call with these results, or nil if none has one. If a critical task has failed, its
// error is the first, and tasks that were only cancelled because of it are counted.
func joinResults(results []Result) error {
	cancelled, first := 0, -1 // the index of the critical task
	for i := range results {
		if why, ok := causedBy(results[i].Err); ok {
			cancelled, first = cancelled+1, why.first.Index
		}
	}
	var errs []error
	if first >= 0 && results[first].Err != nil {
		errs = append(errs, results[first].Err)
	}
	for i := range results {
		if _, echo := causedBy(results[i].Err); results[i].Err != nil && i != first && !echo {
			errs = append(errs, results[i].Err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &tasksError{errs: errs, tasks: len(results), verdict: "failed", cancelled: cancelled}
}

// criticalGrace is the time between TERM and KILL of tasks that are cancelled because a critical one has failed.
const criticalGrace = 500 * time.Millisecond

// A criticalError is why a task was cancelled: a critical one of the same call has failed.
type criticalError struct{ first *TaskError }

func (e *criticalError) Error() string {
	return "a critical task of the call has failed: " + firstLine(e.first.Error())
}

func (e *criticalError) Unwrap() error { return e.first }

// KillGrace is for cutoff.Grace.
func (e *criticalError) KillGrace() time.Duration { return criticalGrace }

// causedBy returns the failure of a critical task because of which a task was cancelled, if it was.
func causedBy(err error) (*criticalError, bool) {
	failed, ok := err.(*TaskError)
	if !ok || failed.Cause != CauseCancelled {
		return nil, false
	}
	return errors.AsType[*criticalError](failed.Err)
}

// Error returns the text of each error, or, if there are many, a line that counts them and a line
// for each of the first.
func (e *tasksError) Error() string {
	also := ""
	if e.cancelled > 0 {
		also = "\n" + count(e.cancelled, "other task") + " cancelled because of the first failure, of a critical task"
	}
	if len(e.errs) <= shownFailures {
		return errors.Join(e.errs...).Error() + also
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
	return b.String() + also
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

// A TaskError describes why a task failed. errors.Is finds [ErrTimeout], [ErrOutOfMemory],
// [ErrNodeLost], context.Canceled and the like in it, and syscall.ENOSPC if the disk was full: the
// node's, or this machine's if output is kept here.
type TaskError struct {
	// Index and Name are the task's, and Node is the last one on which it ran. Of a [Training], Index is the process or, with
	// Torchrun and MPI, the node in the gang. Index is -1 for a node or the gang as a whole, and Node.Rank is -1 if no node is to
	// blame, or none that is known.
	Index int
	Name  string
	Node  Node
	// Attempt counts from 1; 0 means that it was never started.
	Attempt int
	Cause   Cause
	// Rank is the process of a [Training] that failed, or -1 if it is not known, or none. Step is the last step that the task
	// reported, or 0.
	Rank int
	Step int64
	// ExitCode is the command's, or -1 if it did not exit by itself.
	ExitCode int
	// Signal is the name of the signal that ended it, without SIG: "KILL".
	Signal string
	// Tail is the last lines of stderr, without secrets.
	Tail string
	// Stack is the stack of a panic, on the node, or of the processes of a task that stalled, or the traceback of the exception
	// that ended a process of [Torchrun], if torch's decorator record is on its main function.
	Stack string
	// Err is the cause as an error, if there is one.
	Err error
}

// Error names the task, its node and the cause, and ends with the last lines of stderr.
func (e *TaskError) Error() string {
	var b strings.Builder
	b.WriteString(e.Name)
	if node := nodeLabel(e.Node.Rank); e.Attempt > 0 && e.Node.Rank >= 0 && e.Name != node {
		b.WriteString(" on " + node)
	}
	if e.Attempt > 1 {
		fmt.Fprintf(&b, " (attempt %d)", e.Attempt)
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

// nodeLabel names a node, and an unnamed task of a broadcast on it.
func nodeLabel(rank int) string { return fmt.Sprintf("node %d", rank) }

// beyond returns what the error says beyond the cause's own text.
func (e *TaskError) beyond() string {
	text := e.Err.Error()
	for cause, same := range map[Cause]error{CauseCancelled: context.Canceled, CauseNeverStarted: supervisor.ErrNotStarted} {
		if e.Cause == cause {
			text = strings.TrimPrefix(text, same.Error()+": ")
		}
	}
	return text
}

// why adds the error that explains an exit code or a signal, if there is one.
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
	case CauseStalled:
		errs = append(errs, ErrStalled)
	case CauseIdle:
		errs = append(errs, ErrIdle)
	case CauseAccelerator:
		errs = append(errs, ErrAccelerator)
	case CauseCancelled:
		if _, echo := causedBy(e); echo || !errors.Is(e.Err, context.DeadlineExceeded) {
			errs = append(errs, context.Canceled)
		}
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// A BootstrapError describes why a node could not be made ready. errors.Is finds [ErrBootstrap] in
// it.
type BootstrapError struct {
	// Node is the node, and Phase the phase that failed: "before 1/2", "packages",
	// "python", "pip", "files", "setup 1/2".
	Node  Node
	Phase string
	// ExitCode is that of the phase's command, or -1 if there was none.
	ExitCode int
	// Tail is the last lines that the phase wrote, without secrets.
	Tail string
	// Elapsed is how long the phase ran.
	Elapsed time.Duration
	// Err is the cause.
	Err error
}

// Error names node and phase, and ends with the last lines.
func (e *BootstrapError) Error() string {
	s := fmt.Sprintf("bootstrap of node %d: %s: %v", e.Node.Rank, e.Phase, e.Err)
	if e.Tail != "" {
		s += "\n\t" + strings.ReplaceAll(strings.TrimRight(e.Tail, "\n"), "\n", "\n\t")
	}
	return printable.Text(s)
}

// Unwrap returns ErrBootstrap and the cause.
func (e *BootstrapError) Unwrap() []error { return []error{ErrBootstrap, e.Err} }

// nameOf returns the name of a constant. Constants count from 0.
func nameOf[T ~int](v T, names ...string) string {
	if v < 0 || int(v) >= len(names) {
		return fmt.Sprintf("%T(%d)", v, int(v))
	}
	return names[v]
}
