package scheduler

import (
	"maps"

	"github.com/gputrain/gputrain/internal/least"
)

// queues decides which waiting task a free slot gets, and which node a task gets. The scheduler's lock guards it.
type queues struct {
	elastic bool    // tasks start on the node of the lowest rank that has a free slot, not on the freest
	nodes   []*Node // by rank

	anywhere queue
	ranks    map[int]*queue    // by rank and one; only those with tasks
	labels   map[string]*queue // by Target.key; idle ones are kept for the next task
	active   map[*queue]bool   // those of ranks and labels with tasks

	known    map[*Node]map[string]string // the labels by which a node is in labelled
	labelled map[Label]map[*Node]bool    // nodes by each of their labels
	pairs    int                         // sum of the sizes of the label queues' matching, and one for each queue

	busyPairs int // the number of idle pairs at the last drop

	turn uint64 // the last that was given

	divided      bool // some task has wanted units
	mostUnits    int  // that a node was seen to have
	reservations reservations
}

// Label queues without tasks are dropped if there are more than keptPairs pairs of a node
// and a label queue for each node, and twice as many as when that was done last.
const keptPairs = 16

func newQueues(elastic bool) queues {
	return queues{
		elastic: elastic, anywhere: queue{kind: queueAny, free: least.New(nodeBefore(elastic))}, ranks: map[int]*queue{}, labels: map[string]*queue{}, active: map[*queue]bool{},
		known: map[*Node]map[string]string{}, labelled: map[Label]map[*Node]bool{},
	}
}

// nodeBefore returns the order of nodes with a free slot.
func nodeBefore(elastic bool) func(a, b *Node) bool {
	return func(a, b *Node) bool {
		if !elastic && a.busy != b.busy {
			return a.busy < b.busy
		}
		return a.rank < b.rank
	}
}

func (s *queues) newTurn() uint64 { s.turn++; return s.turn }

// push adds a task to its queue, which it returns.
func (s *queues) push(t *Task) *queue {
	q := s.queueOf(t)
	turn := t.turn
	if turn == 0 {
		turn = s.newTurn()
	}
	q.push(t, turn)
	if q.kind == queueTargeted {
		s.active[q.main()] = true
	}
	return q
}

// queueOf returns where a task waits: with its node, or with those that may run on the
// same nodes.
func (s *queues) queueOf(t *Task) *queue {
	var q *queue
	if t.pin != nil {
		q = &t.pin.pinned
	} else {
		q = s.queueFor(t.target)
	}
	if t.units > 0 {
		s.divided = true
		return s.sizedQueue(q, int(t.units))
	}
	return q
}

func (s *queues) queueFor(t Target) *queue {
	switch {
	case t.rank != 0:
		q := s.ranks[t.rank]
		if q == nil {
			q = &queue{kind: queueTargeted, target: t}
			s.ranks[t.rank] = q
		}
		return q
	case len(t.labels) > 0:
		return s.queueForLabels(t)
	}
	return &s.anywhere
}

func (s *queues) queueForLabels(t Target) *queue {
	key := t.key()
	if q := s.labels[key]; q != nil {
		return q
	}
	if s.pairs > max(s.busyPairs*2, keptPairs*(len(s.known)+keptPairs)) {
		s.forgetIdle()
	}
	q := &queue{kind: queueTargeted, target: t, matching: map[*Node]bool{}, free: least.New(nodeBefore(s.elastic))}
	s.labels[key] = q
	s.pairs++
	var rarest map[*Node]bool
	for i, l := range t.labels {
		if with := s.labelled[l]; i == 0 || len(with) < len(rarest) {
			rarest = with
		}
	}
	for n := range rarest {
		s.match(n, q)
	}
	return q
}

// match adds a node to a queue for labels, if it has them.
func (s *queues) match(n *Node, q *queue) {
	if now, _ := q.target.matches(n); !now {
		return
	}
	q.matching[n] = true
	n.targets = append(n.targets, q)
	s.pairs += 1 + len(q.sized())
	setFree(q, n)
}

