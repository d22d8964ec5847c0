package scheduler

import "slices"

// strandIfHopeless fails the tasks of a queue, and of those for its sizes, whose nodes will never come. The lock is held.
func (s *Scheduler) strandIfHopeless(q *queue) {
	for _, sized := range q.sized() {
		s.strandIfHopeless(sized)
	}
	if q.len() == 0 {
		return
	}
	var why error
	switch {
	case q.kind == queuePinned && q.pin.state == Over:
		why = q.pin.host.End()
	case q.kind == queuePinned:
		if !s.fits(q.pin, q.size()) {
			why = s.fleet.Impossible(Obstacle{Target: OnRank(q.pin.rank), Units: q.size(), Most: len(q.pin.units.slots)})
		}
	case q.kind == queueTargeted:
		why = s.Impossible(q.target, q.size())
	case !s.fleet.Grows() && !slices.ContainsFunc(s.queues.nodes, func(n *Node) bool { return n.state != Over }):
		why = s.fleet.NoNodes()
	default:
		why = s.tooLarge(q.target, q.size())
	}
	if why != nil {
		s.strand(q, why)
	}
}

// Strand fails what is pinned to a node that is over and is about to be replaced. The
// lock is held.
func (s *Scheduler) Strand(n *Node) {
	s.strand(&n.pinned, n.host.End())
	for _, q := range n.pinned.sized() {
		s.strand(q, n.host.End())
	}
}

// strand fails the tasks of a queue that no node will run.
func (s *Scheduler) strand(q *queue, why error) {
	tasks := s.queues.take(q)
	if len(tasks) == 0 {
		return
	}
	s.running.Go(func() {
		for _, t := range tasks {
			t.work.Stranded(t.pin, why)
		}
	})
}
