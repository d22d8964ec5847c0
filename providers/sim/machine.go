package sim

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"time"

	"github.com/gputrain/gputrain"
)

// A machine is one that was launched. The cloud's mu guards it.
type machine struct {
	c       *Cloud
	account string
	inst    gputrain.Instance //secretvet:ignore a simulated machine has no password; as it is in truth
	pool    gputrain.PoolInfo
	hostKey gputrain.HostKey //secretvet:ignore a simulated cloud prints no machine
	offer   *offer
	node    *node // since it runs

	began, ended time.Time
	leaseUntil   time.Time
	listed       time.Time // from when on lists have it
	shown        time.Time // from when on it can be described
	duplicate    bool
	broken       bool
	other        bool // its GPUs are not those of the offer
	timers       []*time.Timer
}

// exists reports whether the machine is not gone yet.
func (m *machine) exists() bool { return m.ended.IsZero() }

// launch makes a machine. c.mu is held.
func (c *Cloud) launch(r request, want gputrain.NodeRequest, of *offer, f Fault) *machine {
	now := time.Now()
	m := &machine{c: c, account: r.Account, pool: r.Pool, hostKey: want.HostKey, offer: of, began: now, listed: now.Add(c.opts.ListLag)}
	if f.Kind == Lag {
		m.shown = now.Add(f.For)
		m.listed = later(m.listed, m.shown)
	}
	rented := of.Offer
	rented.Available = 0
	if f.Kind == Overcharged {
		usd, _ := rented.HourlyUSD.USD()
		rented.HourlyUSD = gputrain.USD(usd * cmp.Or(f.Factor, 2))
	}
	n := len(c.machines) + 1
	m.inst = gputrain.Instance{
		ID: fmt.Sprintf("i-%d", n), Name: want.Name, Rank: want.Rank, State: gputrain.InstancePending,
		PrivateAddr: fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), Offer: rented,
	}
	if !of.endless {
		of.Available--
	}
	c.machines = append(c.machines, m)
	c.note(m.inst.ID, want.Name, r.Pool.ID, "launched", r.Client)

	key := fmt.Sprint(c.ordinal(r.Pool.ID), "/", want.Rank)
	c.launches[key]++
	boot := c.opts.BootTime
	if c.opts.BootJitter > 0 {
		boot += time.Duration(chance(c.opts.Seed, "boot", key, c.launches[key]).Int64N(int64(c.opts.BootJitter)))
	}
	m.other = f.Kind == OtherGPUs
	switch {
	case f.Kind == NeverUp:
	case f.Kind == FailedBoot:
		m.timers = append(m.timers, c.after(boot, func() { m.fail("it did not boot") }))
	default:
		m.broken = f.Kind == DeadSSH
		if boot == 0 {
			m.boot()
		} else {
			m.timers = append(m.timers, c.after(boot, m.boot))
		}
	}
	return m
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// boot has the machine run. c.mu is held.
func (m *machine) boot() {
	if !m.exists() || m.node != nil {
		return
	}
	n, err := m.c.startNode(m)
	if err != nil {
		m.fail(err.Error())
		return
	}
	m.node = n
	if m.broken || m.c.cut {
		n.unplug(true)
	}
	m.inst.State = gputrain.InstanceRunning
	m.inst.SSH = gputrain.Endpoint{Addr: name + ":" + m.inst.Name, User: n.user, HostKeys: []string{n.hostKey}}
	m.note("running", byCloud)
}

// fail is the end of a machine that did not come up. It exists, and is billed,
// until it is terminated. c.mu is held.
func (m *machine) fail(why string) {
	if m.exists() {
		m.inst.State, m.inst.StateReason = gputrain.InstanceFailed, why
		m.note("failed", byCloud)
	}
}

func (m *machine) note(what, by string) { m.c.note(m.inst.ID, m.inst.Name, m.pool.ID, what, by) }

// over notes that the machine is gone. c.mu is held.
func (m *machine) over(state gputrain.InstanceState, why, by string) {
	if !m.exists() {
		return
	}
	m.ended = time.Now()
	m.inst.State, m.inst.StateReason = state, why
	if !m.offer.endless {
		m.offer.Available++
	}
	for _, t := range m.timers {
		m.c.stopTimer(t)
	}
	m.note(state.String(), by)
}

// stop ends what runs on the machine. c.mu is not held. It may be called again.
func (m *machine) stop() {
	m.c.stop([]*machine{m})
}

// stop ends what runs on machines. c.mu is not held.
func (c *Cloud) stop(machines []*machine) {
	var nodes []*node
	c.mu.Lock()
	for _, m := range machines {
		if m.node != nil {
			nodes = append(nodes, m.node)
		}
	}
	c.mu.Unlock()
	endAll(nodes)
}

