package gputrain

import (
	"context"
	"errors"
	"fmt"
	"path"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// call calls a function. Where it goes on though its context has ended, gone is
// closed once the process that runs it is no more; else it is nil.
func (n *poolNode) call(ctx context.Context, u *unit, slot int) (r Result, failure *TaskError, release func(), gone <-chan struct{}) {
	r, release = Result{ExitCode: -1, function: u.task.call.function}, func() {}
	arg, err := u.task.call.encode() // done before the unit was queued
	if err != nil {
		return r, u.failure(n, CauseNeverStarted, err), release, nil
	}
	proc, err := n.worker.get(ctx)
	if err != nil {
		return r, n.judgeCall(ctx, u, nil, err), release, nil
	}
	n.started(u)
	c := &attemptedCall{u: u, proc: proc, place: n.place(u, slot), since: now(), followed: now()}
	c.output = proc.output.begin(u)
	request := worker.Request{
		Function: u.task.call.function, Arg: arg, Stream: u.task.call.stream, Timeout: u.task.Timeout,
		Members: u.callMembers(n), Place: c.place, Scratch: len(u.task.Outputs) > 0, Stats: &c.stats,
	}
	return n.answer(ctx, c, func() (codec.Body, func(), error) {
		if u.kept || request.Scratch { // the scratch directory goes when its outputs are here
			return proc.client.Hold(ctx, request)
		}
		value, err := proc.client.Call(ctx, request)
		return value, release, err
	})
}

// An attemptedCall is one attempt at a call in a worker, made by this program or found.
type attemptedCall struct {
	u      *unit
	proc   *workerProc
	place  worker.Place
	output *callOutput
	stats  worker.Stats // what the node says of its end

	since    time.Time     // it cannot have begun before
	followed time.Time     // from when on this program has waited for its end
	ran      time.Duration // until then, as the node says
}

// elapsed is how long the function ran, once it is over: the node's word, as far as it
// can be true.
func (c *attemptedCall) elapsed() time.Duration {
	ran := c.ran + now().Sub(c.followed)
	if c.stats.Answered {
		ran = c.stats.Elapsed
	}
	return max(min(ran, now().Sub(c.since)), 0)
}

// answer waits for the answer to a call, and brings what it printed and its outputs.
func (n *poolNode) answer(ctx context.Context, c *attemptedCall, wait func() (codec.Body, func(), error)) (r Result, failure *TaskError, release func(), gone <-chan struct{}) {
	r = Result{ExitCode: -1, function: c.u.task.call.function}
	var err error
	r.value, release, err = wait()
	r.Elapsed = c.elapsed()
	goesOn := errors.Is(err, worker.ErrAbandoned)
	gone = n.worker.leave(c.proc, goesOn)
	if err != nil {
		failure = n.judgeCall(ctx, c.u, c.proc, err) // after which a dead process has no more output
	}
	kept := c.output.finish(ctx, &r, c.stats, goesOn)
	switch {
	case failure != nil:
		return r, failure, release, gone
	case kept != nil:
		return r, c.u.failure(n, CauseOutputs, n.p.withoutSecrets(kept)), release, nil
	}
	r.ExitCode = 0
	if len(c.u.task.Outputs) == 0 {
		return r, nil, release, nil
	}
	scratch := path.Join(c.proc.scratch, worker.ScratchName(c.place))
	failure = n.collect(ctx, c.u, &r, scratch, scratch+worker.MarkSuffix)
	return r, failure, release, nil
}

// place is what the function is told of its call.
func (n *poolNode) place(u *unit, slot int) worker.Place {
	return worker.Place{Rank: u.rank(), Slot: slot, TaskID: u.id, Attempt: u.attempts, Accelerators: n.devices(slot)}
}

// callMembers are the nodes of the unit's call.
func (u *unit) callMembers(n *poolNode) *worker.Members {
	if u.cluster == nil {
		return n.worker.alone()
	}
	return u.cluster()
}

func membersOf(nodes []*poolNode) *worker.Members {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.addr()
	}
	return worker.NewMembers(addrs...)
}

// nodeFacts is what functions are told of the node, with a folder for their scratch directories.
func (n *poolNode) nodeFacts(scratch string) worker.NodeFacts {
	public := n.p.nodeOf(n)
	return worker.NodeFacts{
		Pool: n.p.id, Rank: n.rank(), PrivateAddr: public.PrivateAddr, PublicAddr: public.PublicAddr,
		Scratch: scratch,
	}
}

