package gputrain

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/node"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/steps"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/telemetry"
	"github.com/gputrain/gputrain/internal/training"
)

// trainings are those of a pool. The pool's lock guards them.
type trainings struct {
	last    int // the highest number of an ID
	running map[string]*trainRun
	earlier map[string]*earlierTraining // that an earlier program has left, by name
}

// An earlierTraining is one that Train goes on with after Attach. Its hold has its nodes meanwhile.
type earlierTraining struct {
	record journal.Training
	hold   *scheduler.Hold
}

// A trainRun is one call of Train.
type trainRun struct {
	p       *pool
	t       Training //secretvet:ignore no message formats it
	name    string
	hold    *scheduler.Hold
	meter   fleet.Meter // of the gang's nodes
	host    *training.Training
	keeper  *checkpoint.Keeper // nil without checkpoints
	number  atomic.Int64       // of the attempt
	stepped atomic.Int32       // the node that has reported a step last
	left    bool               // its caller has given up; guarded by the pool's lock
	over    chan struct{}      // closed when nothing of it is left

	mu     sync.Mutex
	result TrainResult
	last   *gang.Attempt
	steps  *steps.Pace // of the attempt, or nil
}

// newTrainRun returns a training that has not begun, or goes on with one of its name that an earlier program has left. It waits, as
// long as ctx, for the end of one whose caller has given up.
func newTrainRun(ctx context.Context, p *pool, t Training) (*trainRun, error) {
	r := &trainRun{p: p, t: t, name: t.name(), over: make(chan struct{})}
	c, err := r.config()
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for other := p.trainings.running[r.name]; other != nil && other.left; other = p.trainings.running[r.name] {
		p.mu.Unlock()
		select {
		case <-other.over:
		case <-ctx.Done():
		}
		p.mu.Lock()
		if ctx.Err() != nil {
			return nil, r.interrupted(ctx, nil)
		}
	}
	if p.trainings.running[r.name] != nil {
		return nil, &Error{Op: "train", Kind: ErrInvalid, Err: fmt.Errorf("the pool has a training with the name %q already", r.name), Hint: "give each a Task.Name of its own"}
	}
	if e := p.trainings.earlier[r.name]; e != nil {
		if err := e.record.Differs(c.Nodes, int(c.Launcher), c.Program.Function != ""); err != nil {
			return nil, &Error{Op: "train", Kind: ErrInvalid, Err: fmt.Errorf("an earlier program has left a training %q: %w", r.name, err), Hint: "go on with the same Training, or give this one another Task.Name"}
		}
		delete(p.trainings.earlier, r.name)
		e.hold.Aim(t.Task.Target.allows)
		r.hold, c.ID, c.Earlier = e.hold, e.record.ID, &e.record
		c.EarlierNodes = make([]training.Node, len(e.record.Nodes))
		for i, name := range e.record.Nodes {
			if n := nodeNamed(p, name); n != nil && n.State().Works() {
				e.hold.Seize(n.Slots)
				r.meter.Add(n.Slots)
				c.EarlierNodes[i] = trainNode{newAttemptNode(n), r}
			}
		}
	} else {
		p.trainings.last++
		c.ID = journal.TrainingPrefix + strconv.Itoa(p.trainings.last)
		if r.hold = scheduler.NewHold(p.fleet.Tasks, t.Task.Target.allows); r.hold == nil {
			return nil, p.fleet.ClosedError()
		}
	}
	r.host = training.New(c)
	if p.trainings.running == nil {
		p.trainings.running = map[string]*trainRun{}
	}
	p.trainings.running[r.name] = r
	p.running.Add(1)
	return r, nil
}

// nodeNamed returns the node of a name that is not over, or nil. The pool's lock is held.
func nodeNamed(p *pool, name string) *poolNode {
	for _, m := range p.fleet.Members() {
		if m.Node.Name() == name && !m.State().Over() {
			return nodeOf(m)
		}
	}
	return nil
}

