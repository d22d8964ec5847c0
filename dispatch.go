package gputrain

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// A unit is one task of one call, from its submission to its one result.
type unit struct {
	id      string
	index   int
	task    Task
	label   string
	ctx     context.Context
	results chan<- Result
	over    chan struct{} // closed once the result is in

	// pin is the node that must run it, and members the nodes of the call, for a broadcast.
	pin     *poolNode
	members []*poolNode

	// Only whoever runs the unit, or holds it in the queue, touches these.
	attempts int // how often it was started
	failures int // how often it failed by itself
	losses   int // how often its node was lost
	unqueue  func() bool
}

// finish delivers the unit's result.
func (u *unit) finish(r Result) {
	r.Index = u.index
	r.Attempts = u.attempts
	u.results <- r
	close(u.over)
}

func (p *pool) nextTask() string { return fmt.Sprintf("t%d", p.taskSeq.Add(1)) }

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
		p.events.emit(Event{Kind: EventTask, Node: -1, State: "queued", Task: u.id, Name: u.label})
		p.enqueueLocked(u, false)
	}
	p.dispatchLocked()
}

// enqueueLocked puts a unit in its queue, at the front if it was taken from a
// node that was lost. A unit whose context ends there leaves it by itself.
func (p *pool) enqueueLocked(u *unit, front bool) {
	q := &p.queue
	if u.pin != nil {
		q = &u.pin.pinned
	}
	if front {
		*q = slices.Insert(*q, 0, u)
	} else {
		*q = append(*q, u)
	}
	u.unqueue = context.AfterFunc(u.ctx, func() { p.abandon(u) })
}

// abandon ends a unit whose context ended while it waited.
func (p *pool) abandon(u *unit) {
	p.mu.Lock()
	q := &p.queue
	if u.pin != nil {
		q = &u.pin.pinned
	}
	i := slices.Index(*q, u)
	if i >= 0 {
		*q = slices.Delete(*q, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		p.conclude(u, nil, Result{}, u.failure(nil, CauseCancelled, context.Cause(u.ctx)))
	}
}

// dispatchLocked starts whatever can start: first what must run on one node,
// then the queue, in order, each on the node with the most free slots.
func (p *pool) dispatchLocked() {
	for _, n := range p.nodes {
		for len(n.pinned) > 0 && n.takesTasks() {
			u := n.pinned[0]
			n.pinned = n.pinned[1:]
			p.startLocked(u, n)
		}
	}
	for len(p.queue) > 0 {
		n := p.freestLocked()
		if n == nil {
			break
		}
		u := p.queue[0]
		p.queue[0] = nil
		p.queue = p.queue[1:]
		p.startLocked(u, n)
	}
	p.strandedLocked()
}

func (p *pool) freestLocked() *poolNode {
	var best *poolNode
	for _, n := range p.nodes {
		if n.takesTasks() && (best == nil || n.busy < best.busy) {
			best = n
		}
	}
	return best
}

func (p *pool) startLocked(u *unit, n *poolNode) {
	u.unqueue()
	slot := n.takeSlot()
	u.attempts++
	p.running.Add(1)
	go func() {
		defer p.running.Done()
		r, failure := p.attempt(u, n, slot)
		p.mu.Lock()
		n.freeSlot(slot)
		p.dispatchLocked()
		p.mu.Unlock()
		p.conclude(u, n, r, failure)
	}()
}

// conclude decides what follows an attempt: another one, or the unit's result.
func (p *pool) conclude(u *unit, n *poolNode, r Result, failure *TaskError) {
	if n != nil {
		r.Node = p.nodeOf(n)
	}
	if failure == nil {
		p.events.emit(Event{Kind: EventTask, Node: n.rank, State: "done", Task: u.id, Name: u.label, Attempt: u.attempts, Elapsed: r.Elapsed})
		u.finish(r)
		return
	}
	failure.Node = r.Node
	if p.retry(u, failure) {
		return
	}
	state := "failed"
	if failure.Cause == CauseCancelled {
		state = "cancelled"
	}
	rank := -1
	if n != nil {
		rank = n.rank
	}
	r.Err = failure
	r.ExitCode = failure.ExitCode
	p.events.emit(Event{Kind: EventTask, Node: rank, State: state, Task: u.id, Name: u.label, Attempt: u.attempts, Elapsed: r.Elapsed, Err: failure})
	u.finish(r)
}

// retry queues a unit again where that is allowed, and reports whether it did.
func (p *pool) retry(u *unit, failure *TaskError) bool {
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
	p.events.emit(Event{Kind: EventRetry, Node: failure.Node.Rank, Task: u.id, Name: u.label, Attempt: u.attempts, Elapsed: wait, Err: failure})
	requeue := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.enqueueLocked(u, failure.Cause == CauseNodeLost)
		p.dispatchLocked()
	}
	if wait == 0 {
		requeue()
		return true
	}
	p.running.Go(func() { // the queue's own watch of the context ends it there
		select {
		case <-time.After(wait):
		case <-u.ctx.Done():
		}
		requeue()
	})
	return true
}

// retryWait grows from half a second to half a minute.
func retryWait(failures int) time.Duration {
	return min(500*time.Millisecond<<min(failures-1, 10), 30*time.Second)
}

// strandedLocked fails what waits for nodes that will never come.
func (p *pool) strandedLocked() {
	var stranded []*unit
	alive := false
	for _, n := range p.nodes {
		if n.state.over() {
			stranded = append(stranded, n.pinned...)
			n.pinned = nil
		} else {
			alive = true
		}
	}
	if !alive {
		stranded = append(stranded, p.queue...)
		p.queue = nil
	}
	if len(stranded) == 0 {
		return
	}
	err := p.noNodesLocked()
	p.running.Go(func() {
		for _, u := range stranded {
			u.unqueue()
			f := u.failure(nil, CauseNodeLost, err)
			u.losses = MaxNodeLosses
			p.conclude(u, u.pin, Result{}, f)
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