// end takes a machine away: in a goroutine of its own, as what runs there may need
// time to end. c.mu is held.
func (m *machine) end(state gputrain.InstanceState, why, by string) {
	if m.exists() {
		m.over(state, why, by)
		m.c.wg.Go(m.stop)
	}
}

// resource is the machine as lists have it. c.mu is held.
func (m *machine) resource() gputrain.Resource {
	return gputrain.Resource{
		Provider: name, Kind: "machine", ID: m.inst.ID, Name: m.inst.Name, Region: m.inst.Offer.Region, HourlyUSD: m.inst.Offer.HourlyUSD,
		Pool: m.pool.ID, Owner: m.pool.Owner, State: m.inst.State,
		Created: m.began, Lease: m.pool.Lease, Expires: m.pool.Expires, LeaseUntil: m.leaseUntil,
	}
}

// billed is what the machine has cost so far. c.mu is held.
func (m *machine) billed() float64 {
	until := m.ended
	if m.exists() {
		until = time.Now()
	}
	unit := cmp.Or(m.inst.Offer.BillingUnit, time.Second)
	units := (until.Sub(m.began) + unit - 1) / unit
	usd, _ := m.inst.Offer.HourlyUSD.USD()
	return usd * (units * unit).Hours()
}

// dial connects to a machine's SSH server.
func (c *Cloud) dial(_ context.Context, id string) (net.Conn, error) {
	c.mu.Lock()
	m := c.machine(id)
	var n *node
	if m != nil && m.exists() && m.inst.State == gputrain.InstanceRunning {
		n = m.node
	}
	c.mu.Unlock()
	if n == nil {
		return nil, &apiError{Status: statusNotFound, Message: "no machine " + id + " runs"}
	}
	return n.dial()
}

// running returns a machine that can still change, or an error. c.mu is held.
func (c *Cloud) running(id string) (*machine, error) {
	m := c.machine(id)
	if m == nil || !m.exists() {
		return nil, fail("script", &apiError{Status: statusNotFound, Message: "there is no machine " + id})
	}
	return m, nil
}

// Preempt takes a machine back after a notice, which Instance.PreemptAt has from
// now on. Zero takes it back at once.
func (c *Cloud) Preempt(id string, notice time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.running(id)
	if err != nil {
		return err
	}
	m.inst.PreemptAt = time.Now().Add(notice)
	take := func() { m.end(gputrain.InstancePreempted, "spot capacity was taken back", byCloud) }
	if notice <= 0 {
		take()
		return nil
	}
	m.note("notice", byCloud)
	m.timers = append(m.timers, c.after(notice, take))
	return nil
}

// Vanish removes a machine without a word, as a failure of its hardware does.
func (c *Cloud) Vanish(id string) error {
	return c.with(id, func(m *machine) { m.end(gputrain.InstanceTerminated, "it vanished", byCloud) })
}

// Stop has a machine stop. It goes on to exist, and to be billed.
func (c *Cloud) Stop(id string) error {
	return c.with(id, func(m *machine) {
		m.inst.State, m.inst.StateReason = gputrain.InstanceStopped, "it was stopped"
		m.note("stopped", byCloud)
		m.c.wg.Go(m.stop)
	})
}

// Fail has a machine fail. It goes on to exist, and to be billed.
func (c *Cloud) Fail(id string) error {
	return c.with(id, func(m *machine) {
		m.fail("its host failed")
		m.c.wg.Go(m.stop)
	})
}

// Break cuts a machine off: its SSH server cannot be reached any more, and the API
// goes on to say that it runs. What runs there goes on.
func (c *Cloud) Break(id string) error {
	return c.with(id, func(m *machine) { m.setBroken(true) })
}

// Heal ends what Break, or DeadSSH, has done.
func (c *Cloud) Heal(id string) error {
	return c.with(id, func(m *machine) { m.setBroken(false) })
}

func (m *machine) setBroken(broken bool) {
	m.broken = broken
	if m.node != nil {
		m.node.unplug(broken || m.c.cut)
	}
}

// Cut cuts all machines off, those to come too, until it is called with false.
// The API goes on to answer: see Outage.
func (c *Cloud) Cut(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = all
	for _, m := range c.machines {
		if m.exists() && m.node != nil {
			m.node.unplug(all || m.broken)
		}
	}
}

func (c *Cloud) with(id string, f func(*machine)) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, err := c.running(id)
	if err == nil {
		f(m)
	}
	return err
}
