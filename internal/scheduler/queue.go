package scheduler

import "github.com/gputrain/gputrain/internal/least"

// A queueKind is a kind of queue. Kinds that have tasks for a node take turns there.
type queueKind int

const (
	queuePinned   queueKind = iota // shares of broadcasts, for one node
	queueTargeted                  // tasks with a Target
	queueAny                       // tasks that may run on any node
	queueKinds    = iota
)

// A queue is tasks that wait for a slot of the same nodes, batch by batch. The batches
// take turns; within a batch tasks start in their order. The zero value is a pinned queue.
// The scheduler's lock guards it.
type queue struct {
	kind    queueKind
	target  Target
	pin     *Node // of a pinned queue
	batches map[*Batch]*line
	turns   *least.Heap[*line] // those of batches that are not held
	waiting int                // tasks in turns

	sizes *sizes // nil for a main queue of a scheduler without tasks that want units

	// matching is nil but for main queues for labels: the nodes that have the labels now. Free has those with room for a
	// task of the queue; it is nil for queues for one node.
	matching map[*Node]bool
	free     *least.Heap[*Node]
}

// A line is the tasks of one batch that wait in one queue.
type line struct {
	batch   *Batch
	turn    uint64             // the lowest is next
	fresh   []*Task            // never started, in order; those before head are gone
	head    int                //
	again   *least.Heap[*Task] // started before, by index; nil if there were none
	waiting int                // tasks that have not left
	held    bool               // it gets no turn: see unread
}

// push adds a task. turn is its batch's turn, if that has no other task in the queue: a new one for a task that was
// never started, its last one for another.
func (q *queue) push(t *Task, turn uint64) {
	l := q.batches[t.batch]
	if l == nil {
		l = &line{batch: t.batch, turn: turn}
		if q.batches == nil {
			q.batches = map[*Batch]*line{}
			q.turns = least.New(func(a, b *line) bool { return a.turn < b.turn })
		}
		q.batches[t.batch] = l
		q.turns.Put(l)
	}
	if t.turn == 0 {
		l.fresh = append(l.fresh, t)
	} else {
		if l.again == nil {
			l.again = least.New(func(a, b *Task) bool { return a.index < b.index })
		}
		l.again.Put(t)
	}
	t.queued = true
	l.waiting++
	if !l.held {
		q.waiting++
	}
}

// len counts the tasks that wait for a slot, without those of batches that are held.
func (q *queue) len() int { return q.waiting }

// nextTurn returns the lowest turn of the queue's batches.
func (q *queue) nextTurn() uint64 {
	l, _ := q.turns.Top()
	return l.turn
}

// pop takes the first task of the batch whose turn it is, and gives that batch the turn
// that newTurn returns. A batch with too many unread results is held. It returns nil if
// there is no other batch.
func (q *queue) pop(newTurn func() uint64) *Task {
	for q.waiting > 0 {
		l, _ := q.turns.Top()
		if l.batch.unread.hold(q, l) {
			l.held = true
			q.turns.Remove(l)
			q.waiting -= l.waiting
			continue
		}
		t := l.take()
		t.queued, t.turn = false, l.turn
		l.waiting--
		q.waiting--
		if l.waiting == 0 {
			q.drop(l)
		} else {
			l.turn = newTurn()
			q.turns.Put(l)
		}
		return t
	}
	return nil
}

// resume gives a batch that was held turns again.
func (q *queue) resume(l *line) {
	if !l.held || q.batches[l.batch] != l {
		return
	}
	l.held = false
	q.turns.Put(l)
	q.waiting += l.waiting
}

// leave takes out a task that waits.
func (q *queue) leave(t *Task) {
	l := q.batches[t.batch]
	t.queued = false // take skips it
	l.waiting--
	if !l.held {
		q.waiting--
	}
	if l.waiting == 0 {
		q.drop(l)
	}
}

func (q *queue) drop(l *line) {
	q.turns.Remove(l)
	delete(q.batches, l.batch)
}

// take empties the queue, but for batches that are held.
func (q *queue) take() []*Task {
	var all []*Task
	first := func() uint64 { return 0 } // the order of turns does not matter any more
	for t := q.pop(first); t != nil; t = q.pop(first) {
		all = append(all, t)
	}
	return all
}

// take returns the line's first task that has not left. There is one.
func (l *line) take() *Task {
	for l.again != nil {
		t, ok := l.again.Top()
		if !ok {
			break
		}
		l.again.Remove(t)
		if t.queued {
			return t
		}
	}
	for {
		t := l.fresh[l.head]
		l.fresh[l.head] = nil
		l.head++
		if t.queued {
			return t
		}
	}
}
