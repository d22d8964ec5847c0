package gputrain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
)

// cancelGrace is how long a task has between TERM and KILL.
const cancelGrace = 10 * time.Second

// diskFull is the error of what found no room on the node's disk, below the
// pool's folder there. It is syscall.ENOSPC.
func (n *poolNode) diskFull(what string, why error) error {
	return fmt.Errorf("%s below %s on node %d: %w (%w); free space there, or ask for more with Spec.DiskGiB",
		what, n.facts.Root, n.rank(), syscall.ENOSPC, why)
}

var errOutputCut = errors.New("some of its output may be missing")

// attempt runs a unit on a node, once. release is called when what became of it is
// written down: until then the node remembers it. Where gone is not nil, what was
// run goes on until it is closed.
func (p *pool) attempt(u *unit, n *poolNode, slot int) (r Result, failure *TaskError, release func(), gone <-chan struct{}) {
	if u.task.call != nil {
		return n.call(u.ctx, u, slot) // which ends with the node's worker
	}
	id := u.nodeID(slot)
	if u.task.HoldsLease {
		p.hold(1)
		defer p.hold(-1)
	}
	r, failure = n.follow(u.batch.context(n), u, id, func(ctx context.Context, sinks supervisor.Sinks) (supervisor.Exit, error) {
		return n.super.Run(ctx, n.spec(u, slot), sinks)
	})
	return r, failure, func() { n.super.Release(id) }, nil
}

// follow has a command or script run, under a name, until it has ended.
func (n *poolNode) follow(ctx context.Context, u *unit, id string, run func(context.Context, supervisor.Sinks) (supervisor.Exit, error)) (Result, *TaskError) {
	p := n.p
	p.secrets.learn(u.task.Secrets)
	outLines, errLines := p.out.writers(u.label)
	most := p.opts.limits.outputBytes()
	share := u.outputs()
	stdout := newSpool(p.results, share, u.attemptID(), "stdout", most, outLines)
	last := &tail{}
	stderr := newSpool(p.results, share, u.attemptID(), "stderr", most, io.MultiWriter(last, errLines))
	u.job.show(stdout, stderr)

	began := now()
	exit, err := run(ctx, supervisor.Sinks{
		Stdout: stdout, Stderr: stderr, Live: p.out.live() || u.job != nil,
		Started: func() { n.started(u) },
	})
	outLines.flush()
	errLines.flush()

	r := Result{
		ExitCode: exit.Code, Elapsed: exit.Elapsed,
		Stdout: stdout.kept, Stderr: stderr.kept, StdoutBytes: stdout.n, StderrBytes: stderr.n,
		Truncated: stdout.cut() || stderr.cut(),
	}
	if err != nil && r.Elapsed == 0 {
		r.Elapsed = now().Sub(began) // the node cannot tell any more, and has cost all the same
	}
	var outErr, errErr error
	r.StdoutFile, outErr = stdout.close()
	r.StderrFile, errErr = stderr.close()
	if err == nil {
		err = errors.Join(outErr, errErr)
	}
	failure := n.judge(u, exit, err)
	if failure == nil {
		failure = n.collect(ctx, u, &r, n.super.Scratch(id), n.super.Marker(id))
	}
	if failure != nil && failure.Cause != CauseCancelled {
		failure.Tail = p.secrets.text(last.String())
	}
	return r, failure
}

// outputs returns the memory for the outputs of an attempt that is about to begin. Only a
// job keeps those of the attempts before.
func (u *unit) outputs() *outputShare {
	if u.share.of == nil {
		u.share.of = u.batch.c.p.results.memory
	}
	if u.job == nil {
		u.share.giveBack()
	}
	return &u.share
}

func (n *poolNode) started(u *unit) {
	n.p.events.emit(Event{Kind: EventTask, Node: n.rank(), State: "started", Task: u.id, Name: u.label, Attempt: u.attempts})
}

// spec is the unit's attempt in the supervisor's words.
func (n *poolNode) spec(u *unit, slot int) supervisor.Spec {
	s := supervisor.Spec{
		ID: u.nodeID(slot), Args: u.task.Args, Script: u.task.Script, Dir: u.task.Dir,
		Env: n.taskEnv(u, slot), Secrets: map[string]string{}, Timeout: u.task.Timeout, Grace: cancelGrace,
		HoldsLease: u.task.HoldsLease, Scratch: true, Mark: len(u.task.Outputs) > 0,
	}
	maps.Copy(s.Env, u.task.Env)
	for name, value := range u.task.Secrets {
		s.Secrets[name] = string(value)
	}
	if len(u.task.Stdin) > 0 {
		s.Stdin = bytes.NewReader(u.task.Stdin)
	}
	return s
}

