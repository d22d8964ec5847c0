package gputrain

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// An openProgress is how far a pool has come until it is open, as its events have it: what an
// Open that is cut short had waited for.
type openProgress struct {
	ctx context.Context // what comes after its end only follows from that

	mu    sync.Mutex
	doing string // before there are nodes
	pool  Event  // the last of EventPool
	nodes map[int]*nodeProgress
}

// A nodeProgress is that of the node of one rank.
type nodeProgress struct {
	state, phase string
	since        time.Time
	failure      error // the last
}

// begin says what is done now, before there are nodes.
func (g *openProgress) begin(doing string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.doing = doing
}

// note takes in an event.
func (g *openProgress) note(ev Event) {
	if g.ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if ev.Kind == EventPool {
		g.pool = ev
	}
	if ev.Kind != EventNode && ev.Kind != EventPhase || ev.Node < 0 {
		return
	}
	if g.nodes == nil {
		g.nodes = map[int]*nodeProgress{}
	}
	n := g.nodes[ev.Node]
	if n == nil {
		n = &nodeProgress{}
		g.nodes[ev.Node] = n
	}
	switch {
	case ev.Kind == EventPhase && ev.State == "started":
		n.phase, n.since = ev.Phase, ev.Time
	case ev.Kind == EventPhase:
		n.phase = ""
	case n.state != ev.State:
		n.state, n.phase, n.since = ev.State, "", ev.Time
	}
	if ev.Err != nil {
		n.failure = ev.Err
	}
}

// shownNodes is how many nodes an error names.
const shownNodes = 4

// waitedFor says what the pool waits for.
func (g *openProgress) waitedFor(p *pool) string {
	machines := p.machinesComing()
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	ready := 0
	for _, rank := range slices.Sorted(maps.Keys(g.nodes)) {
		n := g.nodes[rank]
		if n.state == NodeReady.String() {
			ready++
			continue
		}
		s := fmt.Sprintf("node %d is %s", rank, n.state)
		if n.phase != "" {
			s += " (" + n.phase + ")"
		}
		s += fmt.Sprintf(" for %v", now().Sub(n.since).Round(time.Second))
		m := machines[rank]
		if m.state != "" {
			s += ", its machine " + m.state
		}
		if m.failures == nil && n.failure != nil {
			m.failures = []error{n.failure}
		}
		for _, failure := range m.failures {
			s += ", last failure: " + oneLine(failure)
		}
		all = append(all, s)
	}
	if g.pool.State == "launching" {
		all = append(all, oneLine(g.pool.Err))
	}
	if g.pool.State == "settling" {
		all = append(all, fmt.Sprintf("until %s: %s", g.pool.Until.Format(time.TimeOnly), oneLine(g.pool.Err)))
	}
	switch {
	case g.nodes == nil:
		return g.doing
	case len(all) > shownNodes:
		all = append(all[:shownNodes:shownNodes], fmt.Sprintf("and %d more", len(all)-shownNodes))
	}
	return fmt.Sprintf("waiting for %d nodes, of which %d are ready: %s", len(g.nodes), ready, joinSemicolons(all))
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// A machineComing is a machine on its way up, as its provider has described it.
type machineComing struct {
	state    string
	failures []error // the provider's and SSH's last
}

// machinesComing returns those of the nodes that are not ready, by rank.
func (p *pool) machinesComing() map[int]machineComing {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[int]machineComing{}
	for _, n := range p.nodes {
		var m machineComing
		if n.inst.ID != "" {
			m.state = fmt.Sprintf("%s is %v", n.inst.ID, n.inst.State)
			if n.inst.StateReason != "" {
				m.state += " (" + n.inst.StateReason + ")"
			}
		}
		m.failures = n.rise.failures()
		all[n.rank()] = m
	}
	return all
}

// notOpened is the error of a pool that has not opened: that its context has ended, with
// what was waited for, or else err, which is then of no deadline of the caller's.
func (p *pool) notOpened(ctx context.Context, op string, err error) error {
	if p.ctx.Err() == nil {
		return notDeadline(err)
	}
	if ctx.Err() == nil {
		ctx = p.ctx // it is the pool's own end
	}
	if i, ok := errors.AsType[*interruptedError](err); ok {
		err = i.err
	}
	return cutOff(ctx, &Error{Provider: p.provider, Op: op}, p.events.progress.waitedFor(p), err)
}

// cutOff is the error of what failed since its context has ended, which completes e with
// what was being done and err, or else err, which is then of no deadline of the caller's.
func cutOff(ctx context.Context, e *Error, doing string, err error) error {
	end, cause := ctx.Err(), context.Cause(ctx)
	if end == nil {
		return notDeadline(err)
	}
	e.Err = fmt.Errorf("%w while %s", cause, doing)
	if err.Error() != cause.Error() {
		e.Err = fmt.Errorf("%w: %s", e.Err, oneLine(err))
	}
	var own *Error
	if !errors.Is(cause, end) && !errors.As(cause, &own) { // a cause of the caller's own
		e.Err = fmt.Errorf("%w (%w)", e.Err, end)
	}
	return e
}
