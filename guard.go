package gputrain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
)

const (
	// askAfter is how long a node may be unreachable before its provider is asked.
	askAfter = 3 * time.Second
	// askAtLeast is how often it is asked then, at the least.
	askAtLeast = 15 * time.Second
	// unreachableTimeout is how long a node may be unreachable, though its
	// provider says that it runs, before it is given up.
	unreachableTimeout = 2 * time.Minute
)

// guard watches a node from when it was reached until the pool ends, or gives it up,
// and returns why it is lost, or nil.
func (n *poolNode) guard() error {
	if watch := n.preemptionWatch(); watch != "" {
		n.p.lives.Go(func() { n.lookForNotice(watch) })
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var asked inquiry
	for {
		select {
		case <-n.ctx.Done():
			return nil
		case <-n.client.Done():
			return n.lost(n.client.Err())
		case <-n.super.Done():
			return n.lost(n.ended())
		case <-tick.C:
		}
		since, down := n.client.Down()
		n.reachable(!down)
		if !down {
			asked = inquiry{}
			n.spared()
			continue
		}
		if why := n.givenUp(since, &asked); why != nil && n.ctx.Err() == nil {
			return n.lost(why)
		}
	}
}

// ended is why the node's supervisor has ended. That another program has taken the pool
// is the ledger's to say: a node that says so by itself is only lost.
func (n *poolNode) ended() error {
	why := n.super.Err()
	switch {
	case !errors.Is(why, supervisor.ErrFenced):
		return why
	case errors.Is(n.p.fenced(), ErrFenced):
		n.p.finish(&Error{Provider: n.provider(), Op: "pool", Kind: ErrFenced, Err: why})
		return why
	}
	return errors.New("it says that another program has taken it over, and the pool's ledger says that none has")
}

// lost is the error of a node that is given up.
func (n *poolNode) lost(why error) error {
	kind := kindOfSSH(why)
	if kind != ErrUnavailable && !errors.Is(why, ErrPreempted) {
		why = &Error{Kind: kind, Err: why} // a host key that changed, a login that is refused now
	}
	return &Error{Provider: n.provider(), Op: n.name, Kind: ErrNodeLost, Err: why, Hint: n.advice(kind)}
}

// reachable shows whether the connection is up. Tasks are not started over
// one that is down.
func (n *poolNode) reachable(up bool) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	switch {
	case up && n.state == NodeUnreachable:
		n.enterLocked(NodeReady, nil)
		n.p.fillLocked(n)
	case !up && n.state == NodeReady:
		n.enterLocked(NodeUnreachable, nil)
	}
}

// An inquiry is what a provider was asked of a node that cannot be reached.
type inquiry struct {
	next     time.Time // when to ask again
	answered time.Time // when there was an answer last
	online   time.Time // since when this program reaches the provider, and not the node
}

// givenUp says why a node that has been down since a time is lost, or nil. Its
// provider decides. Where that cannot be reached either, it is this program that is
// offline, and nothing is given up: the time that a node has begins once the provider
// answers again. Where no node at all can be reached, though the provider can, that
// time is the lease, which is what the nodes themselves wait.
func (n *poolNode) givenUp(since time.Time, asked *inquiry) error {
	at := now()
	if at.Sub(since) < askAfter || at.Before(asked.next) {
		return nil
	}
	ctx, cancel := context.WithTimeout(n.ctx, 10*time.Second)
	defer cancel()
	found, err := n.p.describe(ctx, n.inst.ID)
	at = now()
	asked.next = at.Add(min(at.Sub(since)/4, askAtLeast))
	if err != nil {
		return nil
	}
	if asked.answered.IsZero() {
		asked.answered, asked.online = since, since
	}
	if at.Sub(asked.answered) > patience {
		asked.online = at
	}
	asked.answered = at
	switch found.State {
	case InstanceTerminated, InstanceFailed, InstanceStopped:
		return fmt.Errorf("the provider says that the machine is %v%s", found.State, afterColon(found.StateReason))
	case InstancePreempted:
		return fmt.Errorf("%w%s", ErrPreempted, afterColon(found.StateReason))
	}
	limit := unreachableTimeout
	if n.p.offline() {
		limit = max(limit, n.p.spec.lease())
	}
	if at.Sub(asked.online) < limit {
		return nil
	}
	return fmt.Errorf("unreachable for %v, though the provider says that it is %v", at.Sub(since).Round(time.Second), found.State)
}

// offline reports whether several nodes were reached and none can be now.
func (p *pool) offline() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	down := 0
	for _, n := range p.nodes {
		switch n.state {
		case NodeReady:
			return false
		case NodeUnreachable:
			down++
		}
	}
	return down > 1
}