// config returns what the training is, but for what an earlier program has left of it.
func (r *trainRun) config() (c training.Config, err error) {
	t := r.t
	c = training.Config{
		PoolID: r.p.id, Name: r.name, Launcher: launcher.Launcher(t.Launcher), Nodes: t.nodes(r.p), Processes: t.ProcessesPerNode, Restarts: t.Restarts,
		StartTimeout: t.StartTimeout, StallTimeout: t.StallTimeout, IdleTimeout: t.IdleTimeout,
		Pool: r, Runner: &r.p.attempts, Go: r.p.running.Go, Record: r.p.journal.AddTraining, Locate: r.locate, Describe: r.describe, Report: r.report, Reported: r.reported,
		Noted: r.noted, Lagging: r.lagging, AllowPublicNetwork: t.AllowPublicNetwork,
	}
	if !t.Task.Checkpoints.IsZero() {
		if c.Keeper, err = newKeeper(r.p, t.Task, Event{Kind: EventTransfer, Node: -1, Name: r.name}, r.saved); err != nil {
			return c, err
		}
		r.keeper = c.Keeper
	}
	if t.Task.call != nil {
		c.Program.Function, c.Processes = t.Task.call.function, 1
		c.Program.Arg, _ = t.Task.call.encode() // validate has tried it
	}
	c.Program.Command = attempt.Command{
		Attempt: attempt.Attempt{
			Timeout: t.Task.Timeout, Outputs: t.Task.Outputs, Dir: t.Task.Dir, SyncEvery: t.Task.SyncEvery, DropIfCancelled: t.Task.DropIfCancelled,
		},
		Args: t.Task.Args, Script: t.Task.Script, Env: t.Task.Env, Secrets: t.Task.Secrets, Stdin: t.Task.Stdin, HoldsLease: t.Task.HoldsLease,
	}
	c.Check = attempt.Command{
		Attempt: attempt.Attempt{Timeout: t.Check.Timeout, Dir: t.Check.Dir},
		Args:    t.Check.Args, Script: t.Check.Script, Env: t.Check.Env, Secrets: t.Check.Secrets, Stdin: t.Check.Stdin,
	}
	return c, nil
}

// saved reports that a checkpoint has come to this computer, or could not.
func (r *trainRun) saved(c checkpoint.Report) {
	ev := Event{Kind: EventTraining, Node: -1, Name: r.name, Attempt: int(r.number.Load()), State: "checkpoint", Path: c.Name}
	if c.Err != nil {
		ev.Err = r.p.withoutSecrets(c.Err)
	} else {
		r.host.Saved(c.Step)
	}
	r.p.events.emit(ev)
}

// noted is for the training.
func (r *trainRun) noted(e *gang.Attempt, err error) {
	r.p.events.emit(Event{Kind: EventTraining, Node: -1, Name: r.name, Attempt: e.Number, State: "preflight", Err: r.p.withoutSecrets(err)})
}

// lagging is for the training.
func (r *trainRun) lagging(e *gang.Attempt, n training.Node, rank int, behind int64) {
	r.p.events.emit(Event{Kind: EventUsage, Node: n.Rank(), Name: r.name, Attempt: e.Number, State: "lagging", Err: &Error{
		Op: "train", Err: fmt.Errorf("rank %d of %s has been %d steps behind the first for a minute", rank, r.name, behind), Hint: "nothing is ended",
	}})
}

// run runs the training to its end.
func (r *trainRun) run(ctx context.Context) (TrainResult, error) {
	defer func() {
		r.release()
		r.p.mu.Lock()
		defer r.p.mu.Unlock()
		delete(r.p.trainings.running, r.name)
		close(r.over)
	}()
	if r.t.Task.HoldsLease {
		r.p.spending.Hold(1)
		defer r.p.spending.Hold(-1)
	}
	ok, err := r.host.Run(ctx)
	r.release()
	result := r.soFar()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.host.Result() {
		result.Ranks = append(result.Ranks, r.rank(s))
	}
	if r.p.ctx.Err() == nil || !r.p.detached.Load() {
		r.host.Finish()
	}
	switch {
	case ok:
		return result, nil
	case r.last == nil || len(r.last.Failures) == 0 || ctx.Err() != nil:
		return result, r.interrupted(ctx, err)
	}
	return result, r.failed(r.last, err)
}

