// Package opening knows how far a pool has come that is being opened: for the error of an Open that is cut short, and for a line on the
// user's terminal meanwhile.
package opening

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
)

// A Progress is how far the opening of a pool has come.
type Progress struct {
	ctx context.Context // news after its end only follow from that

	mu    sync.Mutex
	began time.Time
	doing string // before there are nodes
	wait  Wait
	nodes map[int]*node
}

// A Wait is what a pool waits for: see gputrain.EventWait.
type Wait struct {
	State string
	Until time.Time
	Err   error
}

// A node is that of one rank.
type node struct {
	state, phase string
	since        time.Time
	failure      error // the last
}

// A Machine is one on its way up, as its provider has described it.
type Machine struct {
	State    string  // with the machine's ID; empty before it is launched
	Failures []error // the provider's and SSH's last
}

// ready is the state of a node that is waited for no more.
const ready = "ready"

// New returns the progress of a pool whose context this is, which does what its caller says.
func New(ctx context.Context, doing string) *Progress {
	return &Progress{ctx: ctx, began: time.Now(), doing: doing, nodes: map[int]*node{}}
}

// Begin records what is done now, before there are nodes.
func (p *Progress) Begin(doing string) {
	p.note(func() { p.doing = doing })
}

// Waits records what the pool waits for.
func (p *Progress) Waits(w Wait) {
	p.note(func() {
		p.wait = w
		if w.State == "capacity" {
			p.doing = "waiting for capacity"
		}
	})
}

// Node records the state of the node of a rank.
func (p *Progress) Node(rank int, state string, at time.Time, err error) {
	p.note(func() {
		if n := p.node(rank, err); n.state != state {
			n.state, n.phase, n.since = state, "", at
		}
	})
}

// Phase records that a phase of a node has started, or ended.
func (p *Progress) Phase(rank int, phase, state string, at time.Time, err error) {
	p.note(func() {
		n := p.node(rank, err)
		if n.phase = ""; state == "started" {
			n.phase, n.since = phase, at
		}
	})
}

func (p *Progress) note(news func()) {
	if p.ctx.Err() != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	news()
}

// node returns the node of a rank. mu is held.
func (p *Progress) node(rank int, err error) *node {
	n := p.nodes[rank]
	if n == nil {
		n = &node{}
		p.nodes[rank] = n
	}
	if err != nil {
		n.failure = err
	}
	return n
}

// An error names at most shownNodes nodes.
const shownNodes = 4

// WaitedFor describes what the pool waits for. The machines are those of nodes that are not ready, by rank.
func (p *Progress) WaitedFor(machines map[int]Machine) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.coming(func(rank int, n *node) string {
		s, m := "", machines[rank]
		if m.State != "" {
			s += ", its machine " + m.State
		}
		if m.Failures == nil && n.failure != nil {
			m.Failures = []error{n.failure}
		}
		for _, failure := range m.Failures {
			s += ", last failure: " + cutoff.OneLine(failure)
		}
		return s
	})
	ready := len(p.nodes) - len(all)
	if p.wait.State == "launching" {
		all = append(all, cutoff.OneLine(p.wait.Err))
	}
	if p.wait.State == "settling" && p.wait.Err != nil {
		all = append(all, fmt.Sprintf("until %s: %s", p.wait.Until.Format(time.TimeOnly), cutoff.OneLine(p.wait.Err)))
	}
	switch {
	case len(p.nodes) == 0:
		return p.doing
	case len(all) > shownNodes:
		all = append(all[:shownNodes:shownNodes], fmt.Sprintf("and %d more", len(all)-shownNodes))
	}
	return fmt.Sprintf("waiting for %d nodes, of which %d are ready: %s", len(p.nodes), ready, strings.Join(all, "; "))
}

// coming describes the nodes that are not ready, with what more says of each. mu is held.
func (p *Progress) coming(more func(rank int, n *node) string) (all []string) {
	for _, rank := range slices.Sorted(maps.Keys(p.nodes)) {
		n := p.nodes[rank]
		if n.state == ready {
			continue
		}
		s := fmt.Sprintf("node %d is %s", rank, n.state)
		if n.phase != "" {
			s += " (" + n.phase + ")"
		}
		all = append(all, s+fmt.Sprintf(" for %v", time.Since(n.since).Round(time.Second))+more(rank, n))
	}
	return all
}
