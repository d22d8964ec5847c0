package gputrain

import (
	"maps"

	"github.com/gputrain/gputrain/internal/least"
)

// A scheduler says which waiting task a free slot gets, and which node a task gets.
//
// Three kinds of tasks take turns at each node: shares of broadcasts, tasks with a Target,
// and tasks that may run anywhere. Within a kind calls take turns, one task each, in the
// order in which they came. Within a call tasks start in their order, also one that is
// started again: it goes before those of its call that were not started yet.
//
// A task starts on the node with the most free slots of those that it may run on; in an
// elastic pool on the one of the lowest rank, so that the last nodes become idle.
//
// As long as a slot is free, nothing waits that may run there. pool.mu guards it.
type scheduler struct {
	anywhere queue
	ranks    map[int]*queue    // by rank and one; only those with tasks
	labels   map[string]*queue // by Target.key; idle ones are kept for the next task
	active   map[*queue]bool   // those of ranks and labels with tasks

	free  *least.Heap[*poolNode]          // nodes with a free slot
	known map[*poolNode]map[string]string // the labels by which a node is in by
	by    map[label]map[*poolNode]bool    // nodes by each of their labels
	pairs int                             // sum of the sizes of the label queues' matching, and one for each queue

	busyPairs int // what idle queues were dropped down to last

	turn uint64 // the last that was given
}

// Label queues without tasks are dropped if there are more than keptPairs pairs of a node
// and a label queue for each node, and twice as many as when that was done last.
const keptPairs = 16

func (s *scheduler) newTurn() uint64 { s.turn++; return s.turn }

// nodeBefore orders nodes with a free slot.
func nodeBefore(a, b *poolNode) bool {
	if a.p.spec.MaxNodes == 0 && a.busy != b.busy {
		return a.busy < b.busy
	}
	return a.rank() < b.rank()
}

// push adds a unit to its queue, which it returns.
func (s *scheduler) push(u *unit) *queue {
	q := s.queueOf(u)
	turn := u.turn
	if turn == 0 {
		turn = s.newTurn()
	}
	q.push(u, turn)
	if q.kind == queueTargeted {
		if s.active == nil {
			s.active = map[*queue]bool{}
		}
		s.active[q] = true
	}
	return q
}

// queueOf returns where a unit waits: with its node, or with those that may run on the
// same nodes.
func (s *scheduler) queueOf(u *unit) *queue {
	if u.pin != nil {
		u.pin.pinned.pin = u.pin
		return &u.pin.pinned
	}
	return s.queueFor(u.task.Target)
}

func (s *scheduler) queueFor(t Target) *queue {
	switch {
	case t.rank != 0:
		q := s.ranks[t.rank]
		if q == nil {
			if s.ranks == nil {
				s.ranks = map[int]*queue{}
			}
			q = &queue{kind: queueTargeted, target: t}
			s.ranks[t.rank] = q
		}
		return q
	case len(t.labels) > 0:
		return s.queueForLabels(t)
	}
	s.anywhere.kind = queueAny
	return &s.anywhere
}

func (s *scheduler) queueForLabels(t Target) *queue {
	key := t.key()
	if q := s.labels[key]; q != nil {
		return q
	}
	if s.pairs > max(s.busyPairs*2, keptPairs*(len(s.known)+keptPairs)) {
		s.forgetIdle()
	}
	q := &queue{kind: queueTargeted, target: t, matching: map[*poolNode]bool{}, free: least.New(nodeBefore)}
	if s.labels == nil {
		s.labels = map[string]*queue{}
	}
	s.labels[key] = q
	s.pairs++
	var rarest map[*poolNode]bool
	for i, l := range t.labels {
		if with := s.by[l]; i == 0 || len(with) < len(rarest) {
			rarest = with
		}
	}
	for n := range rarest {
		s.match(n, q)
	}
	return q
}

// match adds a node to a queue for labels, if it has them.
func (s *scheduler) match(n *poolNode, q *queue) {
	if now, _ := q.target.matchesLocked(n); !now {
		return
	}
	q.matching[n] = true
	n.targets = append(n.targets, q)
	s.pairs++
	if n.takesTasks() {
		q.free.Put(n)
	}
}

// forgetIdle drops the label queues in which nothing waits.
func (s *scheduler) forgetIdle() {
	for key, q := range s.labels {
		if len(q.calls) == 0 {
			delete(s.labels, key)
			s.pairs -= len(q.matching) + 1
			q.matching = nil
		}
	}
	for n := range s.known {
		kept := n.targets[:0]
		for _, q := range n.targets {
			if q.matching != nil {
				kept = append(kept, q)
			}
		}
		clear(n.targets[len(kept):])
		n.targets = kept
	}
	s.busyPairs = s.pairs
}

// update notes that a node's state, rank or free slots changed.
func (s *scheduler) update(n *poolNode) {
	if s.free == nil {
		s.free = least.New(nodeBefore)
	}
	setFree(s.free, n)
	for _, q := range n.targets {
		setFree(q.free, n)
	}
}