// devices are the accelerators that a call in the slot may use.
func (n *poolNode) devices(slot int) []string { return n.slotDevices().visible(slot, len(n.slots)) }

// judgeCall tells apart why a call failed.
func (n *poolNode) judgeCall(ctx context.Context, u *unit, proc *workerProc, err error) *TaskError {
	var remote *worker.RemoteError
	switch {
	case u.ctx.Err() != nil && errors.Is(err, worker.ErrAbandoned):
		return u.failure(n, CauseCancelled, fmt.Errorf("%w: the function ignored for %v that its context had ended; its process is ended", context.Cause(u.ctx), functionGrace))
	case u.ctx.Err() != nil:
		return u.failure(n, CauseCancelled, context.Cause(u.ctx))
	case errors.Is(err, worker.ErrOverdue):
		n.super.Fail(err)
		return u.failure(n, CauseTimeout, fmt.Errorf("ran longer than %v: %w", u.task.Timeout, err))
	case n.isOver():
		return u.failure(n, CauseNodeLost, n.lastError())
	case errors.Is(err, worker.ErrProtocol) && proc != nil: // after it had spoken well
		n.super.Fail(err)
		return n.judgeCall(ctx, u, proc, err)
	case errors.Is(err, worker.ErrTooLarge):
		return u.failure(n, CauseOutputs, &Error{Provider: n.provider(), Op: "call " + u.task.call.function, Kind: ErrLimit, Err: err, Hint: "Limits.ResultBytes of WithLimits bounds it"})
	case errors.As(err, &remote):
		return n.judgeRemote(u, remote)
	case errors.Is(err, worker.ErrWorkerLost) && proc != nil:
		return n.judgeWorker(ctx, u, proc)
	case errors.Is(err, worker.ErrUnknownFunction):
		err = &Error{Provider: n.provider(), Op: "call " + u.task.call.function, Kind: ErrUnknownFunction, Err: err, Hint: hintPackageLevel}
	case errors.Is(err, errKilledStarting):
		return u.failure(n, CauseWorkerLost, n.p.withoutSecrets(err))
	}
	return u.failure(n, CauseNeverStarted, n.p.withoutSecrets(err))
}

func (n *poolNode) judgeRemote(u *unit, remote *worker.RemoteError) *TaskError {
	switch {
	case remote.TimedOut: // its message says so where the function ignored it
		return u.failure(n, CauseTimeout, remote)
	case remote.Kind == worker.Panic || remote.Kind == worker.Goexit:
		f := u.failure(n, CausePanic, remote)
		f.Stack = remote.Stack
		return f
	case remote.Kind == worker.NotRun:
		return u.failure(n, CauseNeverStarted, remote)
	}
	return u.failure(n, CauseFunction, remote)
}

// A node whose worker is gone, and that has not reported its end exitPatience and
// overdue.Grace later, is given up.
const exitPatience = time.Minute

// judgeWorker says why the process that ran the function died. That is known a
// moment after its end was noticed.
func (n *poolNode) judgeWorker(ctx context.Context, u *unit, proc *workerProc) *TaskError {
	told := overdue.New(exitPatience, overdue.Grace, n.isUp)
	defer told.Stop()
	for waiting := true; waiting; {
		select {
		case <-proc.exited:
			waiting = false
		case <-ctx.Done():
			return n.judgeCall(ctx, u, nil, context.Cause(ctx))
		case <-told.Due():
			if told.Over() {
				n.super.Fail(errors.New("the process that runs functions is gone, and the node does not tell its end"))
				return n.judgeCall(ctx, u, nil, worker.ErrWorkerLost)
			}
		}
	}
	if proc.exitEr != nil && n.isOver() {
		return u.failure(n, CauseNodeLost, n.lastError())
	}
	f := u.failure(n, CauseWorkerLost, errors.New(describeExit(proc.exit, proc.exitEr)))
	if proc.exit.Cause == supervisor.OutOfMemory {
		f.Cause = CauseOutOfMemory
	}
	f.Signal = proc.exit.Signal
	f.Tail = n.p.secrets.text(proc.output.last.String())
	return f
}
