package gputrain

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/stack"
	"github.com/gputrain/gputrain/internal/worker"
)

// A unit is one task of one call, from its submission to its one result.
type unit struct {
	id      string
	index   int
	task    Task //secretvet:ignore no message formats a unit
	label   string
	ctx     context.Context // the batch's
	batch   *batch
	results chan<- Result
	over    chan struct{} // closed when the result is certain

	// pin is the node that must run it and members are the nodes of the call, for a
	// broadcast.
	pin     *poolNode
	members []*poolNode
	cluster func() *worker.Members // what functions are told of members

	job   *Job        // that shows its output, or nil
	share outputShare // of the memory for outputs

	queued bool   // guarded by pool.mu: it waits in a queue
	turn   uint64 // guarded by pool.mu: that of its call when it started last; zero before
	kept   bool   // the journal has it
	alone  bool   // it is the only one of a call that waits for it

	// missing is why it cannot be started anew: what an earlier program gave it is
	// not known to this one.
	missing error

	// Only whoever runs the unit, or holds it in the queue, touches these.
	attempts int // how often it was started
	failures int // how often it failed by itself
	losses   int // how often its node was lost
	usd      float64
	unpriced bool // some of what it cost is not known
}

// attemptID names one attempt at the unit: no two have the same, so that an
// answer of an older one is never taken for a newer one's.
func (u *unit) attemptID() string { return u.id + "-a" + strconv.Itoa(u.attempts) }

// nodeID names an attempt on its node, where it also tells its slot.
func (u *unit) nodeID(slot int) string { return u.attemptID() + "-s" + strconv.Itoa(slot) }

// finish delivers the unit's result.
func (u *unit) finish(r Result) {
	r.Index = u.index
	r.Attempts = u.attempts
	close(u.over)
	u.batch.unread.add(&r)
	u.results <- r // there is room
}

func (p *pool) nextTask() string { return "t" + strconv.FormatInt(p.taskSeq.Add(1), 10) }

func (p *pool) submit(units []*unit) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.submitLocked(units)
}

func (p *pool) submitLocked(units []*unit) {
	if p.closing {
		for _, u := range units {
			u.finish(Result{ExitCode: -1, Err: u.failure(nil, CauseCancelled, p.closedError())})
		}
		return
	}
	var queues []*queue
	for _, u := range units {
		p.queuedLocked(u)
		if u.ctx.Err() != nil {
			p.running.Go(func() { p.cancelled(u) })
			continue
		}
		if q := p.tasks.push(u); len(queues) == 0 || queues[len(queues)-1] != q {
			queues = append(queues, q)
		}
	}
	slices.SortStableFunc(queues, func(a, b *queue) int { return int(a.kind - b.kind) }) // what can run on few nodes first
	p.startLocked(queues...)
}

// queuedLocked tells that a unit was accepted.
func (p *pool) queuedLocked(u *unit) {
	p.events.emit(Event{Kind: EventTask, Node: -1, State: "queued", Task: u.id, Name: u.label})
}

// enqueueAgain puts a unit back in its queue. It reports false for one whose context has
// ended; if that comes later, the batch takes it out.
func (p *pool) enqueueAgain(u *unit) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if u.ctx.Err() != nil {
		return false
	}
	p.startLocked(p.tasks.push(u))
	return true
}

// abandon ends those units of a batch that wait, when its context has ended.
func (p *pool) abandon(units []*unit) {
	var waited []*unit
	p.mu.Lock()
	for _, u := range units {
		if u.queued {
			p.tasks.leave(u)
			waited = append(waited, u)
		}
	}
	p.mu.Unlock()
	for _, u := range waited {
		p.cancelled(u)
	}
}

// cancelled ends a unit that does not run.
func (p *pool) cancelled(u *unit) {
	p.conclude(u, nil, Result{}, u.failure(nil, CauseCancelled, context.Cause(u.ctx)), func() {})
}

// startLocked starts what can start of queues that got units, and fails what no node will
// run.
func (p *pool) startLocked(queues ...*queue) {
	for _, q := range queues {
		for q.len() > 0 {
			n := p.freestLocked(q)
			if n == nil {
				break
			}
			if u := p.tasks.popFor(q, n); u != nil {
				p.runLocked(u, n)
			}
		}
		if q.len() > 0 {
			p.strandQueueLocked(q)
		}
	}
	if p.spec.MaxNodes > 0 {
		p.rescale()
	}
}