// setFree has a node among those with a free slot, or not.
func setFree(h *least.Heap[*poolNode], n *poolNode) {
	if n.takesTasks() {
		h.Put(n)
	} else {
		h.Remove(n)
	}
}

// relabel notes that a node's labels changed, or that it is over.
func (s *scheduler) relabel(n *poolNode) {
	labels := n.labels
	if n.state.over() {
		labels = nil
	}
	if known, is := s.known[n]; is == (labels != nil) && maps.Equal(known, labels) {
		return
	}
	for key, value := range s.known[n] {
		l := label{key, value}
		if delete(s.by[l], n); len(s.by[l]) == 0 {
			delete(s.by, l)
		}
	}
	delete(s.known, n)
	for _, q := range n.targets {
		delete(q.matching, n)
		q.free.Remove(n)
		s.pairs--
	}
	n.targets = nil
	if labels == nil {
		return
	}
	if s.known == nil {
		s.known, s.by = map[*poolNode]map[string]string{}, map[label]map[*poolNode]bool{}
	}
	s.known[n] = labels
	for key, value := range labels {
		l := label{key, value}
		if s.by[l] == nil {
			s.by[l] = map[*poolNode]bool{}
		}
		s.by[l][n] = true
	}
	for _, q := range s.labels {
		s.match(n, q)
	}
}

// freest returns the node on which the next task of a queue for labels, or for any node,
// starts, or nil.
func (s *scheduler) freest(q *queue) *poolNode {
	free := q.free
	if q.kind == queueAny {
		free = s.free
	}
	if free == nil {
		return nil
	}
	n, _ := free.Top()
	return n
}

// next takes the unit that a slot of the node gets, or returns nil.
func (s *scheduler) next(n *poolNode) *unit {
	for {
		q := s.choose(n)
		if q == nil {
			return nil
		}
		if u := s.popFor(q, n); u != nil {
			return u
		}
	}
}

// popFor takes the first unit of a queue for a node. It returns nil if all calls of the
// queue are held.
func (s *scheduler) popFor(q *queue, n *poolNode) *unit {
	u := q.pop(s.newTurn)
	if u != nil {
		n.turns[q.kind] = s.newTurn()
	}
	s.tidy(q)
	return u
}

// choose returns the queue whose turn it is at a node: of the kinds with tasks for it the
// one that the node has served least recently.
func (s *scheduler) choose(n *poolNode) *queue {
	if n.state != NodeReady {
		return nil
	}
	var best *queue
	consider := func(q *queue) {
		if q != nil && q.waiting > 0 && (best == nil || n.turns[q.kind] < n.turns[best.kind]) {
			best = q
		}
	}
	consider(&n.pinned) // also where it gets no others any more
	if n.takesPart() {
		consider(s.targetedFor(n))
		consider(&s.anywhere)
	}
	return best
}

// targetedFor returns the queue of tasks with a Target whose turn it is at a node, or nil.
func (s *scheduler) targetedFor(n *poolNode) *queue {
	var best *queue
	consider := func(q *queue) {
		if q != nil && q.waiting > 0 && (best == nil || q.nextTurn() < best.nextTurn()) {
			best = q
		}
	}
	consider(s.ranks[n.rank()+1])
	for _, q := range n.targets {
		consider(q)
	}
	return best
}

// claimed notes that a unit of a queue has started on a node without a push.
func (s *scheduler) claimed(u *unit, q *queue, n *poolNode) {
	u.turn = s.newTurn()
	n.turns[q.kind] = u.turn
	s.tidy(q)
}

// leave takes out a unit that waits.
func (s *scheduler) leave(u *unit) {
	q := s.queueOf(u)
	q.leave(u)
	s.tidy(q)
}

// take empties a queue, but for calls that are held.
func (s *scheduler) take(q *queue) []*unit {
	defer s.tidy(q)
	return q.take()
}

// tidy notes that a queue may be empty.
func (s *scheduler) tidy(q *queue) {
	if q.kind != queueTargeted || len(q.calls) > 0 {
		return
	}
	delete(s.active, q)
	if q.target.rank != 0 {
		delete(s.ranks, q.target.rank)
	}
}

// each calls f for every queue with tasks but the nodes' own, those of fewer nodes first.
func (s *scheduler) each(f func(*queue)) {
	for q := range s.active {
		f(q)
	}
	s.anywhere.kind = queueAny
	f(&s.anywhere)
}

// demand returns how many tasks wait that are not for a node of a broadcast, and the
// highest rank, and one, that any of them asks for.
func (s *scheduler) demand() (tasks, rank int) {
	s.each(func(q *queue) {
		tasks += q.waiting
		if q.waiting > 0 {
			rank = max(rank, q.target.rank)
		}
	})
	return tasks, rank
}
