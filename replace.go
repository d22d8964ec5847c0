package gputrain

import (
	"cmp"
	"errors"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
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
	certain := isCertain(old, why)
	refused := 0
	if !had && isFull(why) {
		refused = old.refused
	}
	if tries > p.spec.replacements() || !replaceable(old, why, certain) || refused >= p.spec.maxOffers() {
		if elastic {
			p.stalled = now()
			p.changed.Broadcast()
			p.rescale()
		}
		return
	}
	n := newPoolNode(p, old.rank())
	n.tries, n.had, n.waits, n.waiting, n.refused = tries, had, waits, since, refused
	p.strandLocked(&old.pinned, old.endLocked()) // what was for this very machine
	p.nodes[n.rank()] = n
	p.former = append(p.former, old)
	n.enterLocked(NodeLaunching, nil)
	if certain {
		p.avoidLocked(cmp.Or(old.offer, old.inst.Offer), why)
		p.lives.Go(func() { p.replaceByAnother(n, why) })
		return
	}
	if old.inst.ID != "" {
		p.avoidLocked(cmp.Or(old.offer, old.inst.Offer), nil)
	}
	p.lives.Go(func() { p.replace(n) })
}

// isCertain reports whether the machine of a node would fail in the same way again: it is
// adopted, so it is the same one each time, and it has never been a node of this pool. A
// connection that was lost may come again. A host key or a login that is refused stays so.
func isCertain(old *poolNode, why error) bool {
	switch {
	case old.inst.ID == "" || !old.caps().Adopts:
		return false
	case errors.Is(why, ErrHostKey), errors.Is(why, ErrAuth):
		return true
	}
	return !old.wasNode() && old.ready.IsZero() && !errors.Is(why, ErrNodeLost) && !errors.Is(why, ssh.ErrDisconnected)
}

// wasNode reports whether a machine of this rank was a node before: of this program, or of
// the one whose pool was attached to.
func (n *poolNode) wasNode() bool { return n.had || n.root != "" }

// errNoOther is the failure of a machine that is not tried again, and that no other one
// can be tried in place of.
type errNoOther struct{ error }

func (e errNoOther) Unwrap() error { return e.error }

// replaceByAnother takes another machine for a rank whose last one would fail again, if
// there is one.
func (p *pool) replaceByAnother(n *poolNode, why error) {
	offers, err := p.askOffers()
	switch {
	case err == nil:
		p.rent([]*poolNode{n}, offers)
	case isFull(err):
		n.fail(errNoOther{why})
	default:
		n.fail(err)
	}
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
	p.rentTogether(n)
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
// to be replaced. A login that one adopted machine refuses says nothing of the others.
func replaceable(old *poolNode, why error, certain bool) bool {
	_, alone := errors.AsType[errNoOther](why)
	switch {
	case alone:
		return false
	case errors.Is(why, ErrQuota):
		return old.tries > 0
	case certain && errors.Is(why, ErrAuth):
		return true
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
