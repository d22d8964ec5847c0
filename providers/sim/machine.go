package sim

import (
	"cmp"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An instance is a launched machine, which may be gone. The cloud's mu guards it.
type instance struct {
	fleet   *fleet
	account string
	inst    driver.Instance //secretvet:ignore a simulated machine has no password; as it is in truth
	pool    driver.PoolInfo
	hostKey driver.HostKey //secretvet:ignore a simulated cloud prints no machine
	offer   *offer
	node    *node // from boot on

	began, ended time.Time
	leaseUntil   time.Time
	listed       time.Time     // lists have it from then on
	shown        time.Time     // describe has it from then on
	paid         float64       // at earlier prices
	paidFor      time.Duration // since began
	duplicate    bool
	broken       bool
	other        bool // its GPUs differ from the offer's
	timers       []*time.Timer
}

// exists reports whether the machine is not gone yet.
func (m *instance) exists() bool { return m.ended.IsZero() }

// boot makes the machine run. The cloud's mu is held.
func (m *instance) boot() {
	if !m.exists() || m.node != nil {
		return
	}
	n, err := m.fleet.startNode(m)
	if err != nil {
		m.fail(err.Error())
		return
	}
	m.node = n
	if m.broken || m.fleet.cut {
		n.SetReachable(false)
	}
	m.inst.State = driver.InstanceRunning
	m.inst.SSH = driver.Endpoint{Addr: name + ":" + m.inst.Name, User: n.user, HostKeys: []string{n.HostKey}}
	m.note("running", byCloud)
}

// fail fails a machine that did not come up. It exists and is billed until it is terminated.
// The cloud's mu is held.
func (m *instance) fail(why string) {
	if m.exists() {
		m.inst.State, m.inst.StateReason = driver.InstanceFailed, why
		m.note("failed", byCloud)
	}
}

func (m *instance) note(what, by string) {
	m.fleet.record.event(m.inst.ID, m.inst.Name, m.pool.ID, what, by)
}

// over records that the machine is gone. The cloud's mu is held.
func (m *instance) over(state driver.InstanceState, why, by string) {
	if !m.exists() {
		return
	}
	m.ended = time.Now()
	m.inst.State, m.inst.StateReason = state, why
	if !m.offer.endless {
		m.offer.Available++
	}
	for _, t := range m.timers {
		m.fleet.life.stopTimer(t)
	}
	m.note(state.String(), by)
}

// stop ends the machine's processes in a goroutine of its own, as that may take time. It may be
// called again. The cloud's mu is held.
func (m *instance) stop() {
	m.fleet.life.wg.Go(func() { m.fleet.stop(m) })
}

// end ends a machine. The cloud's mu is held.
func (m *instance) end(state driver.InstanceState, why, by string) {
	if m.exists() {
		m.over(state, why, by)
		m.stop()
	}
}

// resource returns the machine as it appears in lists. The cloud's mu is held.
func (m *instance) resource() driver.Resource {
	return driver.Resource{
		Provider: name, Kind: "machine", ID: m.inst.ID, Name: m.inst.Name, Region: m.inst.Offer.Region, HourlyUSD: m.inst.Offer.HourlyUSD,
		Pool: m.pool.ID, Owner: m.pool.Owner, State: m.inst.State,
		Created: m.began, Lease: m.pool.Lease, Expires: m.pool.Expires, LeaseUntil: m.leaseUntil,
	}
}

// billed returns the cost of the machine so far. The cloud's mu is held.
func (m *instance) billed() float64 {
	until := m.ended
	if m.exists() {
		until = time.Now()
	}
	unit := cmp.Or(m.inst.Offer.BillingUnit, time.Second)
	units := (until.Sub(m.began) + unit - 1) / unit
	usd, _ := m.inst.Offer.HourlyUSD.USD()
	return m.paid + usd*((units*unit)-m.paidFor).Hours()
}

// move changes the machine's price. The cloud's mu is held.
func (m *instance) move(price driver.Price) {
	if !m.exists() {
		return
	}
	usd, _ := m.inst.Offer.HourlyUSD.USD()
	lasted := time.Since(m.began)
	m.paid += usd * (lasted - m.paidFor).Hours()
	m.paidFor, m.inst.Offer.HourlyUSD = lasted, price
}

// reported returns the machine as it appears in answers. The cloud's mu is held.
func (m *instance) reported(r request) driver.Instance {
	in := m.inst
	if r.remote && in.State == driver.InstanceRunning {
		addr, err := m.node.publish()
		if err != nil {
			in.SSH.Addr = "" // it runs but cannot be reached yet
		} else {
			in.SSH.Addr, in.PublicAddr = addr, "127.0.0.1"
		}
	}
	return in
}

// preempt preempts the machine after a notice. The cloud's mu is held.
func (m *instance) preempt(notice time.Duration) {
	m.inst.PreemptAt = time.Now().Add(notice)
	take := func() { m.end(driver.InstancePreempted, "spot capacity was taken back", byCloud) }
	if notice <= 0 {
		take()
		return
	}
	m.note("notice", byCloud)
	m.timers = append(m.timers, m.fleet.life.after(notice, take))
}

// setBroken cuts the machine off, or reconnects it. The cloud's mu is held.
func (m *instance) setBroken(broken bool) {
	m.broken = broken
	if m.node != nil {
		m.node.SetReachable(!broken && !m.fleet.cut)
	}
}
