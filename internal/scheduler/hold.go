package scheduler

import (
	"cmp"
	"context"
	"slices"
)

// A Hold keeps whole nodes for work that the scheduler does not start itself. From the moment that it has a node no task
// starts there; those that run go on to their end. Holds get their nodes in the order in which they asked, and each gets
// all that it lacks in one step. One that waits for more in place of those that it has dropped may lose the others to one
// before it. So no two can block each other with a part of their nodes each.
type Hold struct {
	s      *Scheduler
	target Target
	avoid  map[*Node]bool

	// Guarded by the scheduler's lock.
	nodes   []*Node
	lacks   int           // how many more it waits for
	changed chan struct{} // closed, and replaced, when it gets nodes, or one of its nodes has no task any more
	failed  error         // why it will never get them
}

// NewHold returns a hold that has no nodes, of those that a target allows. The lock is held. It returns nil after Close.
func NewHold(s *Scheduler, t Target) *Hold {
	if s.closed {
		return nil
	}
	return &Hold{s: s, target: t, avoid: map[*Node]bool{}, changed: make(chan struct{})}
}

// holds are those that wait for nodes, in the order in which they get them. The scheduler's lock guards it.
type holds struct {
	s       *Scheduler
	waiting []*Hold
}

// Grow waits until the hold has so many nodes, and no task runs on any of them. It returns all of them. The error is
// the cause of ctx, or says why there will never be as many; the hold then has the nodes that it had.
func (h *Hold) Grow(ctx context.Context, nodes int) ([]*Node, error) {
	s := h.s
	s.lock.Lock()
	defer s.lock.Unlock()
	h.lacks, h.failed = max(nodes-len(h.nodes), 0), nil
	s.holds.waiting = slices.DeleteFunc(s.holds.waiting, func(other *Hold) bool { return other == h })
	if first := len(h.nodes) > 0; first { // others wait for what it has
		s.holds.waiting = slices.Insert(s.holds.waiting, 0, h)
	} else {
		s.holds.waiting = append(s.holds.waiting, h)
	}
	defer func() {
		h.lacks = 0
		s.holds.waiting = slices.DeleteFunc(s.holds.waiting, func(other *Hold) bool { return other == h })
		s.holds.serve()
		s.rescale()
	}()
	s.holds.serve()
	s.rescale()
	for {
		switch {
		case ctx.Err() != nil: // first: its caller would ask again and again for nodes in place of those that end with a pool
			return nil, context.Cause(ctx)
		case h.failed != nil:
			return nil, h.failed
		case h.lacks == 0 && !slices.ContainsFunc(h.nodes, (*Node).runsTasks):
			return slices.Clone(h.nodes), nil
		}
		changed := h.changed
		s.lock.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		s.lock.Lock()
	}
}

// Aim has the hold get nodes that a target allows from now on. The lock is held.
func (h *Hold) Aim(t Target) { h.target = t }

// Seize gives the hold a node at once, whatever runs or waits there. The lock is held.
func (h *Hold) Seize(n *Node) {
	if n.hold == nil {
		h.take(n)
	}
}

// Drop gives a node back. If it is broken, the hold never gets it again.
func (h *Hold) Drop(n *Node, broken bool) {
	h.s.lock.Lock()
	defer h.s.lock.Unlock()
	if broken {
		h.avoid[n] = true
	}
	h.give(n)
}

// Part moves a node to a hold of its own, so that nothing starts there in between. h never gets it again. It returns nil if h
// does not have the node, or after Close.
func (h *Hold) Part(n *Node) *Hold {
	h.s.lock.Lock()
	defer h.s.lock.Unlock()
	if n.hold != h {
		return nil
	}
	other := NewHold(h.s, h.target)
	if other == nil {
		return nil
	}
	h.avoid[n] = true
	h.nodes = slices.DeleteFunc(h.nodes, func(had *Node) bool { return had == n })
	n.hold, other.nodes = other, []*Node{n}
	return other
}

