package gputrain

import (
	"context"
	"io"
	"maps"
	"strings"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/worker"
)

// A function that has not returned functionGrace after the end of its context is killed: see [Func].
// Tests set a shorter time.
var functionGrace = worker.DefaultGrace

// attempt makes one attempt at a unit on a node. The node keeps its record of the attempt until release is called. If
// gone is not nil, the function still runs in its slot until gone is closed.
func (p *pool) attempt(u *unit, n *poolNode, slot int) (r Result, failure *TaskError, release func(), gone <-chan struct{}) {
	if u.task.call != nil {
		return u.result(n, n.call(u, slot))
	}
	if u.task.HoldsLease {
		p.spending.Hold(1)
		defer p.spending.Hold(-1)
	}
	c := u.command(n, slot)
	c.Env = u.env(n) // what Attach has found running has its own
	return u.result(n, p.attempts.Run(u.batch.context(n), newAttemptNode(n), n.Node.Supervisor(), c))
}

// call calls a unit's function. Its argument was encoded before it was queued.
func (n *poolNode) call(u *unit, slot int) attempt.Outcome {
	arg, err := u.task.call.encode()
	if err != nil {
		return attempt.Outcome{ExitCode: -1, Failure: attempt.Failed(attempt.NeverStarted, err)}
	}
	c := &calls.Call{
		Attempt: u.attemptOn(n), Function: u.task.call.function, Arg: arg, Stream: u.task.call.stream, Hold: u.kept,
		Place: worker.Place{Rank: u.rank(), Slot: slot, TaskID: u.id, Attempt: u.Attempts, Accelerators: n.Node.Devices().Visible(n.units(slot))},
	}
	if u.task.Accelerators > 0 {
		c.Place.Units = scheduler.FormatUnits(n.units(slot))
	}
	if u.cluster != nil {
		c.Members = u.cluster()
	}
	return n.calls.Call(c)
}

// units returns the units that the task with this slot holds, or nil if it has the whole node.
func (n *poolNode) units(slot int) []int {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	return n.Slots.Units(slot)
}

// command returns the unit's command, for a slot of a node.
func (u *unit) command(n *poolNode, slot int) *attempt.Command {
	return &attempt.Command{
		Attempt: u.attemptOn(n), NodeID: u.nodeID(n, slot), Args: u.task.Args, Script: u.task.Script, Env: u.task.Env,
		Secrets: u.task.Secrets, Stdin: u.task.Stdin, HoldsLease: u.task.HoldsLease, TTY: u.task.TTY,
		Place: attempt.Place{
			Node: n.Node.Name(), NodeRank: n.Rank(), Rank: u.rank(), Nodes: max(len(u.members), 1), MasterAddr: u.master(n).Node.Addr(),
			Slot: slot, Devices: n.Node.Devices().Env(n.units(slot)), Index: u.index, Attempt: u.Attempts,
			Sharers: max(n.Node.Devices().Sharers(n.units(slot)), n.p.spec.concurrency()),
		},
	}
}

// env returns the variables that the unit's command gets from the program.
func (u *unit) env(n *poolNode) map[string]string {
	f := n.p.opts.taskEnv
	if f == nil {
		return u.task.Env
	}
	ev := u.eventOn(n, Event{Pool: n.p.id, Kind: EventTask, State: "started"})
	if e := n.p.events; e.tally != nil && !e.sampleStart(u, false) {
		ev.State = "counted"
	}
	env := map[string]string{}
	for name, value := range f(ev.printable()) {
		if _, secret := u.task.Secrets[name]; !secret && invalid.IsEnvName(name) && !strings.HasPrefix(name, "GPUTRAIN_") && !strings.ContainsRune(value, 0) {
			env[name] = value
		}
	}
	maps.Copy(env, u.task.Env)
	return env
}

// attemptOn returns the part of an attempt that is the same for commands and functions.
func (u *unit) attemptOn(n *poolNode) attempt.Attempt {
	a := attempt.Attempt{
		ID: u.attemptID(), From: output.Source{Label: u.label, Node: n.Rank(), Task: u.id, Name: u.label, Attempt: u.Attempts}, Context: u.ctx, Timeout: u.task.Timeout, Dir: u.task.Dir,
		Outputs: u.task.Outputs, SyncEvery: u.task.SyncEvery, DropIfCancelled: u.task.DropIfCancelled,
		Share: u.outputs(), Started: func() { n.started(u) },
	}
	u.watch(n, &a)
	if len(u.task.Outputs) > 0 {
		u.reportOutputs(n, &a)
	}
	a.Checkpoints = u.checkpointsOn(n, &a)
	if u.job != nil {
		a.Watch = u.job.show
	}
	if u.task.Critical {
		a.Failed = func(f *attempt.Failure) { u.failing(u.failed(n, f)) }
	}
	return a
}

// reportOutputs makes the transfers of an attempt's outputs events.
func (u *unit) reportOutputs(n *poolNode, a *attempt.Attempt) {
	ev := n.transferred("receiving", Event{Task: u.id, Name: u.label, Attempt: u.Attempts})
	a.Receiving = func() (transfer.Progress, func(error)) { return n.p.events.transfer(ev) }
	a.SyncFailed = func(err error) {
		failed := ev
		failed.State, failed.Err = "failed", err
		n.p.events.emit(failed)
	}
}

// outputs returns the memory for the output of an attempt that is about to begin. Only a job keeps the output of
// earlier attempts.
func (u *unit) outputs() *output.Share {
	if u.job == nil {
		u.share.Return()
	}
	return &u.share
}

// rank is the index of the unit's node among the nodes of its call.
func (u *unit) rank() int {
	if u.members == nil {
		return 0
	}
	return u.index
}

