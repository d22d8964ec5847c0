package scheduler

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// prospects are which nodes there are and may come, and so which tasks can never run.
type prospects struct {
	fleet  Fleet
	queues *queues
}

// An Obstacle is why no node can ever run tasks with a target. One of Ranks, Over, Have and
// Units is set.
type Obstacle struct {
	Target Target
	// Ranks is how many there are at most, if the target is a rank that is never reached.
	Ranks int
	// Over are the nodes that the target allows, if each of them is over.
	Over []*Node
	// Have lists what the nodes have in place of each label of the target.
	Have []string
	// Units is how many a task wants, if no node that the target allows can have as many, and Most is how many one can
	// have.
	Units, Most int
}

// Impossible returns why no node can ever run tasks that have a target and want so many units, zero for a slot, or nil.
// It ignores whether any node is left. The lock is held.
func (p *prospects) Impossible(t Target, units int) error {
	if why := p.unreachable(t); why != nil {
		return why
	}
	return p.tooLarge(t, units)
}

// unreachable is Impossible for a task that wants a slot.
func (p *prospects) unreachable(t Target) error {
	if t.IsAny() || p.queues.has(t) {
		return nil
	}
	nodes := p.queues.nodes
	most := p.fleet.Most()
	if ranks := max(len(nodes), most); t.rank > ranks {
		return p.fleet.Impossible(Obstacle{Target: t, Ranks: ranks})
	}
	if p.fleet.Grows() {
		return nil // a node that is still to come may have it
	}
	if t.rank > len(nodes) {
		return p.fleet.NoNodes() // that is why it did not come
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
		return p.fleet.Impossible(Obstacle{Target: t, Over: over})
	}
	if p.queues.elastic && len(nodes) < most {
		return p.fleet.NoNodes() // those that might have it could not be had
	}
	return p.fleet.Impossible(Obstacle{Target: t, Have: have(nodes, t)})
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

// Most returns the highest possible number of nodes. The lock is held.
func (p *prospects) Most() int { return max(p.fleet.Most(), len(p.queues.nodes)) }

// Allowed returns the nodes that a target allows, in the order of their ranks: those that it
// allows now, or those that may come to be as well. The lock is held.
func (p *prospects) Allowed(t Target, later bool) (nodes []*Node) {
	for _, n := range p.queues.nodes {
		if is, comes := t.matches(n); is || later && comes {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// fits reports whether a task that wants so many units can ever start on a node that its target allows. A node that is
// still coming may have as many as any other.
func (p *prospects) fits(n *Node, units int) bool {
	switch n.state {
	case Over:
		return false
	case Coming:
		return units <= p.mostUnits()
	}
	return units <= len(n.units.slots)
}

// mostUnits returns how many units a node that is still to come can have.
func (p *prospects) mostUnits() int { return min(max(p.fleet.Units(), p.queues.mostUnits), MostUnits) }

// tooLarge returns why no node that a target allows can ever have so many units, or nil. It ignores whether any node is
// left.
func (p *prospects) tooLarge(t Target, units int) error {
	if units == 0 {
		return nil
	}
	most, left := 0, false
	for _, n := range p.queues.nodes {
		now, later := t.matches(n)
		switch {
		case !now && !later || n.state == Over:
			continue
		case p.fits(n, units):
			return nil
		case n.state == Coming:
			most = max(most, p.mostUnits())
		default:
			most = max(most, len(n.units.slots))
		}
		left = true
	}
	grows, lacks := p.fleet.Grows(), p.queues.elastic && len(p.queues.nodes) < p.fleet.Most()
	switch mayCome := units <= p.mostUnits(); {
	case grows && mayCome, !grows && !left:
		return nil
	case lacks && mayCome:
		return p.fleet.NoNodes() // one that might have as many could not be had
	case grows || lacks:
		most = max(most, p.mostUnits())
	}
	return p.fleet.Impossible(Obstacle{Target: t, Units: units, Most: most})
}