// soFar returns what is known of the training, but for the results of its processes.
func (r *trainRun) soFar() TrainResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := r.result
	result.Attempts = nil
	for _, past := range r.host.Past() {
		result.Attempts = append(result.Attempts, pastAttempt(past))
	}
	result.Attempts = append(result.Attempts, r.result.Attempts...)
	for _, e := range result.Attempts {
		result.Step = max(result.Step, e.LastStep)
	}
	result.Elapsed, result.CostUSD = time.Since(r.host.Began()), r.meter.Cost()
	if r.keeper != nil {
		var step int64
		if result.Checkpoint, step = r.keeper.Newest(); result.Checkpoint != "" && step >= 0 {
			result.Step = step
		}
	}
	return result
}

// leave returns what is known of a training whose caller has given up.
func (r *trainRun) leave(ctx context.Context) (TrainResult, error) {
	r.p.mu.Lock()
	r.left = true
	r.p.mu.Unlock()
	if r.p.ctx.Err() == nil { // an Attach is not to go on with it
		training.Leave(r.host)
	}
	return r.soFar(), r.interrupted(ctx, nil)
}

// interrupted returns the error of a training that ended for no reason of its own.
func (r *trainRun) interrupted(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if why := context.Cause(r.p.ctx); why != nil {
		return r.p.fleet.ClosedError()
	}
	return context.Cause(ctx)
}

// Grow is for the training.
func (r *trainRun) Grow(ctx context.Context, want int) ([]training.Node, error) {
	all, err := r.hold.Grow(ctx, want)
	if err != nil {
		return nil, err
	}
	r.meter.Have(all...) // another training may have got some of those before
	nodes := make([]training.Node, len(all))
	for i, slots := range all {
		nodes[i] = trainNode{newAttemptNode(nodeOn(slots)), r}
	}
	return nodes, nil
}

// Drop is for the training.
func (r *trainRun) Drop(n training.Node, broken error) {
	on := n.(trainNode).n
	r.meter.Drop(on.Slots)
	if broken != nil && !fleet.Break(on.Member, broken) { // before another task can start there
		r.sweep(n)
		return
	}
	r.hold.Drop(on.Slots, broken != nil)
}

// sweep gives a node back that goes on though it could not be cleaned, as one that cannot be reached: once nothing of the
// training runs there any more.
func (r *trainRun) sweep(n training.Node) {
	slots := n.(trainNode).n.Slots
	apart := r.hold.Part(slots)
	if apart == nil { // the pool ends
		r.hold.Drop(slots, true)
		return
	}
	r.p.running.Go(func() {
		defer apart.Release()
		training.Sweep(r.host, n)
	})
}

// release gives all nodes back.
func (r *trainRun) release() {
	r.meter.Have()
	r.hold.Release()
}

// describe is for the training.
func (r *trainRun) describe(e *gang.Attempt) string { return r.failed(e, nil).Error() }

// locate is for the training.
func (r *trainRun) locate(n training.Node) journal.Location {
	return locationOf(r.p.nodeOf(n.(trainNode).n))
}

