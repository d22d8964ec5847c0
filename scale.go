package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// growPause is how long an elastic pool waits after a node that could not be had.
const growPause = 30 * time.Second

// Resize makes the pool so many nodes, and returns when as many are ready and no
// more are left. Ranks whose node was lost or failed for good are tried anew. Where the pool becomes
// smaller, nodes that have nothing to do end first, and the others once they have
// finished what they run; who keeps its rank is not said. In an elastic pool n takes
// the place of Spec.Nodes: what is above it ends by Spec.IdleTimeout.
func (c *Compute) Resize(n int) error {
	p := c.p
	if n < 0 || n == 0 && p.spec.MaxNodes == 0 {
		return &Error{Op: "resize", Kind: ErrInvalid, Err: fmt.Errorf("a pool of %d nodes; Close ends it, and with Spec.MaxNodes it can be empty", n)}
	}
	if err := c.check(); err != nil {
		return err
	}
	p.mu.Lock()
	p.least, p.most = n, max(n, p.spec.MaxNodes)
	p.stalled, p.lastErr = time.Time{}, nil
	for i := len(p.nodes) - 1; i >= 0; i-- {
		if p.nodes[i].state.over() {
			p.removeLocked(p.nodes[i])
		}
	}
	p.dispatchLocked()
	p.mu.Unlock()
	p.rescale()
	return p.awaitSize(c.ctx, n)
}

// awaitSize waits until the pool has so many nodes ready, and no more than it may.
func (p *pool) awaitSize(ctx context.Context, n int) error {
	defer p.wakeAtEnd(ctx, p.ctx)()
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		ready, over := 0, 0
		for _, node := range p.nodes {
			switch {
			case node.state == NodeReady && !node.leaves:
				ready++
			case node.state.over():
				over++
			}
		}
		switch {
		case p.closing:
			return p.closedError()
		case ctx.Err() != nil:
			return p.interrupted(context.Cause(ctx))
		case p.least != n:
			return &Error{Op: "resize", Err: fmt.Errorf("another Resize, to %d nodes, has overtaken it", p.least)}
		case ready >= n && len(p.nodes) <= p.most:
			return nil
		case len(p.nodes) >= n && over > 0 && ready+over >= len(p.nodes), ready < n && !p.stalled.IsZero():
			return p.noNodesLocked()
		}
		p.changed.Wait()
	}
}

// wakeAtEnd has who waits for a change of the pool look again when one of the contexts
// ends.
func (p *pool) wakeAtEnd(all ...context.Context) (stop func()) {
	var stops []func() bool
	for _, ctx := range all {
		stops = append(stops, context.AfterFunc(ctx, func() {
			p.mu.Lock() // or it comes between somebody's look and its wait
			defer p.mu.Unlock()
			p.changed.Broadcast()
		}))
	}
	return func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// rescale has the desired number of nodes found anew.
func (p *pool) rescale() {
	select {
	case p.rescaled <- struct{}{}:
	default:
	}
}

// scale owns the number of nodes until the pool ends.
func (p *pool) scale() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-p.ctx.Done():
			return
		case <-p.rescaled:
		case <-timer.C:
		}
		p.mu.Lock()
		next := p.scaleLocked()
		p.mu.Unlock()
		timer.Reset(next)
	}
}

// addNodeLocked gives the next rank a node, which is to be rented.
func (p *pool) addNodeLocked() *poolNode {
	n := newPoolNode(p, len(p.nodes))
	p.nodes = append(p.nodes, n)
	n.enterLocked(NodeLaunching, nil)
	return n
}

// growsLocked reports whether nodes that are not there yet may run what waits.
func (p *pool) growsLocked() bool {
	if p.closing || !p.stalled.IsZero() && now().Sub(p.stalled) < growPause {
		return false
	}
	room := p.most - len(p.nodes)
	if p.spec.MaxNodes > 0 {
		for _, n := range p.nodes {
			if n.state.over() {
				room++ // it is about to be dropped
			}
		}
	}
	return room > 0
}

// scaleLocked begins what brings the pool to the number of nodes that it should
// have, and returns when to look again.
func (p *pool) scaleLocked() (next time.Duration) {
	next = time.Hour
	if p.closing {
		return next
	}
	p.trimLocked()
	want := min(max(p.demandLocked(), p.least), p.most)
	if pause := growPause - now().Sub(p.stalled); !p.stalled.IsZero() && pause > 0 {
		next = pause
	} else if len(p.nodes) < want {
		p.stalled, p.lastErr = time.Time{}, nil
		var nodes []*poolNode
		for len(p.nodes) < want {
			nodes = append(nodes, p.addNodeLocked())
		}
		p.lives.Go(func() { p.rentMore(nodes) })
	}
	return min(next, p.shrinkLocked(want))
}

// demandLocked is how many nodes what waits and what runs would keep busy.
func (p *pool) demandLocked() int {
	if p.spec.MaxNodes == 0 {
		return 0
	}
	units, rank := p.tasks.demand()
	for _, n := range p.nodes {
		units += n.busy + n.pinned.len()
	}
	slots := p.spec.concurrency()
	demand := max((units+slots-1)/slots, rank)
	return max(demand, p.woken)
}

