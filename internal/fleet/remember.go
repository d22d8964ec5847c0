package fleet

import (
	"errors"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// rememberFailure has later pools avoid the member's machine, if it is the machine that has failed: it was
// never a node, or its provider says that it is out of order. The lock is held.
func (m *Member) rememberFailure(why error) {
	inst := m.Node.Instance()
	if !m.isRemembered() || inst.ID == "" || m.fleet.config.Context.Err() != nil || !machineFailed(why) {
		return
	}
	switch {
	case m.wasReady && m.readyAt.IsZero(), m.Node.Resumed():
		return // it was a node of an earlier program
	case !m.readyAt.IsZero() && inst.State != driver.InstanceFailed && inst.State != driver.InstanceStopped:
		return // the connection may have failed
	}
	offer := m.rented()
	m.remember(func(h History) error { return h.Failed(offer, why) })
}

// rented returns the offer by which the member's machine was rented, as later markets know it. The lock is held.
func (m *Member) rented() driver.Offer {
	if m.offer.InstanceType == "" { // by an earlier program
		return m.Node.Instance().Offer
	}
	return m.offer
}

// isRemembered reports whether later pools are to know of the member's machine: not of one that was made for
// this pool and costs nothing, as a container is.
func (m *Member) isRemembered() bool {
	caps := m.Node.Capabilities()
	return m.fleet.config.History != nil && (!caps.Free || caps.Adopts)
}

// machineFailed reports whether an error can be a machine's fault, and not the user's, the account's or the
// market's.
func machineFailed(why error) bool {
	for _, kind := range []error{
		driver.ErrPreempted, driver.ErrBootstrap, driver.ErrAuth, driver.ErrInvalid, driver.ErrUnsupported, driver.ErrBudget, driver.ErrBalance,
		driver.ErrQuota, driver.ErrNoCapacity, driver.ErrLedger, driver.ErrFenced, driver.ErrClosed, driver.ErrRateLimited,
	} {
		if errors.Is(why, kind) {
			return false
		}
	}
	return true
}

// rememberBoot notes how long the member's machine took to come up.
func (m *Member) rememberBoot() {
	m.fleet.config.Lock.Lock()
	offer, took := m.rented(), time.Since(m.launchedAt)
	m.fleet.config.Lock.Unlock()
	if m.isRemembered() && !m.Node.Resumed() && !m.Node.Capabilities().Adopts {
		m.remember(func(h History) error { return h.Booted(offer, took) })
	}
}

// remember changes the history, and waits for nothing. What cannot be remembered is a hint less.
func (m *Member) remember(change func(History) error) {
	c := m.fleet.config
	c.Node.Go(func() {
		if err := change(c.History); err != nil {
			c.Reporter.Trouble("history", err)
		}
	})
}
