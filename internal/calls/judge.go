package calls

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

// PackageLevelHint is the hint of an error about a function that a program does not know.
const PackageLevelHint = "make functions with gputrain.Func at package level, so that the program knows them on every node too"

// judge returns why a call failed. p is nil if there was no process to make it in.
func (h *Host) judge(c *Call, p *process, err error) *attempt.Failure {
	var remote *worker.RemoteError
	switch {
	case c.Context.Err() != nil && errors.Is(err, worker.ErrAbandoned):
		return attempt.Failed(attempt.Cancelled, fmt.Errorf("%w: the function ignored for %v that its context had ended; its process is ended", context.Cause(c.Context), cutoff.Grace(c.Context, h.cfg.Grace)))
	case c.Context.Err() != nil:
		return attempt.Failed(attempt.Cancelled, context.Cause(c.Context))
	case errors.Is(err, worker.ErrOverdue):
		h.node.Supervisor().Fail(err)
		return attempt.Failed(attempt.Timeout, fmt.Errorf("ran longer than %v: %w", c.Timeout, err))
	case h.node.IsOver():
		return attempt.Failed(attempt.NodeLost, h.node.Err())
	case errors.Is(err, worker.ErrProtocol) && p != nil: // after the node had kept to it
		h.node.Supervisor().Fail(err)
		return h.judge(c, p, err)
	case errors.Is(err, worker.ErrTooLarge):
		return attempt.Failed(attempt.Outputs, h.callError(c, driver.ErrLimit, err, "Limits.ResultBytes of WithLimits bounds it"))
	case errors.As(err, &remote):
		return judgeRemote(remote)
	case errors.Is(err, worker.ErrWorkerLost) && p != nil:
		return h.judgeLost(c, p)
	case errors.Is(err, worker.ErrUnknownFunction):
		err = h.callError(c, driver.ErrUnknownFunction, err, PackageLevelHint)
	case errors.Is(err, errKilledStarting):
		return attempt.Failed(attempt.WorkerLost, h.cfg.Runner.Secrets.Error(err))
	}
	return attempt.Failed(attempt.NeverStarted, h.cfg.Runner.Secrets.Error(err))
}

// judgeStall returns the failure of a call that was ended since it had stalled, or nil. ctx is that of attempt.Watch.Start.
func (h *Host) judgeStall(ctx context.Context, c *Call, err error) *attempt.Failure {
	if h.node.IsOver() || errors.Is(err, worker.ErrWorkerLost) || errors.Is(err, worker.ErrProtocol) {
		return nil
	}
	var also error
	if errors.Is(err, worker.ErrAbandoned) {
		also = fmt.Errorf("the function ignored for %v that its context had ended; its process is ended", h.cfg.Grace)
	}
	return c.Stalled(ctx, h.cfg.Runner, also)
}

func (h *Host) callError(c *Call, kind, err error, hint string) error {
	return &driver.Error{Provider: h.node.Provider(), Op: "call " + c.Function, Kind: kind, Err: err, Hint: hint}
}

// judgeRemote returns why a call failed for which the worker has answered.
func judgeRemote(remote *worker.RemoteError) *attempt.Failure {
	switch {
	case remote.TimedOut: // its message says so if the function ignored it
		return attempt.Failed(attempt.Timeout, remote)
	case remote.Kind == worker.Panic || remote.Kind == worker.Goexit:
		f := attempt.Failed(attempt.Panic, remote)
		f.Stack = remote.Stack
		return f
	case remote.Kind == worker.NotRun:
		return attempt.Failed(attempt.NeverStarted, remote)
	}
	return attempt.Failed(attempt.Function, remote)
}

// A node whose worker is gone, and that has not reported its end exitPatience and overdue.Grace later, is given up.
const exitPatience = time.Minute

// judgeLost returns why the process that ran the function died. The reason arrives a moment after the end was noticed.
func (h *Host) judgeLost(c *Call, p *process) *attempt.Failure {
	clock := overdue.New(exitPatience, overdue.Grace, h.node.IsUp)
	defer clock.Stop()
	for waiting := true; waiting; {
		select {
		case <-p.exited:
			waiting = false
		case <-c.Context.Done():
			return h.judge(c, nil, context.Cause(c.Context))
		case <-clock.Due():
			if clock.Over() {
				h.node.Supervisor().Fail(errors.New("the process that runs functions is gone, and the node does not report its end"))
				return h.judge(c, nil, worker.ErrWorkerLost)
			}
		}
	}
	if p.exitErr != nil && h.node.IsOver() {
		return attempt.Failed(attempt.NodeLost, h.node.Err())
	}
	if p.exitErr == nil && p.exit.Cause == supervisor.Lapsed {
		return attempt.Failed(attempt.NodeLost, attempt.ErrLapsed)
	}
	f := attempt.Failed(attempt.WorkerLost, errors.New(p.describeExit()))
	if p.exit.Cause == supervisor.OutOfMemory {
		f.Cause = attempt.OutOfMemory
	}
	f.Signal = p.exit.Signal
	f.Tail = h.tail(p)
	return f
}