// taskEnv tells a command where it runs, as ThisNode tells a function.
func (n *poolNode) taskEnv(u *unit, slot int) map[string]string {
	env := n.slotDevices().env(slot, len(n.slots))
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, map[string]string{
		"GPUTRAIN_NODE":        n.name,
		"GPUTRAIN_NODE_RANK":   strconv.Itoa(n.rank()),
		"GPUTRAIN_RANK":        strconv.Itoa(u.rank()),
		"GPUTRAIN_NODES":       strconv.Itoa(max(len(u.members), 1)),
		"GPUTRAIN_MASTER_ADDR": u.master(n).addr(),
		"GPUTRAIN_SLOT":        strconv.Itoa(slot),
		"GPUTRAIN_TASK_INDEX":  strconv.Itoa(u.index),
		"GPUTRAIN_ATTEMPT":     strconv.Itoa(u.attempts),
	})
	return env
}

// rank is the place of the unit's node among the nodes of its call.
func (u *unit) rank() int {
	if u.members == nil {
		return 0
	}
	return u.index
}

// master is the first of the nodes of the unit's call, when it runs on n.
func (u *unit) master(n *poolNode) *poolNode {
	if u.members == nil {
		return n
	}
	return u.members[0]
}

// addr is what other nodes reach the node by.
func (n *poolNode) addr() string {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	switch {
	case n.inst.PrivateAddr != "":
		return n.inst.PrivateAddr
	case n.inst.PublicAddr != "":
		return n.inst.PublicAddr
	}
	return n.name
}

// judge tells apart why an attempt ended. Nil means success.
func (n *poolNode) judge(u *unit, exit supervisor.Exit, err error) *TaskError {
	switch {
	case u.ctx.Err() != nil && (err != nil || exit.Cause == supervisor.Cancelled):
		return u.failure(n, CauseCancelled, context.Cause(u.ctx))
	case errors.Is(err, supervisor.ErrOverdue):
		return u.failure(n, CauseTimeout, fmt.Errorf("ran longer than %v: %w", u.task.Timeout, err))
	case (err != nil || exit.Cause == supervisor.Cancelled) && n.isOver():
		return u.failure(n, CauseNodeLost, n.lastError())
	case errors.Is(err, supervisor.ErrNotStarted) && errors.Is(err, supervisor.ErrDiskFull):
		return u.failure(n, CauseNeverStarted, n.p.withoutSecrets(n.diskFull("start "+u.attemptID(), err)))
	case errors.Is(err, supervisor.ErrNotStarted):
		return u.failure(n, CauseNeverStarted, n.p.withoutSecrets(err))
	case err != nil:
		return u.failure(n, CauseOutputs, n.p.withoutSecrets(err))
	}
	var full error
	if exit.DiskFull {
		full = n.diskFull("run "+u.attemptID(), errOutputCut)
	}
	var f *TaskError
	switch exit.Cause {
	case supervisor.Exited:
		switch {
		case exit.Code != 0:
			f = u.failure(n, CauseExit, full)
			f.ExitCode = exit.Code
			return f
		case full != nil: // its output may have lost bytes, and that must not look like success
			return u.failure(n, CauseOutputs, full)
		}
		return nil
	case supervisor.Signaled:
		f = u.failure(n, CauseSignal, full)
	case supervisor.OutOfMemory:
		f = u.failure(n, CauseOutOfMemory, nil)
	case supervisor.TimedOut:
		f = u.failure(n, CauseTimeout, fmt.Errorf("ran longer than %v", u.task.Timeout))
	case supervisor.Cancelled:
		f = u.failure(n, CauseCancelled, nil)
	default:
		f = u.failure(n, CauseSignal, errors.New("the task was killed, and so was what watched it on the node"))
	}
	f.Signal = exit.Signal
	return f
}

// lastError is why the node was given up.
func (n *poolNode) lastError() error {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	if n.err != nil {
		return n.err
	}
	return context.Cause(n.ctx)
}

// withoutSecrets returns an error whose text has no secret of any task. What
// it wraps is still found.
func (p *pool) withoutSecrets(err error) error {
	return reworded(err, p.secrets.text(err.Error()))
}

// reworded returns an error that has another text.
func reworded(err error, text string) error {
	if text == err.Error() {
		return err
	}
	return &rewordedError{text, err}
}

type rewordedError struct {
	text string
	err  error
}

func (e *rewordedError) Error() string { return e.text }
func (e *rewordedError) Unwrap() error { return e.err }