// fillLocked starts what waits for free slots of a node.
func (p *pool) fillLocked(n *poolNode) {
	for n.state == NodeReady && n.busy < len(n.slots) {
		u := p.tasks.next(n)
		if u == nil {
			break
		}
		p.runLocked(u, n)
	}
	if p.spec.MaxNodes > 0 {
		p.rescale()
	}
}

// dispatchLocked starts whatever can start after a change of the pool's nodes, and fails
// what no node will run any more.
func (p *pool) dispatchLocked() {
	for _, n := range p.nodes {
		p.fillLocked(n)
	}
	for _, n := range p.nodes {
		p.strandQueueLocked(&n.pinned)
	}
	p.tasks.each(p.strandQueueLocked)
	if p.spec.MaxNodes > 0 {
		p.rescale()
	}
}

// freestLocked returns the node on which the next task of a queue starts, or nil.
func (p *pool) freestLocked(q *queue) *poolNode {
	switch {
	case q.kind == queuePinned:
		if n := q.pin; n != nil && n.state == NodeReady && n.busy < len(n.slots) {
			return n
		}
	case q.target.rank > 0:
		if rank := q.target.rank - 1; rank < len(p.nodes) && p.nodes[rank].takesTasks() {
			return p.nodes[rank]
		}
	default:
		return p.tasks.freest(q)
	}
	return nil
}

func (p *pool) runLocked(u *unit, n *poolNode) {
	slot := n.takeSlot()
	p.running.Go(func() { p.work(u, n, slot) })
}

// work runs units in a slot until none waits for it.
func (p *pool) work(u *unit, n *poolNode, slot int) {
	stack.Reserve()
	for u != nil {
		u = p.runOne(u, n, slot)
	}
}

// claim gives a unit that was not submitted a slot, if one is free now. lead
// then runs it.
func (p *pool) claim(u *unit) (n *poolNode, slot int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closing || u.ctx.Err() != nil {
		return nil, 0
	}
	q := p.tasks.queueOf(u)
	if n = p.freestLocked(q); n == nil {
		return nil, 0
	}
	p.tasks.claimed(u, q, n)
	p.queuedLocked(u)
	p.running.Add(1)
	return n, n.takeSlot()
}

// lead makes one attempt in a slot that was claimed, and leaves the slot to
// whoever is next. It returns when the attempt is over, not always the unit.
func (p *pool) lead(u *unit, n *poolNode, slot int) {
	defer p.running.Done()
	u.attempts++
	r, failure, release, gone := p.attempt(u, n, slot)
	if gone != nil { // the answer need not wait, the slot must
		p.running.Go(func() {
			<-gone
			p.work(p.passOn(n, slot), n, slot)
		})
	} else if next := p.passOn(n, slot); next != nil {
		p.running.Go(func() { p.work(next, n, slot) })
	}
	p.conclude(u, n, r, failure, release)
}

// runOne makes one attempt, and returns the unit that has the slot next.
func (p *pool) runOne(u *unit, n *poolNode, slot int) *unit {
	u.attempts++
	r, failure, release, gone := p.attempt(u, n, slot)
	if gone != nil { // the answer need not wait, the slot must
		p.conclude(u, n, r, failure, release)
		<-gone
		return p.passOn(n, slot)
	}
	next := p.passOn(n, slot)
	p.conclude(u, n, r, failure, release)
	return next
}

// passOn takes the unit that has a slot next, or frees the slot.
func (p *pool) passOn(n *poolNode, slot int) *unit {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.tasks.next(n)
	if next == nil {
		n.freeSlot(slot)
	}
	return next
}

