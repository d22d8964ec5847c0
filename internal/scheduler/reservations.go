package scheduler

import (
	"cmp"
	"slices"
)

// reservations keep tasks that want much of a node from waiting forever while smaller ones come and go. Each main queue,
// with those for its sizes, has one at most: for the task whose turn it is, if no node has room for it. The node is, of
// those that are large enough, the one with the most free units. Nothing else starts there until such a task has
// started, on that node or on another.
type reservations struct {
	queues   *queues
	released []*Node // whose reservation has ended, and that were not filled since
}

// reserve makes the reservation of a main queue, if it needs one and a node is left for it.
func (r *reservations) reserve(main *queue) {
	if main.reservation() != nil {
		return
	}
	q := main.oldest(func(*queue) bool { return true })
	if q == nil || r.queues.freest(q) != nil { // or it is about to start
		return
	}
	n := r.roomiest(q)
	if n == nil {
		return
	}
	n.reserved, main.ofSizes().reserved = q, n
	r.queues.refree(n)
}

// roomiest returns the node to reserve for a queue, or nil. Tasks that want a slot need no reservation while others run
// in slots that they can have next.
func (r *reservations) roomiest(q *queue) (best *Node) {
	slotsInUse := false
	consider := func(n *Node) {
		if n == nil || n.hold != nil || n.state != Open && (n.state != Leaving || q.kind != queuePinned) {
			return
		}
		slotsInUse = slotsInUse || n.busy > 0
		if n.reserved != nil || q.size() > len(n.units.slots) {
			return
		}
		if best == nil || n.units.free > best.units.free || n.units.free == best.units.free && n.rank < best.rank {
			best = n
		}
	}
	switch main := q.main(); {
	case q.kind == queuePinned:
		consider(q.pin)
	case q.target.rank > 0 && q.target.rank <= len(r.queues.nodes):
		consider(r.queues.nodes[q.target.rank-1])
	case q.target.rank != 0:
	case q.kind == queueAny:
		for _, n := range r.queues.nodes {
			if consider(n); slotsInUse && q.size() == 0 {
				break
			}
		}
	default:
		for n := range main.matching {
			consider(n)
		}
	}
	if slotsInUse && q.size() == 0 {
		return nil
	}
	return best
}

// release ends a node's reservation, if it has one, and returns the main queue that had it. The scheduler fills the node
// again.
func (r *reservations) release(n *Node) *queue {
	if n.reserved == nil {
		return nil
	}
	main := n.reserved.main()
	main.sizes.reserved, n.reserved = nil, nil
	r.released = append(r.released, n)
	r.queues.refree(n)
	return main
}

// releaseUnneeded ends the reservation of a queue that has no task for it any more.
func (r *reservations) releaseUnneeded(q *queue) {
	if n := q.reservation(); n != nil && n.reserved == q && q.waiting == 0 {
		r.release(n)
	}
}

// reserveAt makes the reservations of the queues that have tasks for a node, in the order of their turns.
func (r *reservations) reserveAt(n *Node) {
	var mains []*queue
	add := func(q *queue) {
		if q != nil && q.reservation() == nil && q.oldest(func(*queue) bool { return true }) != nil {
			mains = append(mains, q)
		}
	}
	add(&n.pinned)
	add(r.queues.ranks[n.rank+1])
	for _, q := range n.targets {
		add(q)
	}
	add(&r.queues.anywhere)
	turn := func(q *queue) uint64 { return q.oldest(func(*queue) bool { return true }).nextTurn() }
	slices.SortFunc(mains, func(a, b *queue) int { return cmp.Compare(turn(a), turn(b)) })
	for _, q := range mains {
		r.reserve(q)
	}
}
