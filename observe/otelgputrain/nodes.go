package otelgputrain

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// A node is the span of one machine.
type node struct {
	span
	at       gputrain.Node // as it was last
	market   string
	launched time.Time
	// whole means that the first event was that of its launch.
	whole bool
	ready bool // it was
	over  bool
	// phases run, by name.
	phases map[string]phase
}

// A phase is the span of one that runs.
type phase struct {
	span
	began time.Time
}

func isOver(state string) bool {
	return state == gputrain.NodeLost.String() || state == gputrain.NodeFailed.String() || state == gputrain.NodeTerminated.String()
}

// find returns the node of an event about a node: a new machine of a rank, or one that has got another rank, too.
func (p *pool) find(ev *gputrain.Event) *node {
	n := p.ranks[ev.Node]
	same := n != nil && (ev.At.ID == "" || n.at.ID == "" || n.at.ID == ev.At.ID)
	if same && (!n.over || isOver(ev.State)) {
		return n
	}
	if ev.At.ID != "" {
		if i := slices.IndexFunc(p.nodes, func(n *node) bool { return n.at.ID == ev.At.ID }); i >= 0 {
			n = p.nodes[i]
			if isOver(ev.State) { // another one may have its rank already
				return n
			}
			for rank, other := range p.ranks {
				if other == n {
					delete(p.ranks, rank)
				}
			}
			p.ranks[ev.Node] = n
			return n
		}
	}
	a := attrs{attr(keyPool, p.id)}
	a.machine(ev.Node, ev.At, "")
	n = &node{
		span: p.open(p.ctx, "gputrain.node", ev.Time, a), launched: ev.Time, whole: ev.State == gputrain.NodeLaunching.String(),
		phases: map[string]phase{},
	}
	p.nodes = append(p.nodes, n)
	p.ranks[ev.Node] = n
	return n
}

func (p *pool) nodeChanged(ev *gputrain.Event) context.Context {
	n := p.find(ev)
	if n.over { // it was reported twice
		return n.ctx
	}
	if ev.At.ID != "" || n.at.ID == "" { // what it was is worth more than that it is gone
		n.at = ev.At
	}
	if n.market == "" {
		n.market = p.markets[kindOf(p.id, n.at)]
	}
	var a attrs
	a.machine(ev.Node, n.at, n.market)
	n.SetAttributes(a...)
	switch state := ev.State; {
	case state == gputrain.NodeReady.String() && !n.ready:
		n.ready = true
		if n.whole {
			p.meters.ready.Record(n.ctx, ev.Time.Sub(n.launched).Seconds(), metric.WithAttributes(n.place()...))
		}
	case isOver(state):
		p.endNode(n, ev)
	}
	return n.ctx
}

// endNode ends the span of a machine.
func (p *pool) endNode(n *node, ev *gputrain.Event) {
	if ev.State == gputrain.NodeLost.String() {
		p.meters.lost.Add(n.ctx, 1, metric.WithAttributes(n.place()...))
	}
	if ev.State != gputrain.NodeTerminated.String() {
		fail(n.Span, ev)
	}
	if usd, known := n.at.HourlyUSD.USD(); known && n.at.ID != "" {
		n.SetAttributes(attribute.Float64(keyCost, usd*max(ev.Time.Sub(n.launched), 0).Hours()))
	}
	n.endPhases(ev.Time)
	n.over = true
	n.End(trace.WithTimestamp(ev.Time))
	p.gone(n)
}

// place returns the attributes of a metric of the node.
func (n *node) place() (a attrs) {
	a.place(n.at, n.market)
	return a
}

func (n *node) endPhases(at time.Time) {
	for _, ph := range n.phases {
		ph.unfinished(at)
	}
	clear(n.phases)
}

// phasesOf returns the running phases of the node that an event is about, or those without a node.
func (p *pool) phasesOf(ev *gputrain.Event) map[string]phase {
	if n := p.ranks[ev.Node]; n != nil && ev.Node >= 0 && !n.over {
		return n.phases
	}
	return p.phases
}

func (p *pool) phaseChanged(ev *gputrain.Event) context.Context {
	running := p.phasesOf(ev)
	ph, ok := running[ev.Phase]
	if !ok {
		began := ev.Time
		if ev.State != "started" {
			began = began.Add(-max(ev.Elapsed, 0))
		}
		a := attrs{attr(keyPool, p.id), attr(keyPhase, ev.Phase)}
		a.number(keyRank, int64(ev.Node), ev.Node >= 0)
		ph = phase{p.open(p.contextAt(ev), "gputrain.phase", began, a), began}
		running[ev.Phase] = ph
	}
	if ev.State == "started" {
		return ph.ctx
	}
	delete(running, ev.Phase)
	ph.SetAttributes(attr(keyState, ev.State))
	if ev.Err != nil || ev.State == "failed" {
		fail(ph.Span, ev)
	}
	ph.End(trace.WithTimestamp(ev.Time))
	a := attrs{attr(keyPhase, ev.Phase), attr(keyState, ev.State)}
	a.place(ev.At, p.markets[kindOf(p.id, ev.At)])
	p.meters.phase.Record(ph.ctx, max(ev.Time.Sub(ph.began), 0).Seconds(), metric.WithAttributes(a...))
	return ph.ctx
}

func (p *pool) preempted(ev *gputrain.Event) context.Context {
	n := p.ranks[ev.Node]
	if n == nil || n.over {
		return p.ctx
	}
	a := attrs{attr(keyState, ev.State)}
	a.float("gputrain.preemption.left", ev.Elapsed.Seconds(), ev.Elapsed > 0)
	if ev.Err != nil {
		a.text(keyError, ev.Err.Error())
	}
	n.AddEvent("gputrain.preemption", trace.WithTimestamp(ev.Time), trace.WithAttributes(a...))
	return n.ctx
}
