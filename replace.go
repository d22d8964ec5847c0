package gputrain

import (
	"cmp"
	"errors"
	"time"
)

// replaceLocked gives the rank of a node that is over to another machine, where
// that may help and is allowed. It gets that rank only now: at a notice of preemption
// nothing is launched yet, so that no two nodes ever have one rank, or are paid for.
func (p *pool) replaceLocked(old *poolNode, why error) {
	if p.closing || p.ctx.Err() != nil || old.leaves || p.indexLocked(old) < 0 {
		return
	}
	elastic := p.spec.MaxNodes > 0
	if elastic && len(p.nodes) > max(p.demandLocked(), p.least) {
		p.rescale()
		return // nobody misses it
	}
	tries := old.tries + 1
	if !old.ready.IsZero() && now().Sub(old.ready) >= SettledAfter {
		tries = 1
	}
	had := old.had || !old.ready.IsZero()
	waits, since := 0, time.Time{}
	if had && old.tries > 0 && old.inst.ID == "" && isFull(why) {
		if since = old.waiting; since.IsZero() {
			since = now()
		}
		if now().Sub(since) < CapacityPatience { // it is no machine that failed
			tries, waits = old.tries, old.waits+1
		}
	}
	if tries > p.spec.replacements() || !replaceable(old, why) {
		if elastic {
			p.stalled = now()
			p.changed.Broadcast()
			p.rescale()
		}
		return
	}
	n := newPoolNode(p, old.rank())
	n.tries, n.had, n.waits, n.waiting = tries, had, waits, since
	p.strandLocked(old.pinned.take()) // what was for this very machine
	p.nodes[n.rank()] = n
	p.former = append(p.former, old)
	n.enterLocked(NodeLaunching, nil)
	if old.inst.ID != "" {
		p.avoidLocked(cmp.Or(old.offer, old.inst.Offer))
	}
	p.lives.Go(func() { p.replace(n) })
}

// replace rents for a rank whose last machine failed: at once the first time, and
// with growing pauses after that.
func (p *pool) replace(n *poolNode) {
	var pause time.Duration
	switch {
	case n.waits > 0:
		pause = min(5*time.Second<<min(n.waits-1, 10), 2*time.Minute)
	case n.tries > 1:
		pause = min(5*time.Second<<(n.tries-2), time.Minute)
	}
	if pause > 0 && !sleep(p.ctx, pause) {
		n.fail(p.interrupted(p.ctx.Err()))
		return
	}
	p.rentMore([]*poolNode{n})
}

// isFull reports whether a launch failed since there is no room now, anywhere: nothing
// was rented, and asking again costs nothing.
func isFull(why error) bool {
	if errors.Is(why, errOverpriced) {
		return false
	}
	return errors.Is(why, ErrNoCapacity) || errors.Is(why, ErrNoOffers) || errors.Is(why, ErrQuota)
}

// replaceable reports whether another machine may do better: not where it is the
// user's set-up that fails, or the account. A quota may still count the machine that is
// to be replaced.
func replaceable(old *poolNode, why error) bool {
	if errors.Is(why, ErrQuota) {
		return old.tries > 0
	}
	for _, kind := range []error{ErrBootstrap, ErrAuth, ErrInvalid, ErrUnsupported, ErrBudget, ErrLedger, ErrFenced, ErrClosed} {
		if errors.Is(why, kind) && !errors.Is(why, ErrNodeLost) {
			return false
		}
	}
	return why != nil
}

func (p *pool) indexLocked(n *poolNode) int {
	for i, other := range p.nodes {
		if other == n {
			return i
		}
	}
	return -1
}