// Release gives all nodes back.
func (h *Hold) Release() {
	h.s.lock.Lock()
	defer h.s.lock.Unlock()
	for _, n := range slices.Clone(h.nodes) {
		h.give(n)
	}
}

// take takes a node.
func (h *Hold) take(n *Node) {
	n.hold = h
	h.nodes = append(h.nodes, n)
	h.s.queues.reservations.release(n)
	h.s.queues.refree(n)
}

// give gives a node back, if the hold has it, and starts what waits for the node.
func (h *Hold) give(n *Node) {
	if n.hold != h {
		return
	}
	n.hold = nil
	h.nodes = slices.DeleteFunc(h.nodes, func(other *Node) bool { return other == n })
	s := h.s
	s.queues.refree(n)
	s.holds.serve()
	s.Fill(n)
	if n.Busy() == 0 {
		n.host.Idle()
	}
}

// notify wakes a Grow.
func (h *Hold) notify() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// allows reports whether the hold may have a node now, if no other one has it.
func (h *Hold) allows(n *Node) bool {
	now, _ := h.target.matches(n)
	return now && n.state == Open && !h.avoid[n]
}

// serve gives holds their nodes, as far as there are any, and fails those that will never get theirs. The lock is
// held.
func (w *holds) serve() {
	s := w.s
	for i, h := range w.waiting {
		if h.lacks == 0 {
			continue
		}
		var open, behind []*Node // free ones, and those of holds that wait behind it, so that these cannot block it
		for _, n := range s.queues.nodes {
			switch {
			case n.hold == h || !h.allows(n):
			case n.hold == nil:
				open = append(open, n)
			case n.hold.lacks > 0 && slices.Contains(w.waiting[i+1:], n.hold):
				behind = append(behind, n)
			}
		}
		if len(open)+len(behind) < h.lacks {
			if h.failed = h.hopeless(); h.failed == nil {
				return // those behind it wait for it
			}
			h.notify()
			continue
		}
		slices.SortStableFunc(open, func(a, b *Node) int { return cmp.Or(a.Busy()-b.Busy(), a.rank-b.rank) })
		for _, n := range append(open, behind...)[:h.lacks] {
			if other := n.hold; other != nil {
				other.nodes = slices.DeleteFunc(other.nodes, func(one *Node) bool { return one == n })
				other.lacks++
			}
			h.take(n)
		}
		h.lacks = 0
		h.notify()
	}
	s.refill()
}

// hopeless returns why the hold will never get the nodes that it lacks, or nil.
func (h *Hold) hopeless() error {
	s := h.s
	if s.closed {
		return s.fleet.NoNodes()
	}
	if s.fleet.Grows() {
		return nil
	}
	possible := 0
	for _, n := range s.queues.nodes {
		now, later := h.target.matches(n)
		if !now && !later || n.state == Over || n.hold == h {
			continue
		}
		if !h.avoid[n] || n.state != Open { // one that is avoided, and ends, is followed by another one, or is over soon
			possible++
		}
	}
	if possible >= h.lacks {
		return nil
	}
	if err := s.Impossible(h.target, 0); err != nil {
		return err
	}
	return s.fleet.NoNodes()
}

// ended notes that a task has ended on the node. The lock is held.
func (n *Node) ended() {
	if n.hold != nil && !n.runsTasks() {
		n.hold.notify()
	}
}

// nodes returns how many nodes there must be so that holds have those that they have or wait for.
func (w *holds) nodes() (count int) {
	for _, n := range w.s.queues.nodes {
		if n.hold != nil {
			count++
		}
	}
	for _, h := range w.waiting {
		count += h.lacks
		for _, n := range w.s.queues.nodes {
			if h.lacks > 0 && h.avoid[n] && n.hold == nil && n.state != Over {
				count++ // it is there, but not for this hold
			}
		}
	}
	return count
}
