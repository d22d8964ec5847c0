package observe

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
)

// isOver reports whether a node in this state takes no task any more.
func isOver(state string) bool {
	return state == gputrain.NodeLost.String() || state == gputrain.NodeFailed.String() || state == gputrain.NodeTerminated.String()
}

// node returns the node that an event is about, or nil.
func (p *pool) node(ev *gputrain.Event) *node {
	if ev.Node < 0 {
		return nil
	}
	n := p.ranks[ev.Node]
	if id := ev.At.ID; id != "" && (n == nil || n.ID != id) { // another machine has the rank by now
		for _, old := range slices.Backward(p.nodes) {
			if old.ID == id {
				return old
			}
		}
	}
	return n
}

// keyOf returns the key of the node that an event is about, or "".
func (p *pool) keyOf(ev *gputrain.Event) string {
	if n := p.node(ev); n != nil {
		return n.Key
	}
	return ""
}

// find returns the node of an event about a node, which may be a new one, or one that has got another rank.
func (p *pool) find(ev *gputrain.Event) *node {
	n := p.ranks[ev.Node]
	sameMachine := func(n *node) bool { return ev.At.ID == "" || n.ID == "" || n.ID == ev.At.ID }
	if n != nil && sameMachine(n) && (!isOver(n.State) || isOver(ev.State)) {
		return n
	}
	if ev.At.ID != "" { // the last node gets the rank of one that is gone
		if i := slices.IndexFunc(p.nodes, func(n *node) bool { return n.ID == ev.At.ID && !isOver(n.State) }); i >= 0 {
			moved := p.nodes[i]
			if p.ranks[moved.Rank] == moved {
				delete(p.ranks, moved.Rank)
			}
			p.ranks[ev.Node] = moved
			return moved
		}
	}
	n = &node{
		Node:    Node{Pool: p.ID, Key: fmt.Sprintf("%s/%d", p.ID, len(p.nodes)), Launched: ev.Time},
		running: map[string]*Phase{}, every: 1,
	}
	p.nodes = append(p.nodes, n)
	p.ranks[ev.Node] = n
	return n
}

func (s *state) nodeChanged(p *pool, ev *gputrain.Event) {
	n := p.find(ev)
	launching := gputrain.NodeLaunching.String()
	switch at := ev.At; {
	case at.ID == "" && n.ID != "": // it is gone: what it was is worth more
		n.Rank = ev.Node
	default:
		n.Node.Node = at
		n.Rank = ev.Node
	}
	if n.State != ev.State {
		n.State, n.Since = ev.State, ev.Time
		p.Waiting = ""
	}
	if ev.State == gputrain.NodeReady.String() {
		if n.ReadyAt.IsZero() {
			n.ReadyAt = ev.Time
		}
		n.LeaseUntil, n.Err = ev.Until, ""
	}
	if isOver(ev.State) {
		n.Gone, n.Phase, n.Preempt = ev.Time, "", time.Time{}
		for name := range n.running {
			n.running[name].Ended = ev.Time
			delete(n.running, name)
		}
	}
	if ev.Err == nil {
		return
	}
	n.Err = textOf(ev.Err)
	if ev.State != launching { // a refused offer is not the node's failure
		s.fail(p, ev, "node")
	}
}

func (s *state) phaseChanged(p *pool, ev *gputrain.Event) {
	n := p.node(ev)
	var running map[string]*Phase
	if n != nil {
		running = n.running
	}
	phase := running[ev.Phase]
	if phase == nil {
		i := -1
		if n == nil { // a build
			i = slices.IndexFunc(s.phases.all, func(old *Phase) bool {
				return old.Pool == p.ID && old.Node == "" && old.Name == ev.Phase && old.Ended.IsZero()
			})
		}
		if i >= 0 {
			phase = s.phases.all[i]
		} else {
			phase = &Phase{Pool: p.ID, Node: p.keyOf(ev), Rank: ev.Node, Name: ev.Phase, Began: ev.Time.Add(-ev.Elapsed)}
			s.phases.add(phase, keptPhases, func(old *Phase) bool { return !old.Ended.IsZero() })
		}
	}
	phase.State = ev.State
	if ev.State == "started" {
		phase.Usual = ev.Usual
		if n != nil {
			n.running[ev.Phase], n.Phase = phase, ev.Phase
		}
		return
	}
	phase.Ended = ev.Time
	if n != nil {
		delete(n.running, ev.Phase)
		if n.Phase == ev.Phase {
			n.Phase = ""
		}
	}
	if ev.Err != nil {
		phase.Err = textOf(ev.Err)
		s.fail(p, ev, "phase")
	}
}

func (s *state) used(p *pool, ev *gputrain.Event) {
	n := p.node(ev)
	if ev.Err != nil {
		kind := "accelerator"
		if ev.State != "fault" {
			kind = "trouble"
		}
		if n != nil {
			n.Err = textOf(ev.Err)
		}
		s.fail(p, ev, kind)
		return
	}
	if n == nil || ev.State != "sample" {
		return
	}
	n.UsageAt = ev.Time
	load := Load{At: ev.Time, Accelerators: -1, CPU: -1}
	if h := ev.Usage.Host; h != nil {
		n.Host, load.CPU = h, h.CPU
	}
	if all := ev.Usage.Accelerators; len(all) > 0 {
		n.Usage = all
		var sum float64
		known := 0
		for _, a := range all {
			if a.Utilization >= 0 { // not NaN
				sum += a.Utilization
				known++
			}
		}
		if known > 0 {
			load.Accelerators = sum / float64(known)
		}
	}
	n.loaded(load)
}

// loaded keeps a sample of the load. If there are too many, it drops every second one, and takes only half as many from then on.
func (n *node) loaded(l Load) {
	if n.skipped++; n.skipped < n.every {
		return
	}
	n.skipped = 0
	if len(n.Load) < keptLoad {
		n.Load = append(n.Load, l)
		return
	}
	var half []Load
	for i := 0; i < len(n.Load); i += 2 {
		half = append(half, n.Load[i])
	}
	n.Load, n.every = append(half, l), 2*n.every
}

// spent returns what a node has cost until a time, and whether that is known.
func (n *node) spent(p *pool, at time.Time) (float64, bool) {
	for _, c := range p.Cost.Nodes {
		if c.ID == n.ID && n.ID != "" {
			_, known := c.HourlyUSD.USD()
			return c.USD, known
		}
	}
	perHour, known := n.HourlyUSD.USD()
	if n.ID == "" || !known {
		return 0, known
	}
	end := at
	if !n.Gone.IsZero() {
		end = n.Gone
	} else if !p.Closed.IsZero() {
		end = p.Closed
	}
	return perHour * max(end.Sub(n.Launched), 0).Hours(), true
}
