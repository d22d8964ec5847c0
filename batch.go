package gputrain

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/checkpoint"
	"github.com/gputrain/gputrain/internal/letgo"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/tally"
	"github.com/gputrain/gputrain/internal/worker"
	"github.com/gputrain/gputrain/providers/driver"
)

// A batch is the tasks of one call and their results.
type batch struct {
	*scheduler.Batch
	c       *Compute
	ctx     context.Context // ends with the batch
	units   []*unit
	results chan Result // has room for every unit
	caller  letgo.Caller
}

// newBatch returns a batch without tasks, whose context ends with the caller's and with the
// pool's tasks.
func (c *Compute) newBatch() *batch {
	ctx, caller := c.ctx, letgo.New(c.ctx)
	if ctx == c.p.ctx {
		ctx, caller = c.p.tasksCtx, letgo.Caller{}
	}
	b := c.p.fleet.Tasks.NewBatch(ctx, c.p.tasksCtx)
	return &batch{Batch: b, c: c, ctx: b.Context(), caller: caller}
}

// batch checks the tasks and returns a batch of them.
func (c *Compute) batch(tasks []Task) (*batch, error) {
	if err := cmp.Or(c.check(tasks...), oneWriter(tasks)); err != nil {
		return nil, err
	}
	b := c.newBatch()
	tasks, err := b.resolved(tasks...)
	if err != nil {
		b.close()
		return nil, err
	}
	b.results = make(chan Result, len(tasks))
	b.units = make([]*unit, len(tasks))
	for i, t := range tasks {
		b.units[i] = b.unit(i, t)
	}
	return b, nil
}

// resolved returns the tasks with the references among their secrets looked up. The caller's own
// tasks are not changed.
func (b *batch) resolved(tasks ...Task) ([]Task, error) {
	if !slices.ContainsFunc(tasks, func(t Task) bool { return len(t.Secrets) > 0 }) {
		return tasks, nil
	}
	tasks = slices.Clone(tasks)
	known := map[Secret]Secret{}
	for i := range tasks {
		secrets, err := resolveSecrets(b.ctx, tasks[i].Secrets, known)
		switch {
		case err != nil && b.ctx.Err() != nil:
			return nil, cmp.Or(b.c.check(), err) // as if it had ended before the call
		case err != nil && len(tasks) > 1:
			return nil, fmt.Errorf("%s: %w", tasks[i].label(i), err)
		case err != nil:
			return nil, err
		}
		tasks[i].Secrets = secrets
	}
	return tasks, nil
}

// unit adds a task to the batch.
func (b *batch) unit(index int, t Task) *unit {
	t.Checkpoints = t.Checkpoints.local()
	u := &unit{id: b.c.p.nextTask(), index: index, task: t, label: t.label(index), ctx: b.ctx, batch: b}
	b.Add(&u.Task, u, index, t.Retries, t.Target.allows)
	if len(t.Outputs) > 0 && !t.DropIfCancelled || !t.Checkpoints.IsZero() {
		b.caller.Stay() // what it has asked for comes within a minute
	}
	u.WantUnits(t.Accelerators)
	return u
}

// handOver records that the program has the results, or does not want them.
func (b *batch) handOver() { b.c.p.handed(b.units...) }

// handed records that the program has the results of units. What was kept for them is no longer
// needed.
func (p *pool) handed(units ...*unit) {
	for _, u := range units {
		u.share.Return()
	}
	p.journal.delivered(units...)
}

// submit queues the tasks.
func (b *batch) submit() {
	b.c.p.journal.begin(b.units, false)
	b.Submit()
}

// run is submit for a caller that waits for the results. The goroutine of one that never gives up makes
// the attempt at a single call, if a slot is free.
func (b *batch) run() {
	b.c.p.journal.begin(b.units, true)
	if len(b.units) != 1 || b.units[0].task.call == nil || !b.caller.Stays() || !b.RunHere() {
		b.Submit()
	}
}

