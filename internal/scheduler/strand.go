package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// strandIfHopeless fails the tasks of a queue whose nodes will never come. The lock is held.
func (s *Scheduler) strandIfHopeless(q *queue) {
	if q.len() == 0 {
		return
	}
	var why error
	switch {
	case q.kind == queuePinned:
		if q.pin.state == Over {
			why = q.pin.host.End()
		}
	case q.kind == queueTargeted:
		why = s.Impossible(q.target)
	case !s.fleet.Grows() && !slices.ContainsFunc(s.queues.nodes, func(n *Node) bool { return n.state != Over }):
		why = s.fleet.NoNodes()
	}
	if why != nil {
		s.strand(q, why)
	}
}

// Strand fails what is pinned to a node that is over and is about to be replaced. The
// lock is held.
func (s *Scheduler) Strand(n *Node) { s.strand(&n.pinned, n.host.End()) }

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

// An Obstacle is why no node can ever run tasks with a target. One of Ranks, Over and Have
// is set.
type Obstacle struct {
	Target Target
	// Ranks is how many there are at most, if the target is a rank that is never reached.
	Ranks int
	// Over are the nodes that the target allows, if each of them is over.
	Over []*Node
	// Have lists what the nodes have in place of each label of the target.
	Have []string
}

// Impossible returns why no node can ever run tasks with a target, or nil. It ignores whether any node is left. The
// lock is held.
func (s *Scheduler) Impossible(t Target) error {
	if t.IsAny() || s.queues.has(t) {
		return nil
	}
	nodes := s.queues.nodes
	most := s.fleet.Most()
	if ranks := max(len(nodes), most); t.rank > ranks {
		return s.fleet.Impossible(Obstacle{Target: t, Ranks: ranks})
	}
	if s.fleet.Grows() {
		return nil // a node that is still to come may have it
	}
	if t.rank > len(nodes) {
		return s.fleet.NoNodes() // that is why it did not come
	}
	var over []*Node
	for _, n := range nodes {
		now, later := t.matches(n)
		if !now && !later {
			continue
		}
		if n.state != Over {
			return nil
		}
		over = append(over, n)
	}
	if over != nil {
		return s.fleet.Impossible(Obstacle{Target: t, Over: over})
	}
	if s.queues.elastic && len(nodes) < most {
		return s.fleet.NoNodes() // those that might have it could not be had
	}
	return s.fleet.Impossible(Obstacle{Target: t, Have: have(nodes, t)})
}

// have lists the values that nodes have for the names that a target asks for.
func have(nodes []*Node, t Target) (have []string) {
	for _, l := range t.labels {
		seen := map[string]bool{}
		for _, n := range nodes {
			if value, ok := n.labels[l.Key]; ok {
				seen[value] = true
			}
		}
		if len(seen) == 0 {
			have = append(have, fmt.Sprintf("no node has a label %q", l.Key))
		} else {
			have = append(have, fmt.Sprintf("%q is %s", l.Key, strings.Join(slices.Sorted(maps.Keys(seen)), " or ")))
		}
	}
	return have
}

// Allowed returns the nodes that a target allows, in the order of their ranks: those that it
// allows now, or those that may come to be as well. The lock is held.
func (s *Scheduler) Allowed(t Target, later bool) (nodes []*Node) {
	for _, n := range s.queues.nodes {
		if is, comes := t.matches(n); is || later && comes {
			nodes = append(nodes, n)
		}
	}
	return nodes
}