// forgetIdle drops the label queues in which nothing waits.
func (s *queues) forgetIdle() {
	for key, q := range s.labels {
		if q.isEmpty() {
			delete(s.labels, key)
			s.pairs -= len(q.matching)*(1+len(q.sized())) + 1
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

// place gives a node a rank, in place of the node that has it.
func (s *queues) place(n *Node, rank int) {
	for len(s.nodes) <= rank {
		s.nodes = append(s.nodes, nil)
	}
	n.rank = rank
	s.nodes[rank] = n
}

// remove takes a node out. The last one gets its rank, and is returned unless it is n.
func (s *queues) remove(n *Node) (moved *Node) {
	last := len(s.nodes) - 1
	s.reservations.release(n)
	if moved = s.nodes[last]; moved == n {
		moved = nil
	} else {
		s.reservations.release(moved)
		s.place(moved, n.rank)
		s.refree(moved)
	}
	s.nodes[last] = nil
	s.nodes = s.nodes[:last]
	n.rank = -1
	return moved
}

// has reports whether a node that is not over has the rank, or the labels, now. It does not search all nodes.
func (s *queues) has(t Target) bool {
	if t.rank != 0 {
		return t.rank > 0 && t.rank <= len(s.nodes) && s.nodes[t.rank-1].state != Over
	}
	return len(s.queueFor(t).matching) > 0
}

// update takes a node's state and labels as they are now.
func (s *queues) update(n *Node) {
	n.state, n.labels = n.host.State(), n.host.Labels()
	n.setUnits()
	s.mostUnits = max(s.mostUnits, len(n.units.slots))
	s.relabel(n)
	main := s.reservations.release(n)
	s.refree(n)
	if main != nil {
		s.reservations.reserve(main) // it may have to be another node
	}
}

// start takes what a task holds on a node that has room for it, and returns its slot.
func (s *queues) start(t *Task, n *Node) (slot int) {
	if t.units > 0 {
		return s.takeUnits(n, n.units.pick(int(t.units)))
	}
	slot = n.freeSlot()
	s.takeSlot(n, slot)
	return slot
}

// give frees what a task holds.
func (s *queues) give(n *Node, slot int) {
	if slot < len(n.slots) {
		s.giveSlot(n, slot)
		return
	}
	n.giveUnits(slot)
	s.refree(n)
}

// takeSlot takes a slot of a node that is free.
func (s *queues) takeSlot(n *Node, slot int) {
	n.slots[slot] = true
	n.busy++
	n.units.takeSlot(slot, len(n.slots))
	s.refree(n)
}

// giveSlot frees a slot of a node that is taken.
func (s *queues) giveSlot(n *Node, slot int) {
	n.slots[slot] = false
	n.busy--
	n.units.giveSlot(slot, len(n.slots))
	s.refree(n)
}

// refree notes that a node's state, rank, reservation, or free slots or units changed.
func (s *queues) refree(n *Node) {
	setFree(&s.anywhere, n)
	for _, q := range n.targets {
		setFree(q, n)
	}
}

// setFree adds a node to those with room for tasks of a main queue, and of those for its sizes, or removes it.
func setFree(q *queue, n *Node) {
	if n.takesTasks() {
		q.free.Put(n)
	} else {
		q.free.Remove(n)
	}
	for _, sized := range q.sized() {
		sized.setSized(n)
	}
}

// relabel puts a node in the queues for labels that it has now: none, if it is over.
func (s *queues) relabel(n *Node) {
	labels := n.labels
	if n.state == Over {
		labels = nil
	}
	if known, is := s.known[n]; is == (labels != nil) && maps.Equal(known, labels) {
		return
	}
	for key, value := range s.known[n] {
		l := Label{key, value}
		if delete(s.labelled[l], n); len(s.labelled[l]) == 0 {
			delete(s.labelled, l)
		}
	}
	delete(s.known, n)
	for _, q := range n.targets {
		delete(q.matching, n)
		q.free.Remove(n)
		for _, sized := range q.sized() {
			sized.free.Remove(n)
		}
		s.pairs -= 1 + len(q.sized())
	}
	n.targets = nil
	if labels == nil {
		return
	}
	s.known[n] = labels
	for key, value := range labels {
		l := Label{key, value}
		if s.labelled[l] == nil {
			s.labelled[l] = map[*Node]bool{}
		}
		s.labelled[l][n] = true
	}
	for _, q := range s.labels {
		s.match(n, q)
	}
}

// freest returns the node on which the next task of a queue starts, or nil.
func (s *queues) freest(q *queue) *Node {
	if n := q.reservation(); n != nil && n.reserved == q && n.admits(q) {
		return n
	}
	switch {
	case q.kind == queuePinned:
		if q.pin.admits(q) {
			return q.pin
		}
	case q.target.rank > 0:
		if rank := q.target.rank - 1; rank < len(s.nodes) && s.nodes[rank].admits(q) {
			return s.nodes[rank]
		}
	case q.free != nil:
		n, _ := q.free.Top()
		return n
	}
	return nil
}

// next takes the task that starts next on the node, or returns nil.
func (s *queues) next(n *Node) *Task {
	for {
		q := s.choose(n)
		if q == nil {
			return nil
		}
		if t := s.popFor(q, n); t != nil {
			return t
		}
	}
}

// popFor takes the first task of a queue for a node. It returns nil if all batches of the
// queue are held.
func (s *queues) popFor(q *queue, n *Node) *Task {
	t := q.pop(s.newTurn)
	if t != nil {
		n.turns[q.kind] = s.newTurn()
		if r := q.reservation(); r != nil && r.reserved == q {
			s.reservations.release(r)
		}
	}
	s.tidy(q)
	return t
}

// choose returns the queue whose turn it is at a node: of the kinds with tasks for it the
// one that the node has served least recently.
func (s *queues) choose(n *Node) *queue {
	if n.state != Open && n.state != Leaving || n.hold != nil {
		return nil
	}
	var best *queue
	consider := func(q *queue) {
		if q != nil && (best == nil || n.turns[q.kind] < n.turns[best.kind]) {
			best = q
		}
	}
	consider(nextAt(s, n, &n.pinned))
	if n.state == Open {
		consider(s.targetedFor(n))
		consider(nextAt(s, n, &s.anywhere))
	}
	return best
}

// nextAt returns which of a main queue, which may be nil, and those for its sizes has the task that starts next on a
// node that it allows, or nil. If no task has wanted units yet, it does not ask whether a slot is free.
func nextAt(s *queues, n *Node, q *queue) *queue {
	switch {
	case q == nil:
		return nil
	case s.divided:
		return q.oldest(n.admits)
	case q.waiting == 0:
		return nil
	}
	return q
}

// targetedFor returns the queue of tasks with a Target whose turn it is at a node, or nil.
func (s *queues) targetedFor(n *Node) *queue {
	var best *queue
	consider := func(q *queue) {
		if q != nil && (best == nil || q.nextTurn() < best.nextTurn()) {
			best = q
		}
	}
	consider(nextAt(s, n, s.ranks[n.rank+1]))
	for _, q := range n.targets {
		consider(nextAt(s, n, q))
	}
	return best
}

// claimed notes that a task of a queue has started on a node without a push.
func (s *queues) claimed(t *Task, q *queue, n *Node) {
	t.turn = s.newTurn()
	n.turns[q.kind] = t.turn
	s.tidy(q)
}

// leave takes out a task that waits.
func (s *queues) leave(t *Task) {
	q := s.queueOf(t)
	q.leave(t)
	s.tidy(q)
	if s.divided {
		s.reservations.reserve(q.main())
	}
}

// take empties a queue, but for batches that are held.
func (s *queues) take(q *queue) []*Task {
	defer s.tidy(q)
	return q.take()
}

// tidy notes that a queue may be empty.
func (s *queues) tidy(q *queue) {
	s.reservations.releaseUnneeded(q)
	if q = q.main(); q.kind != queueTargeted || !q.isEmpty() {
		return
	}
	delete(s.active, q)
	if q.target.rank != 0 {
		delete(s.ranks, q.target.rank)
	}
}

// each calls f for every main queue with tasks but the nodes' own, those of fewer nodes first.
func (s *queues) each(f func(*queue)) {
	for q := range s.active {
		f(q)
	}
	f(&s.anywhere)
}

// A Demand is the tasks that run or wait.
type Demand struct {
	// Tasks want a slot.
	Tasks int
	// Units counts those that want units, by how many. It is nil if there were never any.
	Units map[int]int
	// MostUnits is how many units a node was seen to have at most.
	MostUnits int
	// Ranks is the highest rank, and one, that a waiting task asks for.
	Ranks int
	// Held is how many nodes holds have or wait for, beside those that tasks need.
	Held int
}

func (s *queues) demand() (d Demand) {
	d.MostUnits = s.mostUnits
	if s.divided {
		d.Units = map[int]int{}
	}
	count := func(q *queue) {
		d.Tasks += q.waiting
		waiting := q.waiting
		for _, sized := range q.sized() {
			d.Units[sized.size()] += sized.waiting
			waiting += sized.waiting
		}
		if waiting > 0 {
			d.Ranks = max(d.Ranks, q.target.rank)
		}
	}
	s.each(count)
	for _, n := range s.nodes {
		d.Tasks += n.busy
		count(&n.pinned)
		for _, held := range n.units.held {
			d.Units[len(held)]++
		}
	}
	return d
}
