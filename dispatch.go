package gputrain

import (
	"context"
	"fmt"
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

	job *Job // that shows its output, or nil

	queued bool // guarded by pool.mu: it waits in a queue
	kept   bool // the journal has it
	alone  bool // it is the only one of a call that waits for it

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
	for _, u := range units {
		p.queuedLocked(u)
		if !p.enqueueLocked(u, false) {
			p.running.Go(func() { p.cancelled(u) })
		}
	}
	p.dispatchLocked()
}

// queuedLocked tells that a unit was accepted.
func (p *pool) queuedLocked(u *unit) {
	p.events.emit(Event{Kind: EventTask, Node: -1, State: "queued", Task: u.id, Name: u.label})
}

// enqueueLocked puts a unit in its queue, at the front if it was taken from a
// node that was lost. It reports false for one whose context has ended; if that
// comes later, the batch takes it out.
func (p *pool) enqueueLocked(u *unit, front bool) bool {
	if u.ctx.Err() != nil {
		return false
	}
	u.queued = true
	p.queueOfLocked(u).push(u, front)
	return true
}

// queueOfLocked returns where a unit waits: with its node, or with those that
// may run on the same nodes.
func (p *pool) queueOfLocked(u *unit) *queue {
	if u.pin != nil {
		return &u.pin.pinned
	}
	if u.task.Target.rank == 0 && u.task.Target.labels == nil {
		return &p.queue
	}
	key := u.task.Target.key()
	q := p.targeted[key]
	if q == nil {
		q = &queue{target: u.task.Target}
		if p.targeted == nil {
			p.targeted = map[string]*queue{}
		}
		p.targeted[key] = q
	}
	return q
}

// abandon ends those units of a batch that wait, when its context has ended.
func (p *pool) abandon(units []*unit) {
	var waited []*unit
	p.mu.Lock()
	for _, u := range units {
		if u.queued {
			u.queued = false
			p.queueOfLocked(u).left++
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

// dispatchLocked starts whatever can start: first what must run on one node,
// then the queues, each in order, and each unit on the node with the most free
// slots of those that it may run on.
func (p *pool) dispatchLocked() {
	for _, n := range p.nodes {
		for n.state == NodeReady && n.busy < len(n.slots) { // also where it gets no others any more
			u := n.pinned.pop()
			if u == nil {
				break
			}
			p.startLocked(u, n)
		}
	}
	for key, q := range p.targeted { // what can run on few nodes, before what can run on any
		if p.drainLocked(q); q.len() == 0 {
			delete(p.targeted, key)
		}
	}
	p.drainLocked(&p.queue)
	p.strandedLocked()
	if p.spec.MaxNodes > 0 {
		p.rescale()
	}
}

// drainLocked starts units of a queue until a node is missing.
func (p *pool) drainLocked(q *queue) {
	for q.len() > 0 {
		n := p.freestLocked(q.target)
		if n == nil {
			return
		}
		if u := q.pop(); u != nil {
			p.startLocked(u, n)
		}
	}
}

func (p *pool) freestLocked(t Target) *poolNode {
	var best *poolNode
	for _, n := range p.nodes { // of an elastic pool, the last are to become idle
		if !n.takesTasks() || best != nil && (n.busy >= best.busy || p.spec.MaxNodes > 0) {
			continue
		}
		if now, _ := t.matchesLocked(n); now {
			best = n
		}
	}
	return best
}

func (p *pool) startLocked(u *unit, n *poolNode) {
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
	if n = p.freestLocked(u.task.Target); n == nil {
		return nil, 0
	}
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
	next := p.nextLocked(n)
	if next == nil {
		n.freeSlot(slot)
		p.dispatchLocked()
	}
	return next
}

// nextLocked takes what waits for a slot of the node. As long as anything
// does, no other node has a slot for it.
func (p *pool) nextLocked(n *poolNode) *unit {
	if n.state != NodeReady {
		return nil
	}
	if u := n.pinned.pop(); u != nil {
		return u
	}
	if !n.takesPart() {
		return nil
	}
	for _, q := range p.targeted {
		if now, _ := q.target.matchesLocked(n); now {
			if u := q.pop(); u != nil {
				return u
			}
		}
	}
	return p.queue.pop()
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
		p.mu.Lock()
		queued := p.enqueueLocked(u, failure.Cause == CauseNodeLost)
		p.dispatchLocked()
		p.mu.Unlock()
		if !queued {
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

// strandedLocked fails what waits for nodes that will never come.
func (p *pool) strandedLocked() {
	var stranded []*unit
	alive := p.growsLocked()
	for _, n := range p.nodes {
		if n.state.over() {
			stranded = append(stranded, n.pinned.take()...)
		} else {
			alive = true
		}
	}
	for key, q := range p.targeted {
		if p.impossibleLocked(q.target) != nil {
			stranded = append(stranded, q.take()...)
			delete(p.targeted, key)
		}
	}
	if !alive {
		stranded = append(stranded, p.queue.take()...)
	}
	p.strandLocked(stranded)
}

// strandLocked fails units that no node will run.
func (p *pool) strandLocked(units []*unit) {
	if len(units) == 0 {
		return
	}
	why := make([]error, len(units))
	for i, u := range units {
		switch {
		case u.pin != nil:
			why[i] = u.pin.endLocked()
		default:
			if why[i] = p.impossibleLocked(u.task.Target); why[i] == nil {
				why[i] = p.noNodesLocked()
			}
		}
	}
	p.running.Go(func() {
		for i, u := range units {
			f := u.failure(nil, CauseNodeLost, why[i])
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
