package gputrain

import "github.com/gputrain/gputrain/internal/least"

// A queueKind is a kind of queue. Those that have tasks for a node take turns there.
type queueKind int

const (
	queuePinned   queueKind = iota // shares of broadcasts, for one node
	queueTargeted                  // tasks with a Target
	queueAny                       // tasks that may run on any node
	queueKinds    = iota
)

// A queue is tasks that wait for a slot of the same nodes, call by call. The calls take
// turns; within a call tasks start in their order. The zero value is a pinned queue.
// pool.mu guards it.
type queue struct {
	kind    queueKind
	target  Target
	pin     *poolNode // of a pinned queue that something waited in
	calls   map[*batch]*callQueue
	turns   *least.Heap[*callQueue] // those of calls that are not held
	waiting int                     // tasks in turns

	// Of a queue for labels only.
	matching map[*poolNode]bool     // the nodes that have the labels now
	free     *least.Heap[*poolNode] // those of matching with a free slot
}

// A callQueue is the tasks of one call that wait in one queue.
type callQueue struct {
	call    *batch
	turn    uint64             // the lowest is next
	fresh   []*unit            // never started, in order; those before head are gone
	head    int                //
	again   *least.Heap[*unit] // started before, by index; nil if there were none
	waiting int                // units that have not left
	held    bool               // it gets no turn: see unread
}

// push adds a unit. turn is the place of its call in the round, if that has no other unit
// in the queue: a new one for a unit that was never started, its last one for another.
func (q *queue) push(u *unit, turn uint64) {
	c := q.calls[u.batch]
	if c == nil {
		c = &callQueue{call: u.batch, turn: turn}
		if q.calls == nil {
			q.calls = map[*batch]*callQueue{}
			q.turns = least.New(func(a, b *callQueue) bool { return a.turn < b.turn })
		}
		q.calls[u.batch] = c
		q.turns.Put(c)
	}
	if u.turn == 0 {
		c.fresh = append(c.fresh, u)
	} else {
		if c.again == nil {
			c.again = least.New(func(a, b *unit) bool { return a.index < b.index })
		}
		c.again.Put(u)
	}
	u.queued = true
	c.waiting++
	if !c.held {
		q.waiting++
	}
}

// len counts the units that wait for a slot, without those of calls that are held.
func (q *queue) len() int { return q.waiting }

// nextTurn returns the lowest turn of the queue's calls.
func (q *queue) nextTurn() uint64 {
	c, _ := q.turns.Top()
	return c.turn
}

// pop takes the first unit of the call whose turn it is, and gives that call the turn
// that newTurn returns. A call with too many unread results is held. It returns nil if
// no other call is there.
func (q *queue) pop(newTurn func() uint64) *unit {
	for q.waiting > 0 {
		c, _ := q.turns.Top()
		if c.call.unread.hold(q, c) {
			c.held = true
			q.turns.Remove(c)
			q.waiting -= c.waiting
			continue
		}
		u := c.take()
		u.queued, u.turn = false, c.turn
		c.waiting--
		q.waiting--
		if c.waiting == 0 {
			q.drop(c)
		} else {
			c.turn = newTurn()
			q.turns.Put(c)
		}
		return u
	}
	return nil
}

// resume gives a call that was held turns again.
func (q *queue) resume(c *callQueue) {
	if !c.held || q.calls[c.call] != c {
		return
	}
	c.held = false
	q.turns.Put(c)
	q.waiting += c.waiting
}

// leave takes out a unit that waits.
func (q *queue) leave(u *unit) {
	c := q.calls[u.batch]
	u.queued = false // take skips it
	c.waiting--
	if !c.held {
		q.waiting--
	}
	if c.waiting == 0 {
		q.drop(c)
	}
}

func (q *queue) drop(c *callQueue) {
	q.turns.Remove(c)
	delete(q.calls, c.call)
}

// take empties the queue, but for calls that are held.
func (q *queue) take() []*unit {
	var all []*unit
	first := func() uint64 { return 0 } // the order of turns does not matter any more
	for u := q.pop(first); u != nil; u = q.pop(first) {
		all = append(all, u)
	}
	return all
}

// take returns the call's first unit that has not left. There is one.
func (c *callQueue) take() *unit {
	for c.again != nil {
		u, ok := c.again.Top()
		if !ok {
			break
		}
		c.again.Remove(u)
		if u.queued {
			return u
		}
	}
	for {
		u := c.fresh[c.head]
		c.fresh[c.head] = nil
		c.head++
		if u.queued {
			return u
		}
	}
}
