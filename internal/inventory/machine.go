package inventory

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// machineKind is the kind of a machine, among resources and rows of a ledger.
const machineKind = "machine"

const (
	// A provider may take usualEnd to remove a machine whose end it has accepted. It may report for stopsWithin that
	// the machine still runs; after that it is an error.
	usualEnd, stopsWithin = 5 * time.Minute, time.Minute
)

// A machine is one that was launched, as it is billed. The mutex of its machines guards it.
type machine struct {
	inst     driver.Instance //secretvet:ignore no message formats a machine
	launched time.Time       // or when its launch was about to be called
	began    time.Time       // when its billing began, if that is after the launch; zero until then
	gone     time.Time       // when it was confirmed gone; zero until then
	accepted time.Time       // when the provider accepted its end, or reported last after that that it runs
	unbilled time.Time       // since when it is billed no more, by what the provider reports: see observe
	unwanted bool            // its node is over
	awaited  bool            // Discard waits for its end
	leased   bool            // it ends itself once its lease has run out
	charged  []charge        // at other prices than now; the first from the launch on
	traffic  traffic         // so far
	rebilled bool            // its price, or what else its bill has, has changed since the ledger has it
}

// resource returns the machine as what may be left.
func (m *machine) resource() driver.Resource {
	return driver.Resource{
		Provider: m.inst.Offer.Provider, Kind: machineKind, ID: m.inst.ID, Name: m.inst.Name,
		Region: m.inst.Offer.Region, HourlyUSD: m.inst.Offer.HourlyUSD, Created: m.launched,
	}
}

// over is when the machine ceased to be billed: when its end was accepted, or at the latest
// when it was gone. It is zero while the machine is billed.
func (m *machine) over() time.Time {
	if m.unbilled.IsZero() {
		return m.gone
	}
	return m.unbilled
}

// isLate reports whether a machine whose end was asked for at a time ought to be gone.
func (m *machine) isLate(asked time.Time) bool {
	limit := usualEnd
	if m.unbilled.IsZero() {
		limit = stopsWithin
	}
	return time.Since(asked) >= limit
}

// begin notes that the provider bills the machine, if it does. It reports whether that is news.
func (m *machine) begin(inst driver.Instance) (news bool) {
	over := inst.State == driver.InstanceTerminated || inst.State == driver.InstanceUnknown
	if !m.inst.Offer.Billing.AfterLaunch || !m.began.IsZero() || inst.Unbilled || over || !m.accepted.IsZero() {
		return false
	}
	m.began, m.rebilled = time.Now(), true
	return true
}

// observe notes the state that the provider reports of a machine whose end it has accepted: the
// machine has not been billed since then, or since it last ran. It reports whether that is news.
func (m *machine) observe(s driver.InstanceState) (news bool) {
	switch {
	case s == driver.InstanceTerminated || m.accepted.IsZero():
		return false
	case s == driver.InstanceRunning || s == driver.InstancePending:
		m.rebilled = m.rebilled || !m.unbilled.IsZero()
		m.unbilled, m.accepted = time.Time{}, time.Now()
		return false
	}
	news = m.unbilled.IsZero()
	if news {
		m.unbilled, m.rebilled = m.accepted, true
	}
	return news
}