// conclude decides what follows an attempt: another one, or the unit's result. It has
// the node released of the attempt once that is written down.
func (p *pool) conclude(u *unit, n *poolNode, r Result, failure *TaskError, release func()) {
	if n != nil {
		r.Node = p.nodeOf(n)
	}
	u.charge(&r, n)
	r.Index, r.Attempts = u.index, u.attempts
	if failure == nil {
		p.journal.concluded(u, r, release)
		p.events.emit(Event{Kind: EventTask, Node: n.rank(), State: "done", Task: u.id, Name: u.label, Attempt: u.attempts, Elapsed: r.Elapsed})
		u.finish(r)
		return
	}
	failure.Node = r.Node
	if p.retry(u, failure, release) {
		return
	}
	state := "failed"
	if failure.Cause == CauseCancelled {
		state = "cancelled"
	}
	rank := -1
	if n != nil {
		rank = n.rank()
	}
	r.Err = failure
	r.ExitCode = failure.ExitCode
	p.journal.concluded(u, r, release)
	p.events.emit(Event{Kind: EventTask, Node: rank, State: state, Task: u.id, Name: u.label, Attempt: u.attempts, Elapsed: r.Elapsed, Err: failure})
	u.finish(r)
}

// retry queues a unit again where that is allowed, and reports whether it did. Then the
// node is released of the attempt.
func (p *pool) retry(u *unit, failure *TaskError, release func()) bool {
	var wait time.Duration
	switch failure.Cause {
	case CauseCancelled, CauseNeverStarted:
		return false
	case CauseNodeLost:
		u.losses++
		if u.pin != nil || u.losses > MaxNodeLosses {
			return false
		}
	default:
		u.failures++
		if u.failures > u.task.Retries {
			return false
		}
		wait = retryWait(u.failures)
	}
	if u.ctx.Err() != nil {
		return false
	}
	if u.task.call != nil && u.task.call.stream != nil && !u.task.call.stream.Rewind() {
		return false // some of it has been seen: it cannot be done again unnoticed
	}
	if u.missing != nil {
		failure.Err = notAgain(failure.Err, u.missing)
		return false
	}
	if u.job == nil { // whoever reads a job's output reads every attempt's
		p.results.drop(u.attemptID())
	}
	p.journal.tried(u)
	release()
	p.events.emit(Event{Kind: EventRetry, Node: failure.Node.Rank, Task: u.id, Name: u.label, Attempt: u.attempts, Elapsed: wait, Err: failure})
	requeue := func() {
		if !p.enqueueAgain(u) {
			p.cancelled(u)
		}
	}
	if wait == 0 {
		requeue()
		return true
	}
	p.running.Go(func() {
		select {
		case <-time.After(wait):
		case <-u.ctx.Done():
		}
		requeue()
	})
	return true
}

// notAgain adds to an error why no other attempt follows.
func notAgain(err, why error) error {
	why = fmt.Errorf("it is not started again: %w", why)
	if err == nil {
		return why
	}
	return fmt.Errorf("%w; %w", err, why)
}

// retryWait grows from half a second to half a minute.
func retryWait(failures int) time.Duration {
	return min(500*time.Millisecond<<min(failures-1, 10), 30*time.Second)
}

// strandQueueLocked fails what waits in a queue for nodes that will never come.
func (p *pool) strandQueueLocked(q *queue) {
	if q.len() == 0 {
		return
	}
	var why error
	switch {
	case q.kind == queuePinned:
		if q.pin.state.over() {
			why = q.pin.endLocked()
		}
	case q.kind == queueTargeted:
		why = p.impossibleLocked(q.target)
	case !p.growsLocked() && !slices.ContainsFunc(p.nodes, func(n *poolNode) bool { return !n.state.over() }):
		why = p.noNodesLocked()
	}
	if why != nil {
		p.strandLocked(q, why)
	}
}

// strandLocked fails the units of a queue that no node will run.
func (p *pool) strandLocked(q *queue, why error) {
	units := p.tasks.take(q)
	if len(units) == 0 {
		return
	}
	p.running.Go(func() {
		for _, u := range units {
			f := u.failure(nil, CauseNodeLost, why)
			u.losses = MaxNodeLosses
			p.conclude(u, u.pin, Result{}, f, func() {})
		}
	})
}

// failure makes the error of a unit's last attempt.
func (u *unit) failure(n *poolNode, cause Cause, err error) *TaskError {
	e := &TaskError{Index: u.index, Name: u.label, Attempt: u.attempts, Cause: cause, ExitCode: -1, Err: err}
	if n != nil {
		e.Node = n.p.nodeOf(n)
	}
	return e
}
