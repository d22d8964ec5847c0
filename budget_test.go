package gputrain_test

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// The budget ends tasks first, leaves time to collect, and then ends the pool: before
// more than it is billed, whatever the unit of billing.
func TestBudget(t *testing.T) {
	for _, unit := range []time.Duration{0, time.Minute, time.Hour} {
		t.Run(unit.String(), func(t *testing.T) {
			offer := at("here", 1)
			offer.BillingUnit = unit
			inCloud(t, sim.Options{Offers: []gputrain.Offer{offer}, BootTime: 100 * time.Second}, func(t *testing.T, c *simCloud) {
				const budget = 5.5
				p := c.pool(t, gputrain.Spec{Nodes: 2, BudgetUSD: budget})
				_, err := p.Gather(sleeps(2, "10h")...)
				if !errors.Is(err, gputrain.ErrBudget) {
					t.Errorf("the tasks: %v", err)
				}
				if _, err := p.Run(gputrain.Cmd("echo")); !errors.Is(err, gputrain.ErrBudget) {
					t.Errorf("another task: %v", err)
				}
				time.Sleep(gputrain.CollectTime / 2)
				if n := c.machines(); n != 2 {
					t.Errorf("%d machines while there is time to collect", n)
				}
				time.Sleep(gputrain.CollectTime)
				if n := c.machines(); n != 0 {
					t.Errorf("%d machines after that", n)
				}
				billed := c.BilledUSD(p.ID())
				if billed > budget || unit != time.Hour && billed < budget*0.98 || billed < 4 {
					t.Errorf("billed $%v of $%v", billed, budget)
				}
				if _, err := p.Run(gputrain.Cmd("echo")); !errors.Is(err, gputrain.ErrBudget) || !errors.Is(err, gputrain.ErrClosed) {
					t.Errorf("a task after the end: %v", err)
				}
				if n := c.count(gputrain.EventPool, "spent"); n != 1 {
					t.Errorf("told %d times", n)
				}
				c.end(t, p)
			})
		})
	}
}

// What cannot be paid for is refused before anything is rented.
func TestABudgetThatIsTooSmall(t *testing.T) {
	hourly := at("here", 1)
	hourly.BillingUnit = time.Hour
	one, dear := hourly, at("dear", 3)
	one.Available, dear.BillingUnit = 1, time.Hour
	tests := []struct {
		name   string
		offers []gputrain.Offer
		spec   gputrain.Spec
		works  bool
	}{
		{"a unit for each", []gputrain.Offer{hourly}, gputrain.Spec{Nodes: 3, BudgetUSD: 2.9}, false},
		{"just enough", []gputrain.Offer{hourly}, gputrain.Spec{Nodes: 3, BudgetUSD: 3}, true},
		{"one here and one there", []gputrain.Offer{one, dear}, gputrain.Spec{Nodes: 2, MinReady: 1, BudgetUSD: 3.5}, false},
		{"by the second", []gputrain.Offer{at("here", 1)}, gputrain.Spec{BudgetUSD: 0.01}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inCloud(t, sim.Options{Offers: tt.offers}, func(t *testing.T, c *simCloud) {
				p, err := c.open(t, tt.spec)
				if tt.works {
					if err != nil {
						t.Fatal(err)
					}
					c.end(t, p)
					return
				}
				if !errors.Is(err, gputrain.ErrBudget) || c.launches() > 0 {
					t.Errorf("%d machines, %v", c.launches(), err)
				}
			})
		})
	}
}

// A node that the budget cannot pay for is not launched, and who waits for it hears why.
func TestABudgetStopsGrowth(t *testing.T) {
	hourly := at("here", 1)
	hourly.BillingUnit = time.Hour
	inCloud(t, sim.Options{Offers: []gputrain.Offer{hourly}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{MaxNodes: 5, BudgetUSD: 2.5})
		if _, err := p.Gather(sleeps(5, "5m")...); err != nil {
			t.Error(err)
		}
		if n := c.launches(); n > 2 {
			t.Errorf("%d machines, each for a dollar", n)
		}
		if err := p.Resize(4); !errors.Is(err, gputrain.ErrBudget) {
			t.Errorf("resize: %v", err)
		}
		c.end(t, p)
		if usd := c.BilledUSD(""); usd > 2.5 {
			t.Errorf("billed $%v", usd)
		}
	})
	inCloud(t, sim.Options{Offers: []gputrain.Offer{hourly}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{BudgetUSD: 1.5})
		time.AfterFunc(time.Minute, func() { c.Vanish(p.Nodes()[0].ID) })
		if _, err := p.Run(gputrain.Cmd("sleep", "30m")); !errors.Is(err, gputrain.ErrBudget) {
			t.Errorf("a replacement that cannot be paid for: %v", err)
		}
		c.end(t, p)
	})
}