// report is for the training.
func (r *trainRun) report(s gang.State, e *gang.Attempt) {
	ev := Event{Kind: EventTraining, Node: -1, Name: r.name, Attempt: e.Number, State: s.String()}
	switch s {
	case gang.Running:
		ev.Path = e.Resumed
		for _, n := range e.Nodes {
			if n != nil {
				ev.Nodes = append(ev.Nodes, n.(trainNode).Rank())
			}
		}
	case gang.Restarting, gang.Done:
		ev.Ended = &AttemptEnd{ExitCode: -1, CostUSD: r.meter.Cost()}
	}
	if e.Cut != nil {
		ev.Err = r.p.withoutSecrets(e.Cut)
	}
	if len(e.Failures) > 0 {
		root := r.failure(e, e.Failures[0])
		ev.Node, ev.At = root.Node.Rank, root.Node
		if ev.Ended != nil {
			ev.Ended.Cause, ev.Ended.ExitCode = root.Cause, root.ExitCode
		}
		if s == gang.Failing || s == gang.Done {
			ev.Err = root
		}
	}
	r.number.Store(int64(e.Number))
	r.mu.Lock()
	pace := r.steps
	if r.steps = nil; s == gang.Running {
		r.steps = r.paced(e)
	}
	r.mu.Unlock()
	if pace != nil {
		pace.End()
	}
	r.p.events.emit(ev)
	if s == gang.Restarting || s == gang.Done {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.last = e
		r.result.Attempts = append(r.result.Attempts, r.attempt(e))
	}
}

// attempt returns an attempt that is over as the user sees it.
func (r *trainRun) attempt(e *gang.Attempt) GangAttempt {
	out := GangAttempt{Number: e.Number, Resumed: e.Resumed, FirstStep: e.First, LastStep: e.Last}
	if !e.From.IsZero() {
		out.From, out.To = e.From, e.To
	}
	for _, n := range e.Nodes {
		if n != nil {
			out.Nodes = append(out.Nodes, r.p.nodeOf(n.(trainNode).n))
		}
	}
	if out.Err = e.Cut; len(e.Failures) > 0 {
		out.Err = r.failed(e, nil)
	}
	return out
}

// pastAttempt returns an attempt of an earlier program.
func pastAttempt(past journal.PastAttempt) GangAttempt {
	e := GangAttempt{Number: past.Number, Resumed: past.Resumed, FirstStep: past.First, LastStep: past.Last}
	if past.From > 0 {
		e.From, e.To = time.Unix(0, past.From), time.Unix(0, past.To)
	}
	for _, l := range past.Nodes {
		e.Nodes = append(e.Nodes, nodeAt(l))
	}
	if past.Failure != "" {
		e.Err = errors.New(past.Failure)
	}
	return e
}

// failed returns the error of an attempt.
func (r *trainRun) failed(e *gang.Attempt, err error) *TrainError {
	out := &TrainError{Attempt: e.Number, Err: err}
	for _, f := range e.Failures {
		out.Failures = append(out.Failures, r.failure(e, f))
	}
	return out
}

// trainCauses maps kinds of failures to the user's causes. That of Own is the attempt's.
var trainCauses = [...]Cause{
	gang.NodeLost: CauseNodeLost, gang.NeverStarted: CauseNeverStarted, gang.Stalled: CauseStalled, gang.Idle: CauseIdle,
	gang.Accelerator: CauseAccelerator, gang.Peer: CausePeer,
}

// failure returns a failure as the user sees it.
func (r *trainRun) failure(e *gang.Attempt, f gang.Failure) *TaskError {
	out := &TaskError{
		Index: f.Share, Name: r.name + "/" + strconv.Itoa(f.Share), Attempt: e.Number, Node: Node{Rank: -1},
		Cause: trainCauses[f.Kind], Rank: f.Rank, Step: f.Step, ExitCode: -1, Stack: f.Stack, Err: f.Err,
	}
	if f.Share < 0 {
		out.Name = r.name
	}
	if f.Node >= 0 && f.Node < len(e.Nodes) && e.Nodes[f.Node] != nil {
		out.Node = r.p.nodeOf(e.Nodes[f.Node].(trainNode).n)
	}
	if why := f.Why; why != nil {
		out.ExitCode, out.Signal, out.Tail = why.ExitCode, why.Signal, why.Tail
		if out.Stack == "" {
			out.Stack = why.Stack
		}
		if f.Kind == gang.Own {
			out.Cause = causes[why.Cause]
		}
	}
	out.Stack = r.p.secrets.Text(out.Stack)
	if out.Err != nil {
		out.Err = r.p.withoutSecrets(out.Err)
	}
	return out
}

