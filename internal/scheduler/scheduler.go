// Package scheduler puts tasks onto the slots of nodes: queues, targets, turns, retries,
// batches. It knows neither how a node is reached nor what a task is. It asks a [Work] for
// one attempt at a time, a [Host] for the state of a node, and a [Fleet] for nodes that are
// still to come.
//
// Three kinds of tasks take turns at each node: shares of broadcasts, tasks with a Target,
// and tasks that may run anywhere. Within a kind batches take turns, one task each, in the
// order in which they came. Within a batch tasks start in their order, also one that is
// started again: it goes before those of its batch that were not started yet.
//
// A task starts on the node with the most free slots of those that it may run on; in an
// elastic fleet on the one of the lowest rank, so that the last nodes become idle.
//
// As long as a slot is free, no task waits that may run there.
//
// A node may also have units, which are parts of it that tasks hold alone. A task that wants units
// takes no slot, and a slot takes its units while a task runs in it. Such a task starts on the node
// of the lowest rank that has room for it, and smaller ones may overtake it meanwhile, until it is
// its turn: then a node is reserved for it.
package scheduler

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/stack"
)

// A Fleet is all nodes together. Its methods are called with the scheduler's lock held.
type Fleet interface {
	// Most returns the highest possible number of nodes.
	Most() int
	// Grows reports whether nodes that are not there yet may run what waits.
	Grows() bool
	// Units returns how many units a node that is not there yet can have at most.
	Units() int
	// NoNodes returns why no node is left.
	NoNodes() error
	// Impossible returns why no node can ever run tasks with a target.
	Impossible(Obstacle) error
	// Rescale recomputes the number of wanted nodes, without waiting for that.
	Rescale()
}

// Config configures a Scheduler.
type Config struct {
	Fleet Fleet
	// Elastic makes tasks start on the lowest rank, and the fleet rescale as they come and go.
	Elastic bool
	// Lock guards the nodes and the queues. A method whose comment says that the lock is held
	// is called with it; the others take it.
	Lock sync.Locker
	// Running counts the goroutines that run tasks, and those that wait to start one again.
	Running *sync.WaitGroup
}

// A Scheduler starts tasks as slots of its nodes become free.
type Scheduler struct {
	prospects
	lock    sync.Locker
	running *sync.WaitGroup
	queues  queues // guarded by lock
	holds   holds
	closed  bool // guarded by lock
}

// New returns a scheduler without nodes.
func New(c Config) *Scheduler {
	s := &Scheduler{lock: c.Lock, running: c.Running, queues: newQueues(c.Elastic)}
	s.prospects = prospects{c.Fleet, &s.queues}
	s.queues.reservations.queues = &s.queues
	s.holds.s = s
	return s
}

// Close makes the scheduler refuse tasks from now on. The lock is held.
func (s *Scheduler) Close() {
	s.closed = true
	s.holds.serve()
}

// Submit queues tasks, of one batch or several.
func (s *Scheduler) Submit(tasks ...*Task) {
	s.lock.Lock()
	defer s.lock.Unlock()
	s.submit(tasks)
}

// TakeTurn gives a task a turn before all tasks that are submitted later. It was started
// before, by another scheduler.
func (s *Scheduler) TakeTurn(t *Task) {
	s.lock.Lock()
	defer s.lock.Unlock()
	t.turn = s.queues.newTurn()
}

// submit is Submit with the lock held.
func (s *Scheduler) submit(tasks []*Task) {
	if s.closed {
		for _, t := range tasks {
			t.work.Refused()
		}
		return
	}
	var queues []*queue
	for _, t := range tasks {
		t.work.Queued()
		if t.batch.ctx.Err() != nil {
			s.running.Go(t.work.Cancelled)
			continue
		}
		if q := s.queues.push(t); len(queues) == 0 || queues[len(queues)-1] != q {
			queues = append(queues, q)
		}
	}
	slices.SortStableFunc(queues, func(a, b *queue) int { return int(a.kind - b.kind) }) // tasks that can run on few nodes first
	s.start(queues...)
}

// resubmit puts a task back in its queue. If its context ends later, Batch.Watch removes it.
func (s *Scheduler) resubmit(t *Task) {
	s.lock.Lock()
	cancelled := t.batch.ctx.Err() != nil
	if !cancelled {
		s.start(s.queues.push(t))
	}
	s.lock.Unlock()
	if cancelled {
		t.work.Cancelled()
	}
}

// start starts what can start of queues that got tasks, and fails what no node will run.
// The lock is held.
func (s *Scheduler) start(queues ...*queue) {
	for _, q := range queues {
		for q.len() > 0 {
			n := s.queues.freest(q)
			if n == nil {
				break
			}
			if t := s.queues.popFor(q, n); t != nil {
				s.run(t, n)
			}
		}
		s.strandIfHopeless(q)
		if s.queues.divided {
			s.queues.reservations.reserve(q.main())
		}
	}
	s.refill()
	s.rescale()
}

// rescale is for an elastic fleet, which follows the tasks.
func (s *Scheduler) rescale() {
	if s.queues.elastic {
		s.fleet.Rescale()
	}
}

// Demand returns which tasks run or wait. The lock is held.
func (s *Scheduler) Demand() Demand {
	d := s.queues.demand()
	d.Held = s.holds.nodes()
	return d
}

// Place gives a node a rank, in place of the node that has it. The lock is held.
func (s *Scheduler) Place(n *Node, rank int) { s.queues.place(n, rank) }

