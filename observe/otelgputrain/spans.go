package otelgputrain

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// A span has the context of its children.
type span struct {
	trace.Span
	ctx context.Context
}

// unfinished ends a span whose end is not known.
func (s span) unfinished(at time.Time) {
	s.SetAttributes(attribute.Bool(keyUnfinished, true))
	s.End(trace.WithTimestamp(at))
}

// spans makes spans of events. Only the goroutine that exports uses it, except for attempts.
type spans struct {
	tracer   trace.Tracer
	parent   context.Context
	meters   *meters
	attempts *attempts
	pools    map[string]*pool
}

// A pool is the open span of a pool, and those below it.
type pool struct {
	*spans
	span
	id        string
	opening   bool          // it is not ready yet
	ranks     map[int]*node // the newest of each rank
	nodes     []*node       // that are not gone
	tasks     map[string]*task
	phases    map[string]phase // that run without a node, by name
	transfers map[string]*moving
	markets   map[kindOfMachine]string // of offers that were taken
}

func newSpans(c Config, m *meters) *spans {
	tracer := c.Tracer.Tracer(scope, trace.WithSchemaURL(schema))
	return &spans{tracer: tracer, parent: c.Parent, meters: m, attempts: newAttempts(tracer, c.Parent), pools: map[string]*pool{}}
}

// open begins a span.
func (s *spans) open(parent context.Context, name string, at time.Time, a attrs) span {
	ctx, opened := s.tracer.Start(parent, name, trace.WithTimestamp(at), trace.WithAttributes(a...))
	return span{opened, ctx}
}

// take takes an event, and returns the context of the span that it belongs to.
func (s *spans) take(ev *gputrain.Event) context.Context {
	p := s.pools[ev.Pool]
	if p == nil {
		p = &pool{
			spans: s, span: s.open(s.parent, "gputrain.pool", ev.Time, attrs{attr(keyPool, ev.Pool)}), id: ev.Pool,
			ranks: map[int]*node{}, tasks: map[string]*task{}, phases: map[string]phase{}, transfers: map[string]*moving{}, markets: map[kindOfMachine]string{},
		}
		s.pools[ev.Pool] = p
		s.attempts.addPool(p)
	}
	switch ev.Kind {
	case gputrain.EventPool:
		return p.changed(ev)
	case gputrain.EventNode:
		return p.nodeChanged(ev)
	case gputrain.EventPhase:
		return p.phaseChanged(ev)
	case gputrain.EventTask, gputrain.EventRetry:
		return p.taskChanged(ev)
	case gputrain.EventTally:
		p.counted(ev.Tally)
	case gputrain.EventPreemption:
		return p.preempted(ev)
	case gputrain.EventTransfer:
		return p.transferred(ev)
	case gputrain.EventOffer:
		if o := ev.Offer; o != nil && ev.State == "taken" {
			p.markets[kindOfMachine{p.id, o.Provider, o.Region, o.InstanceType}] = marketOf(o.Spot)
		}
	case gputrain.EventProgress:
		if ph, ok := p.phasesOf(ev)[ev.Phase]; ok {
			return ph.ctx
		}
	case gputrain.EventStep:
		if t := p.tasks[ev.Task]; t != nil {
			return s.attempts.contextOf(t, ev.Attempt)
		}
	}
	return p.contextAt(ev)
}

// changed is for a change of the pool itself.
func (p *pool) changed(ev *gputrain.Event) context.Context {
	switch ev.State {
	case "opening", "attaching":
		p.opening = true
	case "ready":
		p.opening = false
	}
	if ev.State != "closed" && ev.State != "detached" {
		return p.ctx
	}
	if ev.Cost != nil {
		p.SetAttributes(attribute.Float64(keyCost, ev.Cost.USD))
	}
	switch {
	case ev.Err != nil:
		fail(p.Span, ev)
	case p.opening: // the event says only how the pool was released, and Open returns why
		p.SetStatus(codes.Error, "the pool did not become ready")
		p.SetAttributes(attr(keyErrorType, otherError))
	}
	p.endChildren(ev.Time)
	p.End(trace.WithTimestamp(ev.Time))
	p.spans.attempts.dropPool(p.id)
	delete(p.spans.pools, p.id) // Attach opens it again, as a span of its own
	return p.ctx
}

// contextAt returns the context of the node that an event is about, or else the pool's.
func (p *pool) contextAt(ev *gputrain.Event) context.Context {
	if n := p.ranks[ev.Node]; n != nil && ev.Node >= 0 {
		return n.ctx
	}
	return p.ctx
}

// endChildren ends what is open below the pool.
func (p *pool) endChildren(at time.Time) {
	for _, n := range p.nodes {
		n.endPhases(at)
		n.unfinished(at)
	}
	for _, ph := range p.phases {
		ph.unfinished(at)
	}
	for _, m := range p.transfers {
		m.unfinished(at)
	}
	for _, t := range p.tasks {
		p.attempts.drop(t, at)
		t.unfinished(at)
	}
	p.nodes = nil
	clear(p.phases)
	clear(p.transfers)
	clear(p.tasks)
}

// close ends all spans.
func (s *spans) close(at time.Time) {
	s.attempts.close()
	for _, p := range s.pools {
		p.endChildren(at)
		p.unfinished(at)
	}
	clear(s.pools)
}

// gone forgets a node whose span has ended, except that it is the newest of its rank.
func (p *pool) gone(n *node) {
	if i := slices.Index(p.nodes, n); i >= 0 {
		p.nodes = slices.Delete(p.nodes, i, i+1)
	}
}