// everywhere queues the task on each node that is ready now.
func (b *batch) everywhere(t Task) error {
	p := b.c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	var members []*poolNode
	for _, m := range p.fleet.Participants(t.Target.allows) {
		members = append(members, nodeOf(m))
	}
	if len(members) == 0 {
		return p.fleet.NoneReady(t.Target.allows, t.Accelerators)
	}
	for _, n := range members {
		if has := n.Slots.UnitCount(); has < t.Accelerators {
			return &Error{
				Provider: n.Node.Provider(), Op: "broadcast", Kind: ErrInvalid, Err: fmt.Errorf("each node's share needs %d accelerators, and node %d has %d", t.Accelerators, n.Rank(), has),
				Hint: "leave that node out with a Target, or ask for fewer with Task.Accelerators",
			}
		}
	}
	b.results = make(chan Result, len(members))
	cluster := sync.OnceValue(func() *worker.Members { return membersOf(members) })
	for i, n := range members {
		u := b.unit(i, t)
		u.pinTo(n, members, cluster)
		if t.Name == "" {
			u.label = nodeLabel(n.Rank())
		}
		b.units = append(b.units, u)
	}
	p.journal.begin(b.units, false)
	b.SubmitLocked()
	return nil
}

// collect waits for every unit.
func (b *batch) collect() ([]Result, error) {
	results := make([]Result, len(b.units))
	for range b.units {
		r := b.next()
		results[r.Index] = r
	}
	return results, joinResults(results)
}

// next returns the result of a unit that is over or, once the caller has given up, of any other one.
func (b *batch) next() Result {
	r, missing := letgo.Next(&b.caller, b.results, func(r Result) int { return r.Index })
	if missing >= 0 {
		u := b.units[missing]
		e := &TaskError{Index: missing, Name: u.label, Cause: CauseCancelled, ExitCode: -1, Err: context.Cause(b.ctx)}
		return Result{Task: u.id, Name: u.label, Index: missing, ExitCode: -1, Err: e}
	}
	return r
}

// leave ends the batch. If the caller gives up, what still runs ends without it.
func (b *batch) leave() {
	end := func() bool { b.close(); b.handOver(); return true }
	if b.IsOver() {
		end()
	} else if _, ok := letgo.Do(&b.caller, b.c.p.background.Go, end); !ok {
		b.c.p.journal.delivered(b.units...) // an Attach is not to go on with it
	}
}

// context returns a context that ends with the batch or with the node.
func (b *batch) context(n *poolNode) context.Context { return b.ContextOn(n.Slots, n.Node.Context()) }

// close cancels what has not finished and waits until it has. It drops its references to the nodes:
// a job without a Wait would hold them, and their connections, for as long as the pool lives.
func (b *batch) close() {
	b.Close()
	for _, u := range b.units {
		u.pin, u.members, u.cluster, u.progress = nil, nil, nil, nil
	}
}

// A unit is one task of one call, from its submission to its one result. It is the
// scheduler's Work.
type unit struct {
	scheduler.Task
	id    string
	index int
	task  Task //secretvet:ignore no message formats a unit
	label string
	ctx   context.Context // the batch's
	batch *batch

	// pin is the node that must run it and members are the nodes of the call, for a
	// broadcast.
	pin     *poolNode
	members []*poolNode
	cluster func() *worker.Members // what functions learn about members

	job   *Job         // shows the unit's output, or nil
	share output.Share // its share of the memory for outputs

	kept  bool // the journal keeps it
	alone bool // it is the only unit of a call that waits for the result
	// siblings are the batches of the other units of its call, if an earlier program has made that.
	siblings []*scheduler.Batch

	// missing is why the unit cannot be started again: this program does not know something that an
	// earlier program gave it.
	missing error

	// Only the goroutine that runs the unit, or holds it in the queue, touches these.
	soFar
	progress *progress
	keeper   *checkpoint.Keeper // nil before the first attempt, and without Checkpoints
}

// soFar is what a unit's attempts have come to so far.
type soFar struct {
	bill
	tallied tally.Task
	brought outputs // of the last attempt that brought any
}

// A bill is the cost of a unit so far.
type bill struct {
	usd      float64
	unpriced bool // some of it is not known
}

