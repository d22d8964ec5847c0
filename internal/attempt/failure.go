package attempt

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Cause is why an attempt failed.
type Cause int

const (
	// Exit is an exit code other than 0.
	Exit Cause = iota
	// Signal is a signal that gputrain did not send.
	Signal
	// OutOfMemory is the kernel ending the process for its memory.
	OutOfMemory
	// Timeout is the end of Attempt.Timeout.
	Timeout
	// Cancelled is the end of Attempt.Context.
	Cancelled
	// NodeLost is the loss of the node.
	NodeLost
	// NeverStarted is an attempt that did not run.
	NeverStarted
	// Function is an error that the function returned.
	Function
	// Panic is a panic of the function.
	Panic
	// WorkerLost is the end of the process that ran the function.
	WorkerLost
	// Outputs is a success whose output, files or result could not be brought. After any other failure, files that do not
	// come are part of the error's text.
	Outputs
	// Stalled is the end of an attempt that made no progress: see Attempt.Stall.
	Stalled
)

// A Failure is why an attempt did not succeed. Neither Tail nor Err has a secret in its text.
type Failure struct {
	Cause Cause
	// ExitCode is that of a command that exited, else -1.
	ExitCode int
	// Signal names the signal that ended the process, without SIG.
	Signal string
	// Tail is the last lines of stderr.
	Tail string
	// At is when the attempt ended, by this computer's clock. It is zero if the attempt never began, or if
	// only its files failed.
	At time.Time
	// Stack is that of a panic, on the node, or those of the processes of an attempt that stalled.
	Stack string
	// Err is the cause as an error, or nil if Cause is all that is known.
	Err error
}

// Failed returns a failure without an exit code.
func Failed(cause Cause, err error) *Failure {
	return &Failure{Cause: cause, ExitCode: -1, Err: err}
}

// ErrLapsed is the error of an attempt that was cut off on a node that heard no client for its lease.
var ErrLapsed = &driver.Error{Op: "task", Kind: driver.ErrNodeLost, Err: errors.New("the node was not renewed for its lease, for example since this computer slept, and ended what ran there")}

// errOutputCut is wrapped by the error of a command that ran while the node's disk was full.
var errOutputCut = errors.New("some of its output may be missing")

// diskFull returns the error of a write that found no room on the node's disk. It is syscall.ENOSPC.
func diskFull(n Node, what string, why error) error {
	return fmt.Errorf("%s below %s on node %d: %w (%w); free space there, or ask for more with Spec.DiskGiB",
		what, n.Facts().Root, n.Rank(), syscall.ENOSPC, why)
}

// judge returns why an attempt at a command failed, or nil for a success. ctx is that of [Watch.Start]. err is why the
// attempt's end is not known, or its output not kept.
func (r *Runner) judge(ctx context.Context, n Node, a *Attempt, exit supervisor.Exit, err error) *Failure {
	if exit.Cause == supervisor.Cancelled || errors.Is(err, driver.ErrStalled) {
		if f := a.Stalled(ctx, r, err); f != nil && !n.IsOver() {
			return f
		}
	}
	switch {
	case err != nil:
		return r.judgeError(n, a, err)
	case exit.Cause == supervisor.Cancelled && a.Context.Err() != nil:
		return a.cancelled()
	case exit.Cause == supervisor.Cancelled && n.IsOver():
		return Failed(NodeLost, n.Err())
	}
	return judgeExit(n, a, exit)
}

// judgeError judges an attempt whose end is not known, or whose output could not be kept.
func (r *Runner) judgeError(n Node, a *Attempt, err error) *Failure {
	switch {
	case a.Context.Err() != nil:
		return a.cancelled()
	case errors.Is(err, supervisor.ErrOverdue):
		return Failed(Timeout, fmt.Errorf("ran longer than %v: %w", a.Timeout, err))
	case n.IsOver():
		return Failed(NodeLost, n.Err())
	case errors.Is(err, supervisor.ErrNotStarted) && errors.Is(err, supervisor.ErrDiskFull):
		return Failed(NeverStarted, r.Secrets.Error(diskFull(n, "start "+a.ID, err)))
	case errors.Is(err, supervisor.ErrNotStarted):
		return Failed(NeverStarted, r.Secrets.Error(err))
	}
	return Failed(Outputs, r.Secrets.Error(err))
}

// judgeExit judges an attempt whose end the node has reported.
func judgeExit(n Node, a *Attempt, exit supervisor.Exit) *Failure {
	var full error
	if exit.DiskFull {
		full = diskFull(n, "run "+a.ID, errOutputCut)
	}
	f := &Failure{ExitCode: -1, Signal: exit.Signal}
	switch exit.Cause {
	case supervisor.Exited:
		switch {
		case exit.Code != 0:
			return &Failure{Cause: Exit, ExitCode: exit.Code, Err: full}
		case full != nil: // its output may have lost bytes, and that must not look like success
			return Failed(Outputs, full)
		}
		return nil
	case supervisor.Signaled:
		f.Cause, f.Err = Signal, full
	case supervisor.OutOfMemory:
		f.Cause = OutOfMemory
	case supervisor.TimedOut:
		f.Cause, f.Err = Timeout, fmt.Errorf("ran longer than %v", a.Timeout)
	case supervisor.Cancelled:
		f.Cause = Cancelled
	case supervisor.Lapsed:
		return Failed(NodeLost, ErrLapsed)
	default:
		f.Cause, f.Err = Signal, errors.New("the task was killed, and so was what watched it on the node")
	}
	return f
}