// trimLocked drops nodes of an elastic pool, or beyond its size, that are over
// for good: their ranks are free again.
func (p *pool) trimLocked() {
	for i := len(p.nodes) - 1; i >= 0; i-- {
		n := p.nodes[i]
		if !n.state.over() || p.spec.MaxNodes == 0 && i < p.least || n.pinned.len() > 0 {
			continue
		}
		p.removeLocked(n)
	}
}

// removeLocked takes a node out. The last one gets its rank, so that ranks are
// always those from 0 on.
func (p *pool) removeLocked(n *poolNode) {
	i := slices.Index(p.nodes, n)
	if i < 0 {
		return
	}
	last := len(p.nodes) - 1
	moved := p.nodes[last]
	p.nodes[i], p.nodes[last] = moved, nil
	p.nodes = p.nodes[:last]
	if moved != n {
		moved.at.Store(int32(i))
		p.tasks.update(moved)
		p.fillLocked(moved)
		p.events.emit(Event{Kind: EventNode, Node: i, State: moved.state.String()}) // who counts ranks learns whose it is
	}
	p.former = append(p.former, n)
	p.lastErr = cmp.Or(n.err, p.lastErr)
	p.changed.Broadcast()
}

// letGo drops a node that is over and that the pool's end has nothing to do with:
// an elastic pool may have very many in its life.
func (p *pool) letGo(n *poolNode) {
	if n.caps().Adopts {
		return // it may have left something behind, which the end reports
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.former = slices.DeleteFunc(p.former, func(other *poolNode) bool { return other == n })
}

// shrinkLocked ends nodes that are too many: those beyond the most at once, or
// once they have finished what they run, and idle ones when their time is over.
// It returns when the next of these is due.
func (p *pool) shrinkLocked(want int) (next time.Duration) {
	next = time.Hour
	alive := slices.DeleteFunc(slices.Clone(p.nodes), func(n *poolNode) bool { return n.leaves || n.state.over() })
	surplus := len(alive) - max(want, p.least)
	tooMany := len(alive) - p.most
	slices.SortStableFunc(alive, func(a, b *poolNode) int {
		return cmp.Or(a.busy-b.busy, before(a.state < NodeReady, b.state < NodeReady), b.rank()-a.rank())
	})
	for _, n := range alive {
		switch {
		case tooMany > 0:
		case surplus <= 0 || n.busy > 0 || n.pinned.len() > 0:
			continue
		case n.state != NodeReady || p.spec.MaxNodes == 0:
			continue // it is not for want of tasks
		default:
			if left := p.spec.idleTimeout() - now().Sub(n.idle); left > 0 {
				next = min(next, left)
				continue
			}
		}
		tooMany--
		surplus--
		n.leaves = true
		p.tasks.update(n)
	}
	for _, n := range p.nodes {
		if n.leaves && !n.retiring && n.busy == 0 && n.pinned.len() == 0 {
			n.retiring = true
			p.lives.Go(n.retire)
		}
	}
	return next
}

// retire ends a node that the pool no longer needs.
func (n *poolNode) retire() {
	n.p.mu.Lock()
	if n.state.over() {
		n.p.mu.Unlock()
		return
	}
	n.enterLocked(NodeTerminated, nil)
	n.cancel(errRetired)
	n.p.removeLocked(n)
	n.p.dispatchLocked()
	n.p.mu.Unlock()
	if n.caps().Adopts {
		n.abandon()
	}
	n.disconnect()
	n.discard()
	n.p.letGo(n)
}

var errRetired = errors.New("the pool has become smaller")

// rentMore rents nodes of a pool that is open already, for as long as it takes
// to be told what there is.
func (p *pool) rentMore(nodes []*poolNode) {
	offers, err := p.askOffers()
	if err != nil {
		for _, n := range nodes {
			n.fail(err)
		}
		return
	}
	p.rent(nodes, offers)
}

// askOffers asks for candidates until there is an answer: a provider that cannot
// be reached is no reason to give up, or to do anything else.
func (p *pool) askOffers() ([]Offer, error) {
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		offers, err := p.candidates(p.ctx)
		switch {
		case err == nil, p.ctx.Err() != nil, isSettled(err) && !errors.Is(err, ErrRateLimited):
			return offers, err
		}
		if !sleep(p.ctx, wait) {
			return nil, p.interrupted(err)
		}
	}
}

// wake has an elastic pool get the node that a broadcast's target names, and one where
// it has none, and waits for it.
func (p *pool) wake(ctx context.Context, t Target) error {
	if p.spec.MaxNodes == 0 {
		return nil
	}
	defer p.wakeAtEnd(ctx, p.ctx)()
	p.mu.Lock()
	defer p.mu.Unlock()
	began := now()
	if err := p.impossibleLocked(t); err != nil {
		return err
	}
	for {
		for _, n := range p.nodes {
			if n.takesPart() && (t.rank == 0 || n.rank() == t.rank-1) {
				for _, n := range p.nodes {
					n.idle = now() // none is about to go, which would change ranks
				}
				return nil
			}
		}
		switch {
		case p.closing:
			return p.closedError()
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !p.stalled.Before(began):
			return p.noNodesLocked()
		}
		p.woken = max(t.rank, 1) // of two that want different ones, either says so again
		p.rescale()
		p.changed.Wait()
		p.woken = 0
	}
}