// Remove takes out a node that is over. The last node gets its rank. The lock is held.
func (s *Scheduler) Remove(n *Node) {
	if moved := s.queues.remove(n); moved != nil {
		s.Fill(moved)
	}
	s.refill()
}

// Update takes a node's state, labels and units as its Host has them now. The lock is held.
func (s *Scheduler) Update(n *Node) { s.queues.update(n) }

// Fill starts what waits for free slots and units of a node, unless a hold gets it. The lock is held.
func (s *Scheduler) Fill(n *Node) {
	if len(s.holds.waiting) > 0 {
		s.holds.serve()
	}
	s.fill(n)
	s.refill()
	s.rescale()
}

func (s *Scheduler) fill(n *Node) {
	for n.takesPinned() || s.queues.divided && n.units.free > 0 {
		t := s.queues.next(n)
		if t == nil {
			break
		}
		s.run(t, n)
	}
	if s.queues.divided {
		s.queues.reservations.reserveAt(n)
	}
}

// Dispatch starts whatever can start after a change of the nodes, and fails what no node
// will run any more. The lock is held.
func (s *Scheduler) Dispatch() {
	for _, n := range s.queues.nodes {
		s.Fill(n)
	}
	for _, n := range s.queues.nodes {
		s.strandIfHopeless(&n.pinned)
	}
	s.queues.each(s.strandIfHopeless)
	s.holds.serve()
	s.rescale()
}

// Take takes one slot of a node, for a task that runs there already. It reports false if the node does not have that
// slot, or it is taken. The lock is held.
func (s *Scheduler) Take(n *Node, slot int) bool {
	n.setUnits()
	if slot < 0 || slot >= len(n.slots) || n.slots[slot] || n.units.blocked(slot, len(n.slots)) {
		return false
	}
	s.queues.takeSlot(n, slot)
	return true
}

// Free gives a slot of a node, or the units of a task that has none, to the task whose turn it is, if any waits.
func (s *Scheduler) Free(n *Node, slot int) {
	if t := s.pass(n, slot); t != nil {
		s.running.Go(func() { s.work(t, n, slot) })
	}
}

// pass takes the task that has a slot next, or frees the slot.
func (s *Scheduler) pass(n *Node, slot int) *Task {
	s.lock.Lock()
	defer s.lock.Unlock()
	if !s.queues.divided {
		if next := s.queues.next(n); next != nil {
			return next
		}
	}
	s.queues.give(n, slot)
	n.ended()
	if s.queues.divided { // what is free now may be for several tasks, or not for the next one in a slot
		s.fill(n)
		s.refill()
	}
	if n.Busy() == 0 {
		n.host.Idle()
	}
	return nil
}

// run starts a task on a node that has room for it. The lock is held.
func (s *Scheduler) run(t *Task, n *Node) {
	slot := s.queues.start(t, n)
	s.running.Go(func() { s.work(t, n, slot) })
}

// work runs tasks in a slot until none waits for it.
func (s *Scheduler) work(t *Task, n *Node, slot int) {
	stack.Reserve()
	for t != nil {
		if t.batch.ctx.Err() != nil { // it was given the slot before it was taken out of its queue
			next := s.pass(n, slot)
			t.work.Cancelled()
			t = next
			continue
		}
		t = s.attempt(t, n, slot)
	}
}

// attempt makes one attempt, and returns the task that has the slot next.
func (s *Scheduler) attempt(t *Task, n *Node, slot int) (next *Task) {
	t.Attempts++
	o, gone := t.work.Attempt(n, slot)
	if gone != nil { // the result is not kept back, the slot is
		s.Conclude(t, o)
		<-gone
		return s.pass(n, slot)
	}
	next = s.pass(n, slot)
	s.Conclude(t, o)
	return next
}

// claim gives a task that was not submitted a slot, if one is free now.
func (s *Scheduler) claim(t *Task) (n *Node, slot int) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if s.closed || t.batch.ctx.Err() != nil {
		return nil, 0
	}
	q := s.queues.queueOf(t)
	if n = s.queues.freest(q); n == nil {
		return nil, 0
	}
	s.queues.claimed(t, q, n)
	t.work.Queued()
	s.running.Add(1)
	slot = s.queues.start(t, n)
	s.refill()
	return n, slot
}

// runHere makes one attempt at a task that was not submitted, and passes the slot on. It returns when the attempt is
// over, not always the task. It reports false if no slot is free.
func (s *Scheduler) runHere(t *Task) bool {
	n, slot := s.claim(t)
	if n == nil {
		return false
	}
	defer s.running.Done()
	t.Attempts++
	o, gone := t.work.Attempt(n, slot)
	if gone != nil { // the result is not kept back, the slot is
		s.running.Go(func() {
			<-gone
			s.work(s.pass(n, slot), n, slot)
		})
	} else {
		s.Free(n, slot)
	}
	s.Conclude(t, o)
	return true
}

// Conclude decides what follows an attempt: another one, or the task's result.
func (s *Scheduler) Conclude(t *Task, o Outcome) {
	switch wait, again := t.again(o.Failure()); {
	case !again || !o.Again(wait):
		o.End()
	case wait == 0:
		s.resubmit(t)
	default:
		s.running.Go(func() {
			sleep(t.batch.ctx, wait)
			s.resubmit(t)
		})
	}
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// resume gives lines turns again that were held.
func (s *Scheduler) resume(u *unread) {
	s.lock.Lock()
	defer s.lock.Unlock()
	held := u.held
	u.held = nil
	for _, h := range held {
		h.queue.resume(h.line)
		s.start(h.queue)
	}
}