// outputs are files that an attempt has left on this computer.
type outputs struct {
	dir   string
	files []OutputFile
}

func (p *pool) nextTask() string { return "t" + strconv.FormatInt(p.taskSeq.Add(1)-1, 10) }

// attemptID names one attempt at the unit. No two attempts have the same ID, so that the answer of
// an older attempt is never mistaken for that of a newer one.
func (u *unit) attemptID() string { return u.id + "-a" + strconv.Itoa(u.Attempts) }

// nodeID names an attempt on its node. It includes what the attempt holds there, a slot or units: so Attach finds that
// out from a running attempt, however its program died.
func (u *unit) nodeID(n *poolNode, slot int) string {
	if u.task.Accelerators > 0 {
		return u.attemptID() + "-d" + scheduler.FormatUnits(n.units(slot))
	}
	return u.attemptID() + "-s" + strconv.Itoa(slot)
}

// pinTo makes the unit a node's share of a broadcast to members.
func (u *unit) pinTo(n *poolNode, members []*poolNode, cluster func() *worker.Members) {
	u.pin, u.members, u.cluster = n, members, cluster
	u.PinTo(n.Slots)
}

// failure makes the error of a unit's last attempt.
func (u *unit) failure(n *poolNode, cause Cause, err error) *TaskError {
	e := &TaskError{Index: u.index, Name: u.label, Attempt: u.Attempts, Cause: cause, ExitCode: -1, Err: err}
	if n != nil {
		e.Node = n.p.nodeOf(n)
	}
	return e
}

// charge adds an attempt's cost to that of its unit: the node's price for the time that the attempt
// ran, for one of the node's slots, or for as many of its devices as the attempt had.
func (u *unit) charge(r *Result, n *poolNode) {
	if n != nil {
		perHour, known := r.Node.HourlyUSD.USD()
		u.usd += perHour * r.Elapsed.Hours() * u.part(n)
		u.unpriced = u.unpriced || !known
	}
	r.CostUSD = driver.USD(u.usd)
	if u.unpriced {
		r.CostUSD = Price{}
	}
}

// part returns the part of a node that an attempt on it holds.
func (u *unit) part(n *poolNode) float64 {
	if u.task.Accelerators == 0 {
		return 1 / float64(n.Slots.Slots())
	}
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	return float64(u.task.Accelerators) / float64(max(n.Slots.UnitCount(), u.task.Accelerators))
}

// finish delivers the unit's result.
func (u *unit) finish(r Result) {
	r.Task, r.Name, r.Index, r.Attempts = u.id, u.label, u.index, u.Attempts
	u.End(r.size())
	u.batch.results <- r // there is room
}

// size returns the memory that the result holds.
func (r *Result) size() int64 { return int64(len(r.Stdout)+len(r.Stderr)) + int64(r.value.Size()) }

// Queued reports that the unit was accepted.
func (u *unit) Queued() {
	e := u.batch.c.p.events
	sampled := e.tally != nil && e.tally.Queued(&u.tallied)
	if len(e.takers) > 0 || sampled {
		e.send(queuedEvent(u), true, sampled)
	}
}

// Attempt makes one attempt on a node.
func (u *unit) Attempt(on *scheduler.Node, slot int) (scheduler.Outcome, <-chan struct{}) {
	n := nodeOn(on)
	r, failure, release, gone := n.p.attempt(u, n, slot)
	o := u.outcome(n, r, failure, release)
	o.slot = slot
	return o, gone
}

// Cancelled ends the unit, which does not run because its context has ended.
func (u *unit) Cancelled() {
	u.endUnrun(nil, u.failure(nil, CauseCancelled, context.Cause(u.ctx)))
}

// Stranded ends the unit, which no node can run.
func (u *unit) Stranded(on *scheduler.Node, why error) {
	u.endUnrun(nodeOn(on), u.failure(nil, CauseNodeLost, why))
}

// Refused ends the unit, which was submitted after the end of the pool.
func (u *unit) Refused() {
	u.finish(Result{ExitCode: -1, Err: u.failure(nil, CauseCancelled, u.batch.c.p.fleet.ClosedError())})
}

