package gputrain_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// A second machine of one name is found and ended within a minute, and counted.
func TestAnAuditEndsTheSecond(t *testing.T) {
	inCloud(t, sim.Options{ListLag: 10 * time.Second}, func(t *testing.T, c *simCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.Duplicate})
		p := c.pool(t, gputrain.Spec{Nodes: 2})
		if n := c.machines(); n != 3 {
			t.Fatalf("%d machines", n)
		}
		before := alive(t, p)
		time.Sleep(time.Minute)
		if n, after := c.machines(), alive(t, p); n != 2 || before[0] != after[0] || before[1] != after[1] || !allReady(p) {
			t.Errorf("%d machines; the nodes %v are %v", n, before, after)
		}
		if cost, billed := p.CostUSD(), c.BilledUSD(""); cost < billed-0.001 {
			t.Errorf("it says $%v and is billed $%v", cost, billed)
		}
		c.end(t, p)
	})
}

// A machine that is said to be gone, and is not, is ended all the same.
func TestAnAuditEndsLiars(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 2})
		c.Inject(sim.Fault{Op: sim.OpTerminate, Nth: 1, Count: 2, Kind: sim.Ignored})
		c.Stop(alive(t, p)[0])
		inTime(t, "replaced", func() bool { return c.launches() == 3 && allReady(p) })
		time.Sleep(5 * time.Minute)
		if n := c.machines(); n != 2 {
			t.Errorf("%d machines", n)
		}
		c.end(t, p)
	})
}

// So is one whose end could not be asked for while the provider did not answer.
func TestAnAuditEndsWhatAnOutageLeft(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 2})
		c.Inject(sim.Fault{Op: sim.OpTerminate, Nth: 1, Count: 3, Kind: sim.Unavailable})
		c.Fail(alive(t, p)[0])
		inTime(t, "replaced", func() bool { return c.launches() == 3 && allReady(p) })
		time.Sleep(3 * time.Minute)
		if n := c.machines(); n != 2 {
			t.Errorf("%d machines", n)
		}
		c.end(t, p)
	})
}

// A lease that could not be noted is noted soon after: Reap elsewhere goes by it.
func TestALeaseIsNotedAgain(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		c.Inject(sim.Fault{Op: sim.OpMarkLease, Nth: 1, Count: 2, Kind: sim.Unavailable})
		p := c.pool(t, gputrain.Spec{Lease: time.Hour})
		time.Sleep(7 * time.Minute)
		for _, r := range c.Live() {
			if r.Kind == "machine" && !r.LeaseUntil.After(time.Now()) {
				t.Errorf("of %s it is noted that its program lives until %v", r.ID, r.LeaseUntil)
			}
		}
		c.end(t, p)
	})
}
