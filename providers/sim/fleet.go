package sim

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A fleet holds the machines of a cloud.
type fleet struct {
	mu       *sync.Mutex // the cloud's; it guards the fields below and every instance
	opts     *Options    // without the token
	life     *life
	record   *record
	machines []*instance    // in the order of their launch, also those that are gone
	pools    map[string]int // numbers, in the order of their first launch
	launches map[string]int // by pool and rank
	cut      bool
}

// machine returns a machine by its ID, or nil. mu is held.
func (f *fleet) machine(id string) *instance {
	for _, m := range f.machines {
		if m.inst.ID == id {
			return m
		}
	}
	return nil
}

// with calls do, with mu held, for a machine that still exists.
func (f *fleet) with(id string, do func(*instance)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.machine(id)
	if m == nil || !m.exists() {
		return fail("script", &apiError{Status: statusNotFound, Message: "there is no machine " + id})
	}
	do(m)
	return nil
}

// ofPool returns the machines of a pool, also those that are gone; of all pools if poolID is
// empty. mu is held.
func (f *fleet) ofPool(poolID string) iter.Seq[*instance] {
	return func(yield func(*instance) bool) {
		for _, m := range f.machines {
			if (poolID == "" || m.pool.ID == poolID) && !yield(m) {
				return
			}
		}
	}
}

// inUse returns the existing machines of an account. mu is held.
func (f *fleet) inUse(account string) (all []*instance) {
	for _, m := range f.machines {
		if m.account == account && m.exists() {
			all = append(all, m)
		}
	}
	return all
}

// ordinal returns a pool's number in the order of first launches. mu is held.
func (f *fleet) ordinal(pool string) int {
	if _, ok := f.pools[pool]; !ok {
		f.pools[pool] = len(f.pools) + 1
	}
	return f.pools[pool]
}

// launch makes a machine. mu is held.
func (f *fleet) launch(r request, want driver.NodeRequest, of *offer, fault Fault) *instance {
	now := time.Now()
	m := &instance{fleet: f, account: r.Account, pool: r.Pool, hostKey: want.HostKey, offer: of, began: now, listed: now.Add(f.opts.ListLag)}
	if fault.Kind == Lag {
		m.shown = now.Add(fault.For)
		m.listed = later(m.listed, m.shown)
	}
	rented := of.Offer
	rented.Available = 0
	if fault.Kind == Overcharged {
		usd, _ := rented.HourlyUSD.USD()
		rented.HourlyUSD = driver.USD(usd * cmp.Or(fault.Factor, 2))
	}
	n := len(f.machines) + 1
	m.inst = driver.Instance{
		ID: fmt.Sprintf("i-%d", n), Name: want.Name, Rank: want.Rank, State: driver.InstancePending,
		PrivateAddr: fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255), Offer: rented,
	}
	if !of.endless {
		of.Available--
	}
	f.machines = append(f.machines, m)
	f.record.event(m.inst.ID, want.Name, r.Pool.ID, "launched", r.Client)

	key := fmt.Sprint(f.ordinal(r.Pool.ID), "/", want.Rank)
	f.launches[key]++
	boot := f.opts.BootTime
	if f.opts.BootJitter > 0 {
		boot += time.Duration(chance(f.opts.Seed, "boot", key, f.launches[key]).Int64N(int64(f.opts.BootJitter)))
	}
	m.other = fault.Kind == OtherGPUs
	switch {
	case fault.Kind == NeverUp:
	case fault.Kind == FailedBoot:
		m.timers = append(m.timers, f.life.after(boot, func() { m.fail("it did not boot") }))
	default:
		m.broken = fault.Kind == DeadSSH
		if boot == 0 {
			m.boot()
		} else {
			m.timers = append(m.timers, f.life.after(boot, m.boot))
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

// stop ends the processes of machines. It may be called again. mu is not held.
func (f *fleet) stop(machines ...*instance) {
	var nodes []*node
	f.mu.Lock()
	for _, m := range machines {
		if m.node != nil {
			nodes = append(nodes, m.node)
		}
	}
	f.mu.Unlock()
	endAll(nodes)
}

// setCut cuts all machines off, or reconnects them. mu is held.
func (f *fleet) setCut(cut bool) {
	f.cut = cut
	for _, m := range f.machines {
		if m.exists() {
			m.setBroken(m.broken)
		}
	}
}

// doubles returns the names that two machines had at the same time. mu is held.
func (f *fleet) doubles() []string {
	doubles := map[string]bool{}
	for i, m := range f.machines {
		for _, other := range f.machines[:i] {
			if m.inst.Name == other.inst.Name && !m.duplicate && (other.exists() || other.ended.After(m.began)) {
				doubles[m.inst.Name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(doubles))
}

// dial connects to a machine's SSH server.
func (f *fleet) dial(id string) (net.Conn, error) {
	f.mu.Lock()
	m := f.machine(id)
	var n *node
	if m != nil && m.exists() && m.inst.State == driver.InstanceRunning {
		n = m.node
	}
	f.mu.Unlock()
	if n == nil {
		return nil, &apiError{Status: statusNotFound, Message: "no machine " + id + " runs"}
	}
	return n.Dial()
}

// close ends every machine, and returns once nothing of them or of the cloud's life is left.
func (f *fleet) close() error {
	f.mu.Lock()
	machines := slices.Clone(f.machines)
	f.mu.Unlock()
	f.stop(machines...)
	f.mu.Lock()
	for _, m := range machines {
		m.over(driver.InstanceTerminated, "the cloud was closed", byCloud)
	}
	f.mu.Unlock()
	f.life.wg.Wait()
	var errs []error
	for _, m := range machines {
		if m.node != nil {
			errs = append(errs, m.node.wait())
		}
	}
	return errors.Join(errs...)
}