// master returns the first node of the unit's call. The unit runs on n.
func (u *unit) master(n *poolNode) *poolNode {
	if u.members == nil {
		return n
	}
	return u.members[0]
}

// causes maps an attempt's cause of failure to the user's.
var causes = [...]Cause{
	attempt.Exit: CauseExit, attempt.Signal: CauseSignal, attempt.OutOfMemory: CauseOutOfMemory, attempt.Timeout: CauseTimeout,
	attempt.Cancelled: CauseCancelled, attempt.NodeLost: CauseNodeLost, attempt.NeverStarted: CauseNeverStarted,
	attempt.Function: CauseFunction, attempt.Panic: CausePanic, attempt.WorkerLost: CauseWorkerLost, attempt.Outputs: CauseOutputs,
	attempt.Stalled: CauseStalled,
}

// result returns the outcome of an attempt as the user sees it.
func (u *unit) result(n *poolNode, o attempt.Outcome) (r Result, failure *TaskError, release func(), gone <-chan struct{}) {
	n.keepers.Remove(u.keeper)
	r = resultFrom(o)
	if u.task.call != nil {
		r.function = u.task.call.function
	}
	for i := range r.Outputs {
		r.Outputs[i].Attempt = u.Attempts
	}
	if release = o.Release; release == nil {
		release = func() {}
	}
	u.progress.end()
	if o.Failure != nil {
		failure = u.failed(n, o.Failure)
	}
	return r, failure, release, o.Gone
}

// resultFrom returns the result of an attempt, as far as its outcome says it.
func resultFrom(o attempt.Outcome) Result {
	r := Result{
		ExitCode: o.ExitCode, Elapsed: o.Elapsed,
		Stdout: o.Stdout.Head, StdoutBytes: o.Stdout.Bytes, StdoutFile: o.Stdout.File,
		Stderr: o.Stderr.Head, StderrBytes: o.Stderr.Bytes, StderrFile: o.Stderr.File,
		Truncated: o.Truncated, OutputDir: o.OutputDir, value: o.Value,
	}
	for _, f := range o.Outputs {
		r.Outputs = append(r.Outputs, OutputFile{Name: f.Name, Size: f.Size, SHA256: f.SHA256})
	}
	return r
}

// failed returns the failure of an attempt as the user sees it.
func (u *unit) failed(n *poolNode, f *attempt.Failure) *TaskError {
	e := u.failure(n, causes[f.Cause], f.Err)
	e.ExitCode, e.Signal, e.Tail, e.Stack, e.Step = f.ExitCode, f.Signal, f.Tail, f.Stack, u.progress.last()
	n.blame(e, f.Cause)
	return e
}

// started reports that an attempt has begun to run.
func (n *poolNode) started(u *unit) {
	e := n.p.events
	if sampled := e.sampleStart(u, true); sampled || len(e.takers) > 0 {
		e.send(u.eventOn(n, Event{Kind: EventTask, State: "started"}), true, sampled)
	}
}

// eventOn completes an event of the unit's attempt on a node.
func (u *unit) eventOn(n *poolNode, ev Event) Event {
	ev.Node, ev.At, ev.Task, ev.Name, ev.Attempt = n.Rank(), n.p.nodeOf(n), u.id, u.label, u.Attempts
	return ev
}

// An attemptNode is a node as attempts use it.
type attemptNode struct {
	*node.Node
	n *poolNode
}

func newAttemptNode(n *poolNode) attemptNode { return attemptNode{n.Node, n} }

func (a attemptNode) Rank() int                    { return a.n.Rank() }
func (a attemptNode) Files() attempt.Files         { return a.Node.Files() }
func (a attemptNode) Supervisor() calls.Supervisor { return a.Node.Supervisor() }
func (a attemptNode) SSHAddr() string              { return a.Instance().SSH.Addr }

// Err returns why the node was given up.
func (a attemptNode) Err() error {
	a.n.p.mu.Lock()
	defer a.n.p.mu.Unlock()
	if err := a.n.Member.Err(); err != nil {
		return err
	}
	return context.Cause(a.Context())
}

// Describe returns what functions can learn about the node.
func (a attemptNode) Describe() worker.NodeFacts {
	inst := a.Instance()
	return worker.NodeFacts{Pool: a.n.p.id, Rank: a.n.Rank(), PrivateAddr: inst.PrivateAddr, PublicAddr: inst.PublicAddr}
}

func (a attemptNode) Open(ctx context.Context, command string) (io.ReadWriteCloser, error) {
	s, err := a.Commands().Open(ctx, command)
	if err != nil {
		return nil, err
	}
	return s, nil
}

func (a attemptNode) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	return a.Commands().ExecMoving(ctx, command, stdin, stdout, stderr)
}

// KeepWorker records a worker, so that the next program can take it up.
func (a attemptNode) KeepWorker(w calls.Worker) {
	a.n.p.journal.AddWorker(journal.Worker{Node: a.Name(), Name: w.Name, Binary: w.Binary, Starts: w.Starts})
}

// membersOf returns the nodes of a call as functions see them.
func membersOf(nodes []*poolNode) *worker.Members {
	addrs := make([]string, len(nodes))
	for i, n := range nodes {
		addrs[i] = n.Node.Addr()
	}
	return worker.NewMembers(addrs...)
}

// callsConfig returns the settings that are the same for all of the pool's nodes.
func (p *pool) callsConfig() calls.Config {
	return calls.Config{
		Runner: &p.attempts, Programs: p.programs, Go: p.running.Go,
		Generation: p.generation, Grace: functionGrace, ResultBytes: p.opts.limits.resultBytes(),
	}
}