// endUnrun ends the unit without another attempt.
func (u *unit) endUnrun(n *poolNode, failure *TaskError) {
	u.outcome(n, Result{}, failure, func() {}).End()
}

// An attemptOutcome is how an attempt at a unit ended, or how the unit ended without an attempt.
type attemptOutcome struct {
	u       *unit
	n       *poolNode // nil if it ran nowhere
	result  Result
	slot    int        // that it held on n
	failure *TaskError // nil for success
	release func()     // makes the node forget the attempt, once its outcome is recorded
}

// outcomes are attemptOutcomes for reuse: they are large, and each attempt needs one.
var outcomes = sync.Pool{New: func() any { return new(attemptOutcome) }}

// recycle makes the outcome available for reuse.
func (o *attemptOutcome) recycle() {
	*o = attemptOutcome{}
	outcomes.Put(o)
}

// outcome charges the unit for an attempt, and returns the attempt's outcome.
func (u *unit) outcome(n *poolNode, r Result, failure *TaskError, release func()) *attemptOutcome {
	if n != nil {
		r.Node = n.p.nodeOf(n)
	}
	u.charge(&r, n)
	r.Index, r.Attempts = u.index, u.Attempts
	u.carry(&r, failure)
	if failure != nil {
		failure.Node = r.Node
	}
	o := outcomes.Get().(*attemptOutcome)
	*o = attemptOutcome{u: u, n: n, result: r, failure: failure, release: release}
	return o
}

// carry gives a failure without outputs those of an earlier attempt, or keeps this attempt's for the next.
func (u *unit) carry(r *Result, failure *TaskError) {
	switch {
	case len(r.Outputs) > 0:
		u.brought = outputs{r.OutputDir, r.Outputs}
	case failure != nil:
		r.OutputDir, r.Outputs = u.brought.dir, u.brought.files
	}
}

// drop removes what this computer has of an attempt that is followed by another one, except for its outputs.
func (o *attemptOutcome) drop() {
	u := o.u
	if len(u.brought.files) == 0 || u.brought.files[0].Attempt != u.Attempts {
		u.batch.c.p.results.Drop(u.attemptID())
		return
	}
	for _, stream := range []string{o.result.StdoutFile, o.result.StderrFile} {
		if stream != "" {
			_ = os.Remove(stream) // the user removes the folder
		}
	}
}

// Failure returns how the attempt failed, for the scheduler.
func (o *attemptOutcome) Failure() scheduler.Failure { return o.failure.scheduled() }

// scheduled returns the failure, which may be nil, for the scheduler.
func (e *TaskError) scheduled() scheduler.Failure {
	switch {
	case e == nil:
		return scheduler.None
	case e.Cause == CauseCancelled, e.Cause == CauseNeverStarted:
		return scheduler.Final
	case e.Cause == CauseNodeLost:
		return scheduler.Lost
	}
	return scheduler.Failed
}

// failing cancels the other tasks of the call, if the unit is critical and no other attempt follows the failure.
func (u *unit) failing(failure *TaskError) {
	if u.task.Critical && failure.Cause != CauseCancelled && u.IsLast(failure.scheduled()) {
		u.failCall(failure)
	}
}

// failCall cancels the tasks of the call because of the unit's failure. It is called once or more.
func (u *unit) failCall(failure *TaskError) {
	why := &criticalError{failure}
	u.batch.Fail(why)
	for _, b := range u.siblings {
		b.Fail(why)
	}
}

// Again records that another attempt follows. It reports false if the unit cannot be started again.
func (o *attemptOutcome) Again(wait time.Duration) bool {
	u, p := o.u, o.u.batch.c.p
	if u.task.call != nil && u.task.call.stream != nil && !u.task.call.stream.Rewind() {
		return false // the caller or the function has seen part of the stream: the call cannot be repeated
	}
	if u.missing != nil {
		o.failure.Err = notAgain(o.failure.Err, u.missing)
		return false
	}
	if u.job == nil { // readers of a job's output read the output of every attempt
		o.drop()
	}
	p.journal.tried(u)
	o.release()
	p.events.show(u, o.n)
	p.events.emit(Event{
		Kind: EventRetry, Node: o.failure.Node.Rank, At: o.failure.Node, Task: u.id, Name: u.label, Attempt: u.Attempts, Elapsed: wait, Err: o.failure,
		Ended: o.ended(),
	})
	o.recycle()
	return true
}

