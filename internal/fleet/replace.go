package fleet

import (
	"errors"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A member that has been ready for settledAfter resets the count of replacements.
	settledAfter = 10 * time.Minute
	// If no place has room for a lost node's replacement, the fleet asks again for
	// capacityPatience.
	capacityPatience = 30 * time.Minute
)

// A record counts the failures of a rank's earlier machines.
type record struct {
	tries        int  // that failed, in a row
	wasReady     bool // one of them was ready
	refused      int  // offers that have refused it one, in a row, before it had any
	waits        int  // how often there was no room for one, since waitingSince
	waitingSince time.Time
}

// next returns the record of the member that is to follow one that is over.
func (m *Member) next(why error) record {
	r := record{tries: m.tries + 1, wasReady: m.wasReady || !m.readyAt.IsZero()}
	if !m.readyAt.IsZero() && time.Since(m.readyAt) >= settledAfter {
		r.tries = 1
	}
	if !isFull(why) {
		return r
	}
	if !r.wasReady {
		r.refused = m.refused
		if wait := m.fleet.config.WaitForCapacity; wait > 0 && m.Node.Instance().ID != "" { // its place has made it, and has no room for it
			r.waitFrom(m)
			if time.Since(r.waitingSince) < wait {
				r.tries, r.waits = m.tries, m.waits+1
			} else {
				r.tries = m.fleet.config.Replacements + 1
			}
		}
		return r
	}
	if m.tries == 0 || m.Node.Instance().ID != "" {
		return r
	}
	r.waitFrom(m)
	if time.Since(r.waitingSince) < capacityPatience { // it is no machine that failed
		r.tries, r.waits = m.tries, m.waits+1
	}
	return r
}

// waitFrom counts a wait for capacity from the one of an earlier member on, if it waited already.
func (r *record) waitFrom(m *Member) {
	if r.waitingSince = m.waitingSince; r.waitingSince.IsZero() {
		r.waitingSince = time.Now()
	}
}

// pause returns how long to wait before a machine is rented: nothing the first time, and longer
// each time after that.
func (r record) pause() time.Duration {
	switch {
	case r.waits > 0:
		return min(5*time.Second<<min(r.waits-1, 10), 2*time.Minute)
	case r.tries > 1:
		return min(5*time.Second<<(r.tries-2), time.Minute)
	}
	return 0
}

// replace gives the rank of a member that is over to another one, if that may help and is
// allowed. It does so only now: at a notice of preemption nothing is launched yet, so that no
// two members ever have one rank, or are paid for. The lock is held.
func (f *Fleet) replace(old *Member, why error) {
	if f.closing || f.config.Context.Err() != nil || old.leaves || !f.roster.has(old) {
		return
	}
	if f.config.Elastic && len(f.roster.members) > max(f.scaler.demand(), f.scaler.least) {
		f.scaler.rescale()
		return // it is not needed
	}
	certain := old.failsAgain(why)
	next := old.next(why)
	if next.tries > f.config.Replacements || next.refused >= f.config.MaxOffers || !replaceable(old.tries, why, certain) {
		if f.config.Elastic {
			f.scaler.stalled = time.Now()
			f.changed.Broadcast()
			f.scaler.rescale()
		}
		return
	}
	m := f.newMember(old.Rank())
	m.record = next
	f.Tasks.Strand(old.Slots) // what was for this very machine
	f.roster.replace(old, m)
	f.Tasks.Place(m.Slots, m.Rank())
	m.enter(Launching, nil)
	tried := old.rented()
	if certain {
		f.machines.avoid(tried, why)
		f.config.Node.Go(func() { f.renter.rentAnother(m, why) })
		return
	}
	if old.Node.Instance().ID != "" {
		f.machines.avoid(tried, nil)
	}
	f.config.Node.Go(func() { f.renter.rentAgain(m) })
}

// failsAgain reports whether the member's machine would fail in the same way again: it is
// adopted, so it is the same one each time, and it has never been a node of this pool. A
// connection that was lost may come again. A host key or a login that is refused stays so. And what has waited in a queue for as
// long as it may would wait there again, unless the pool is to wait for capacity.
func (m *Member) failsAgain(why error) bool {
	switch caps := m.Node.Capabilities(); {
	case m.Node.Instance().ID == "":
		return false
	case caps.Queues:
		return isFull(why) && !m.wasReady && m.readyAt.IsZero() && m.fleet.config.WaitForCapacity <= 0
	case !caps.Adopts:
		return false
	case errors.Is(why, driver.ErrHostKey), errors.Is(why, driver.ErrAuth):
		return true
	}
	wasNode := m.wasReady || m.Node.Resumed() // of this program, or of the one whose pool was attached to
	return !wasNode && m.readyAt.IsZero() && !errors.Is(why, driver.ErrNodeLost) && !errors.Is(why, ssh.ErrDisconnected)
}

// errNoOther is the failure of a machine that is not tried again, and that no other one
// can be tried in place of.
type errNoOther struct{ error }

func (e errNoOther) Unwrap() error { return e.error }

// rentAnother rents another machine for a rank whose last one would fail again, if there
// is one.
func (r *renter) rentAnother(m *Member, why error) {
	offers, err := r.ask()
	switch {
	case err == nil:
		r.rent([]*Member{m}, offers)
	case isFull(err):
		m.fail(errNoOther{why})
	default:
		m.fail(err)
	}
}

// rentAgain rents a machine for a rank whose last one failed, after a pause.
func (r *renter) rentAgain(m *Member) {
	ctx := r.fleet.config.Context
	if pause := m.pause(); pause > 0 && !retry.Sleep(ctx, pause) {
		m.fail(cutoff.By(ctx, ctx.Err()))
		return
	}
	r.rentTogether(m)
}

// isFull reports whether a launch failed since there is no room now, anywhere: nothing
// was rented, and asking again costs nothing.
func isFull(why error) bool {
	if errors.Is(why, market.ErrOverpriced) {
		return false
	}
	return errors.Is(why, driver.ErrNoCapacity) || errors.Is(why, driver.ErrNoOffers) || errors.Is(why, driver.ErrQuota)
}

// replaceable reports whether another machine may do better, after so many tries and if the
// last machine is certain to fail again: not if the user's set-up fails, or the account. A quota may
// still count the machine that is to be replaced. If one adopted machine refuses a login, another
// may accept it.
func replaceable(tries int, why error, certain bool) bool {
	_, alone := errors.AsType[errNoOther](why)
	_, waited := errors.AsType[waitedError](why)
	switch {
	case alone, waited:
		return false
	case certain && isFull(why):
		return true
	case errors.Is(why, driver.ErrQuota):
		return tries > 0
	case certain && errors.Is(why, driver.ErrAuth):
		return true
	}
	for _, kind := range []error{
		driver.ErrBootstrap, driver.ErrAuth, driver.ErrBalance, driver.ErrInvalid, driver.ErrUnsupported,
		driver.ErrBudget, driver.ErrLedger, driver.ErrFenced, driver.ErrClosed,
	} {
		if errors.Is(why, kind) && !errors.Is(why, driver.ErrNodeLost) {
			return false
		}
	}
	return why != nil
}