// rank returns the result of a share.
func (r *trainRun) rank(s training.Share) Result {
	out := resultFrom(s.Outcome)
	out.Index, out.Name, out.Attempts = s.Rank, r.name+"/"+strconv.Itoa(s.Rank), 1
	if s.Node != nil {
		out.Node = r.p.nodeOf(s.Node.(trainNode).n)
	}
	if r.last != nil {
		out.Attempts = r.last.Number
	}
	for i := range out.Outputs {
		out.Outputs[i].Attempt = out.Attempts
	}
	if r.t.Task.call != nil {
		out.function = r.t.Task.call.function
	}
	if s.Failure == nil || r.last == nil {
		return out
	}
	f := *s.Failure
	for _, judged := range r.last.Failures {
		if judged.Share == s.Rank {
			f = judged
		}
	}
	if f.WasEnded() {
		f.Kind = gang.Peer
	}
	failed := r.failure(r.last, f)
	out.Err, out.ExitCode = failed, failed.ExitCode
	return out
}

// reported is for the training.
func (r *trainRun) reported(_ *gang.Attempt, n training.Node, s steps.Step) {
	r.stepped.Store(int32(n.Rank()))
	r.mu.Lock()
	pace := r.steps
	r.result.Step = max(r.result.Step, s.N)
	r.mu.Unlock()
	if pace != nil {
		pace.Step(s)
	}
}

// paced emits the steps of an attempt.
func (r *trainRun) paced(e *gang.Attempt) *steps.Pace {
	return &steps.Pace{Pass: func(s steps.Step) {
		r.p.events.emit(Event{
			Kind: EventStep, Node: int(r.stepped.Load()), Name: r.name, Attempt: e.Number, Step: Step{N: s.N, Of: s.Of, Values: s.Values},
		})
	}}
}

// A trainNode is a node as trainings use it. It can be compared.
type trainNode struct {
	attemptNode
	r *trainRun
}

func (t trainNode) Addr() string                  { return t.Node.Addr() }
func (t trainNode) Telemetry() *telemetry.Monitor { return &t.n.usage }
func (t trainNode) Sampler() (telemetry.Commands, []string) {
	commands, only := node.Sampled(t.Node)
	return commands, only
}
func (t trainNode) Checkpoints() checkpoint.Node { return t.n.checkpointNode(t.r.t.Task) }
func (t trainNode) Announce(f func(left time.Duration, spared bool)) (stop func()) {
	return t.n.keepers.Announce(f)
}

func (t trainNode) Commands() node.Commands        { return t.Node.Commands() }
func (t trainNode) Supervisor() attempt.Supervisor { return t.Node.Supervisor() }
func (t trainNode) EndCalls(ctx context.Context) (mark string, err error) {
	return calls.Mark(t.Name()), t.n.calls.Renew(ctx)
}
func (t trainNode) Call(c *calls.Call) attempt.Outcome { return t.n.calls.Call(c) }

// resume makes the trainings of an earlier program wait for a Train of their name.
func (ts *trainings) resume(p *pool, all []journal.Training) {
	p.mu.Lock()
	defer p.mu.Unlock()
	ts.earlier = map[string]*earlierTraining{}
	for _, record := range all {
		ts.last = max(ts.last, record.Number())
		if !record.Over {
			ts.earlier[record.Name] = &earlierTraining{record, scheduler.NewHold(p.fleet.Tasks, scheduler.Target{})}
		}
	}
}

// takeTraining keeps a process of a training for a Train of its name. It reports false if it is none, or not wanted.
func (n *poolNode) takeTraining(f supervisor.Found) bool {
	id, rest, found := strings.Cut(f.ID, "-e")
	number, _, process := strings.Cut(rest, "-r")
	if !found || !process {
		return false
	}
	p := n.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.trainings.earlier {
		if e.record.ID == id && strconv.Itoa(e.record.Attempt) == number && slices.Contains(e.record.Nodes, n.Node.Name()) {
			e.hold.Seize(n.Slots)
			return true
		}
	}
	return false
}