// queuedEvent says that a unit was queued, now or so many milliseconds ago.
func queuedEvent(u *unit) Event {
	return Event{Kind: EventTask, Node: -1, State: "queued", Task: u.id, Name: u.label, Elapsed: u.tallied.Queued().Truncate(time.Millisecond)}
}

// show has those who get a sample of tasks get the events of a unit: first that it was queued and, if so, has begun on a node.
func (e *events) show(u *unit, on *poolNode) {
	if e.tally == nil {
		return
	}
	late, begun := e.tally.Show(&u.tallied)
	if late {
		e.send(queuedEvent(u), false, true)
	}
	if begun && on != nil {
		e.send(u.eventOn(on, Event{Kind: EventTask, State: "started", Elapsed: u.tallied.Begun()}), false, true)
	}
}

// sampleStart reports whether those who get a sample of tasks get the events of a unit that has begun, or is about to.
func (e *events) sampleStart(u *unit, begun bool) bool {
	if e.tally == nil {
		return false
	}
	shown, late := e.tally.Started(&u.tallied, begun)
	if late {
		e.send(queuedEvent(u), false, true)
	}
	return shown
}

// notAgain adds the reason why no other attempt follows to an error.
func notAgain(err, why error) error {
	why = fmt.Errorf("it is not started again: %w", why)
	if err == nil {
		return why
	}
	return fmt.Errorf("%w; %w", err, why)
}

// ended describes the end of the attempt in an event.
func (o *attemptOutcome) ended() *AttemptEnd {
	if !o.u.batch.c.p.events.seen() {
		return nil
	}
	end := &AttemptEnd{ExitCode: o.result.ExitCode, Slot: o.slot, CostUSD: o.result.CostUSD}
	if o.failure != nil {
		end.Cause, end.ExitCode = o.failure.Cause, o.failure.ExitCode
	}
	return end
}

// End records the result and delivers it.
func (o *attemptOutcome) End() {
	u, p := o.u, o.u.batch.c.p
	state := "done"
	if o.failure != nil {
		if u.task.Critical && o.failure.Cause != CauseCancelled {
			u.failCall(o.failure)
		}
		o.result.Err, o.result.ExitCode = o.failure, o.failure.ExitCode
		if state = "failed"; o.failure.Cause == CauseCancelled {
			state = "cancelled"
		}
	}
	p.journal.concluded(u, o.result, o.release)
	if sampled := o.sampled(state); len(p.events.takers) > 0 || sampled {
		p.events.send(o.event(state), true, sampled)
	}
	u.finish(o.result)
	o.recycle()
}

// event returns the event of the unit's end.
func (o *attemptOutcome) event(state string) Event {
	u := o.u
	ev := Event{Kind: EventTask, Node: -1, State: state, Task: u.id, Name: u.label, Attempt: u.Attempts, Elapsed: o.result.Elapsed}
	if o.n != nil {
		ev.Node, ev.At, ev.Ended = o.result.Node.Rank, o.result.Node, o.ended()
	}
	if o.failure != nil {
		ev.Err = o.failure
	}
	return ev
}

// sampled reports whether the event of the unit's end is for those who get a sample of tasks. Otherwise the end is counted.
func (o *attemptOutcome) sampled(state string) bool {
	u, t := o.u, o.u.batch.c.p.events.tally
	if t == nil {
		return false
	}
	if state == "failed" {
		u.batch.c.p.events.show(u, o.n)
		return true
	}
	end := tally.End{Name: u.label, Node: -1, Cancelled: state == "cancelled"}
	if o.n != nil {
		end.Node, end.Attempts, end.Time = o.result.Node.Rank, 1, o.result.Elapsed
		end.USD, _ = o.result.CostUSD.USD()
	}
	return t.Ended(&u.tallied, end)
}
