package recovery

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A duplicate machine is found and ended within a minute, and its cost is counted.
func TestAnAuditEndsTheSecond(t *testing.T) {
	e2etest.InCloud(t, sim.Options{ListLag: 10 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.Duplicate})
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		if n := c.CountMachines(); n != 3 {
			t.Fatalf("%d machines", n)
		}
		before := e2etest.Alive(t, p)
		time.Sleep(time.Minute)
		if n, after := c.CountMachines(), e2etest.Alive(t, p); n != 2 || before[0] != after[0] || before[1] != after[1] || !e2etest.AllReady(p) {
			t.Errorf("%d machines; the nodes %v are %v", n, before, after)
		}
		if cost, billed := p.CostUSD(), c.BilledUSD(""); cost < billed-0.001 {
			t.Errorf("the pool reports $%v, and is billed $%v", cost, billed)
		}
		c.CloseAndCheck(t, p)
	})
}

// A machine that still runs although Terminate succeeded is ended.
func TestAnAuditEndsLiars(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		c.Inject(sim.Fault{Op: sim.OpTerminate, Nth: 1, Count: 2, Kind: sim.Ignored})
		c.Stop(e2etest.Alive(t, p)[0])
		e2etest.WithinVirtualTime(t, "replaced", func() bool { return c.CountLaunches() == 3 && e2etest.AllReady(p) })
		time.Sleep(5 * time.Minute)
		if n := c.CountMachines(); n != 2 {
			t.Errorf("%d machines", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A machine that could not be ended because the provider did not answer is ended later.
func TestAnAuditEndsWhatAnOutageLeft(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		c.Inject(sim.Fault{Op: sim.OpTerminate, Nth: 1, Count: 3, Kind: sim.Unavailable})
		c.Fail(e2etest.Alive(t, p)[0])
		e2etest.WithinVirtualTime(t, "replaced", func() bool { return c.CountLaunches() == 3 && e2etest.AllReady(p) })
		time.Sleep(3 * time.Minute)
		if n := c.CountMachines(); n != 2 {
			t.Errorf("%d machines", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A lease that could not be recorded is recorded soon after: Reap elsewhere relies on it.
func TestALeaseIsNotedAgain(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		c.Inject(sim.Fault{Op: sim.OpMarkLease, Nth: 1, Count: 2, Kind: sim.Unavailable})
		p := c.Pool(t, gputrain.Spec{Lease: time.Hour})
		time.Sleep(7 * time.Minute)
		for _, r := range c.Live() {
			if r.Kind == "machine" && !r.LeaseUntil.After(time.Now()) {
				t.Errorf("the provider notes for %s that its program lives until %v", r.ID, r.LeaseUntil)
			}
		}
		c.CloseAndCheck(t, p)
	})
}
