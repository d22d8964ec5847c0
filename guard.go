package gputrain

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// askAfter is how long a node may be unreachable before its provider is asked.
	askAfter = 3 * time.Second
	// unreachableTimeout is how long a node may be unreachable, though its
	// provider says that it runs, before it is given up.
	unreachableTimeout = 2 * time.Minute
)

// guard watches a node that is ready until it is lost or the pool ends.
func (n *poolNode) guard() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-n.ctx.Done():
			return
		case <-n.client.Done():
			n.fail(n.lost(n.client.Err()))
			return
		case <-n.super.Done():
			n.fail(n.lost(n.super.Err()))
			return
		case <-tick.C:
		}
		since, down := n.client.Down()
		n.reachable(!down)
		if !down {
			continue
		}
		if why := n.givenUp(time.Since(since)); why != "" && n.ctx.Err() == nil {
			n.fail(n.lost(errors.New(why)))
			return
		}
	}
}

// lost is the error of a node that is given up.
func (n *poolNode) lost(why error) error {
	if kind := kindOfSSH(why); kind != ErrUnavailable {
		why = &Error{Kind: kind, Err: why} // a host key that changed, a login that is refused now
	}
	return &Error{Provider: n.p.provider, Op: n.name, Kind: ErrNodeLost, Err: why}
}

// reachable shows whether the connection is up. Tasks are not started over
// one that is down.
func (n *poolNode) reachable(up bool) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	switch {
	case up && n.state == NodeUnreachable:
		n.enterLocked(NodeReady, nil)
		n.p.dispatchLocked()
	case !up && n.state == NodeReady:
		n.enterLocked(NodeUnreachable, nil)
	}
}

// givenUp says why a node that has been down for so long is lost, or "". The
// provider is asked first; where it cannot be reached either, or where every node is down, it is
// this program that is offline: nothing is given up before the lease has.
func (n *poolNode) givenUp(down time.Duration) string {
	if down < askAfter {
		return ""
	}
	ctx, cancel := context.WithTimeout(n.ctx, 10*time.Second)
	defer cancel()
	found, err := n.p.driver.Describe(ctx, n.inst.ID)
	if err != nil || len(found) != 1 {
		return ""
	}
	switch s := found[0]; s.State {
	case InstanceTerminated, InstanceFailed:
		return fmt.Sprintf("the provider says that the machine is %v: %s", s.State, s.StateReason)
	case InstancePreempted:
		return "the provider took the machine back: " + s.StateReason
	}
	limit := unreachableTimeout
	if n.p.offline() {
		limit = max(limit, n.p.spec.lease())
	}
	if down < limit {
		return ""
	}
	return fmt.Sprintf("unreachable for %v, though the provider says that it is %v", down.Round(time.Second), found[0].State)
}

// offline reports whether no node at all can be reached.
func (p *pool) offline() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.nodes {
		if n.state == NodeReady {
			return false
		}
	}
	return len(p.nodes) > 1
}
