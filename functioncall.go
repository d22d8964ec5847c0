package gputrain

import (
	"context"
	"errors"
	"path"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

// call calls a function.
func (n *poolNode) call(ctx context.Context, u *unit, slot int) (Result, *TaskError) {
	r := Result{ExitCode: -1, function: u.task.call.function}
	arg, err := u.task.call.encode() // done before the unit was queued
	if err != nil {
		return r, u.failure(n, CauseNeverStarted, err)
	}
	proc, err := n.worker.get(ctx)
	if err != nil {
		return r, n.judgeCall(ctx, u, nil, err)
	}
	n.started(u)
	begun := time.Now()
	r.value, err = proc.client.Call(ctx, worker.Request{
		Function: u.task.call.function, Arg: arg, Timeout: u.task.Timeout, Meta: n.meta(u, slot),
	})
	r.Elapsed = time.Since(begun)
	if err != nil {
		return r, n.judgeCall(ctx, u, proc, err)
	}
	r.ExitCode = 0
	return r, n.collect(ctx, u, &r)
}

func (n *poolNode) meta(u *unit, slot int) worker.Meta {
	m := u.membership(n)
	return worker.Meta{
		Pool: n.p.id, Rank: m.rank, Nodes: len(m.addrs), NodeRank: n.rank, Slot: slot,
		MasterAddr: m.addrs[0], Addrs: m.addrs, PrivateAddr: n.addr(),
		Scratch: path.Join(n.facts.Root, scratchDir), TaskID: u.id, Attempt: u.attempts,
	}
}

// judgeCall tells apart why a call failed.
func (n *poolNode) judgeCall(ctx context.Context, u *unit, proc *workerProc, err error) *TaskError {
	var remote *worker.RemoteError
	switch {
	case u.ctx.Err() != nil:
		return u.failure(n, CauseCancelled, context.Cause(u.ctx))
	case n.isOver():
		return u.failure(n, CauseNodeLost, n.lastError())
	case errors.As(err, &remote):
		return n.judgeRemote(u, remote)
	case errors.Is(err, worker.ErrWorkerLost) && proc != nil:
		return n.judgeWorker(ctx, u, proc)
	}
	return u.failure(n, CauseNeverStarted, n.p.withoutSecrets(err))
}

func (n *poolNode) judgeRemote(u *unit, remote *worker.RemoteError) *TaskError {
	switch {
	case remote.TimedOut:
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

// judgeWorker says why the process that ran the function died. That is known a
// moment after its end was noticed.
func (n *poolNode) judgeWorker(ctx context.Context, u *unit, proc *workerProc) *TaskError {
	select {
	case <-proc.exited:
	case <-ctx.Done():
		return n.judgeCall(ctx, u, nil, context.Cause(ctx))
	}
	if proc.exitEr != nil && n.isOver() {
		return u.failure(n, CauseNodeLost, n.lastError())
	}
	f := u.failure(n, CauseWorkerLost, errors.New(describeExit(proc.exit, proc.exitEr)))
	if proc.exit.Cause == supervisor.OutOfMemory {
		f.Cause = CauseOutOfMemory
	}
	f.Signal = proc.exit.Signal
	f.Tail = n.p.secrets.text(proc.last.String())
	return f
}