// What the pool says that it costs is what it is billed, machine by machine.
func TestCost(t *testing.T) {
	for _, unit := range []time.Duration{0, time.Minute, time.Hour} {
		t.Run(unit.String(), func(t *testing.T) {
			offer := at("here", 3)
			offer.BillingUnit = unit
			inCloud(t, sim.Options{Offers: []gputrain.Offer{offer}, BootTime: 30 * time.Second}, func(t *testing.T, c *simCloud) {
				p := c.pool(t, gputrain.Spec{Nodes: 2, Concurrency: 2, Lease: 10 * time.Minute})
				same := func(when string) {
					t.Helper()
					cost := p.Cost()
					var sum float64
					for _, n := range cost.Nodes {
						sum += n.USD
					}
					// The cloud bills whole seconds, where it has no unit.
					if billed := c.BilledUSD(p.ID()); math.Abs(billed-cost.USD) > 0.01 || math.Abs(sum-cost.USD) > 1e-9 || len(cost.Nodes) != c.launches() {
						t.Errorf("%s: $%v, by nodes $%v, billed $%v, %d nodes", when, cost.USD, sum, billed, len(cost.Nodes))
					}
				}
				same("at first")
				results, err := p.Gather(sleeps(4, "10m")...)
				for _, r := range results {
					if usd, known := r.CostUSD.USD(); !known || math.Abs(usd-0.25) > 1e-9 { // 10 minutes of half a node
						t.Errorf("a task cost %v", r.CostUSD)
					}
				}
				if err != nil {
					t.Error(err)
				}
				same("after tasks")
				cost := p.Cost()
				if !cost.Bounded || cost.HourlyUSD != 6 || unit < time.Hour && cost.AtMostUSD < cost.USD+2*3*10.0/60 || cost.AtMostUSD > cost.USD+2*3*1.2 {
					t.Errorf("%+v", cost)
				}
				c.Vanish(alive(t, p)[0])
				time.Sleep(20 * time.Minute)
				same("after a loss")
				if cost := p.Cost(); len(cost.Nodes) != 3 || cost.Nodes[0].To.IsZero() || !cost.Nodes[1].To.IsZero() {
					t.Errorf("%+v", cost.Nodes)
				}
				c.end(t, p)
				same("at the end")
			})
		})
	}
}

// Should the program die, its machines cost no more than it said.
func TestAtMost(t *testing.T) {
	for _, ttl := range []time.Duration{0, 12 * time.Minute} {
		inCloud(t, sim.Options{Offers: []gputrain.Offer{at("here", 6)}}, func(t *testing.T, c *simCloud) {
			p := c.pool(t, gputrain.Spec{Nodes: 2, Lease: 10 * time.Minute, TTL: ttl, BudgetUSD: 1.5, MaxReplacements: -1})
			time.Sleep(5 * time.Minute)
			cost := p.Cost()
			if over := max(cost.AtMostUSD-1.5, 0); math.Abs(cost.OverspendUSD-over) > 1e-9 {
				t.Errorf("$%v at most, and $%v more than the budget", cost.AtMostUSD, cost.OverspendUSD)
			}
			c.Outage(time.Now(), time.Hour) // as good as dead
			c.Cut(true)
			time.Sleep(30 * time.Minute)
			if usd := c.BilledUSD(""); c.machines() > 0 || usd > cost.AtMostUSD || !cost.Bounded {
				t.Errorf("billed $%v, %d machines are left; said at most $%v", usd, c.machines(), cost.AtMostUSD)
			}
			c.Calm()
			c.Cut(false)
			p.Close()
		})
	}
}

// A machine that has no lease yet is ended by nobody but Reap.
func TestCostWithoutALease(t *testing.T) {
	inCloud(t, sim.Options{BootTime: time.Minute, BootJitter: 5 * time.Minute}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 3, MinReady: 1})
		if cost := p.Cost(); cost.Bounded || cost.AtMostUSD != 0 {
			t.Errorf("while one boots: %+v", cost)
		}
		inTime(t, "ready", func() bool { return allReady(p) })
		if cost := p.Cost(); !cost.Bounded {
			t.Errorf("%+v", cost)
		}
		job := p.Start(gputrain.Task{Args: []string{"sleep", "1h"}, HoldsLease: true})
		time.Sleep(time.Minute)
		if cost := p.Cost(); cost.Bounded {
			t.Errorf("with a task that holds the lease: %+v", cost)
		}
		job.Cancel()
		job.Wait()
		c.end(t, p)
	})
}

func ExampleCost() {
	cost := gputrain.Cost{USD: 3, HourlyUSD: 12, AtMostUSD: 6.5, OverspendUSD: 1.5, Bounded: true}
	fmt.Printf("$%.2f so far, $%.2f at most\n", cost.USD, cost.AtMostUSD)
	// Output: $3.00 so far, $6.50 at most
}
