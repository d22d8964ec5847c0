package recovery

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A pool ends its tasks collectTime before its budget is spent: see Spec.BudgetUSD.
const collectTime = 2 * time.Minute

// A spent budget ends the tasks first, leaves time to collect results, and then ends the pool, before the bill exceeds
// the budget, whatever the billing unit.
func TestBudget(t *testing.T) {
	for _, unit := range []time.Duration{0, time.Minute, time.Hour} {
		t.Run(unit.String(), func(t *testing.T) {
			offer := e2etest.OfferAt("here", 1)
			offer.BillingUnit = unit
			e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{offer}, BootTime: 100 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
				const budget = 5.5
				p := c.Pool(t, gputrain.Spec{Nodes: 2, BudgetUSD: budget})
				_, err := p.Gather(sleeps(2, "10h")...)
				if !errors.Is(err, gputrain.ErrBudget) {
					t.Errorf("the tasks: %v", err)
				}
				if _, err := p.Run(gputrain.Cmd("echo")); !errors.Is(err, gputrain.ErrBudget) {
					t.Errorf("another task: %v", err)
				}
				time.Sleep(collectTime / 2)
				if n := c.CountMachines(); n != 2 {
					t.Errorf("%d machines while there is time to collect", n)
				}
				time.Sleep(collectTime)
				if n := c.CountMachines(); n != 0 {
					t.Errorf("%d machines after that", n)
				}
				billed := c.BilledUSD(p.ID())
				if billed > budget || unit != time.Hour && billed < budget*0.98 || billed < 4 {
					t.Errorf("billed $%v of $%v", billed, budget)
				}
				if _, err := p.Run(gputrain.Cmd("echo")); !errors.Is(err, gputrain.ErrBudget) || !errors.Is(err, gputrain.ErrClosed) {
					t.Errorf("a task after the end: %v", err)
				}
				if n := c.CountEvents(gputrain.EventPool, "spent"); n != 1 {
					t.Errorf("the spent budget is reported %d times", n)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// A pool that the budget cannot pay for is refused before anything is rented.
func TestABudgetThatIsTooSmall(t *testing.T) {
	hourly := e2etest.OfferAt("here", 1)
	hourly.BillingUnit = time.Hour
	one, dear := hourly, e2etest.OfferAt("dear", 3)
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
		{"by the second", []gputrain.Offer{e2etest.OfferAt("here", 1)}, gputrain.Spec{BudgetUSD: 0.01}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{Offers: tt.offers}, func(t *testing.T, c *e2etest.SimCloud) {
				p, err := c.Open(t, tt.spec)
				if tt.works {
					if err != nil {
						t.Fatal(err)
					}
					c.CloseAndCheck(t, p)
					return
				}
				if !errors.Is(err, gputrain.ErrBudget) || c.CountLaunches() > 0 {
					t.Errorf("%d machines, %v", c.CountLaunches(), err)
				}
			})
		})
	}
}

// A node that the budget cannot pay for is not launched, and a caller that waits for it gets the reason.
func TestABudgetStopsGrowth(t *testing.T) {
	hourly := e2etest.OfferAt("here", 1)
	hourly.BillingUnit = time.Hour
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{hourly}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 5, BudgetUSD: 2.5})
		if _, err := p.Gather(sleeps(5, "5m")...); err != nil {
			t.Error(err)
		}
		if n := c.CountLaunches(); n > 2 {
			t.Errorf("%d machines, each for a dollar", n)
		}
		if err := p.Resize(4); !errors.Is(err, gputrain.ErrBudget) {
			t.Errorf("resize: %v", err)
		}
		c.CloseAndCheck(t, p)
		if usd := c.BilledUSD(""); usd > 2.5 {
			t.Errorf("billed $%v", usd)
		}
	})
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{hourly}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{BudgetUSD: 1.5})
		time.AfterFunc(time.Minute, func() { c.Vanish(p.Nodes()[0].ID) })
		if _, err := p.Run(gputrain.Cmd("sleep", "30m")); !errors.Is(err, gputrain.ErrBudget) {
			t.Errorf("a replacement that cannot be paid for: %v", err)
		}
		c.CloseAndCheck(t, p)
	})
}

// The reported cost of a pool equals the bill, also for each machine.
func TestCost(t *testing.T) {
	for _, unit := range []time.Duration{0, time.Minute, time.Hour} {
		t.Run(unit.String(), func(t *testing.T) {
			offer := e2etest.OfferAt("here", 3)
			offer.BillingUnit = unit
			e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{offer}, BootTime: 30 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
				p := c.Pool(t, gputrain.Spec{Nodes: 2, Concurrency: 2, Lease: 10 * time.Minute})
				same := func(when string) {
					t.Helper()
					cost := p.Cost()
					var sum float64
					for _, n := range cost.Nodes {
						sum += n.USD
					}
					// Without a billing unit, the cloud bills whole seconds.
					if billed := c.BilledUSD(p.ID()); math.Abs(billed-cost.USD) > 0.01 || math.Abs(sum-cost.USD) > 1e-9 || len(cost.Nodes) != c.CountLaunches() {
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
				c.Vanish(e2etest.Alive(t, p)[0])
				time.Sleep(20 * time.Minute)
				same("after a loss")
				if cost := p.Cost(); len(cost.Nodes) != 3 || cost.Nodes[0].To.IsZero() || !cost.Nodes[1].To.IsZero() {
					t.Errorf("%+v", cost.Nodes)
				}
				c.CloseAndCheck(t, p)
				same("at the end")
			})
		})
	}
}

// If the program dies, its machines cost at most AtMostUSD.
func TestAtMost(t *testing.T) {
	for _, ttl := range []time.Duration{0, 12 * time.Minute} {
		e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("here", 6)}}, func(t *testing.T, c *e2etest.SimCloud) {
			p := c.Pool(t, gputrain.Spec{Nodes: 2, Lease: 10 * time.Minute, TTL: ttl, BudgetUSD: 1.5, MaxReplacements: -1})
			time.Sleep(5 * time.Minute)
			cost := p.Cost()
			if over := max(cost.AtMostUSD-1.5, 0); math.Abs(cost.OverspendUSD-over) > 1e-9 {
				t.Errorf("$%v at most, and $%v more than the budget", cost.AtMostUSD, cost.OverspendUSD)
			}
			c.Outage(time.Now(), time.Hour) // as if the program were dead
			c.Cut(true)
			time.Sleep(30 * time.Minute)
			if usd := c.BilledUSD(""); c.CountMachines() > 0 || usd > cost.AtMostUSD || !cost.Bounded {
				t.Errorf("billed $%v, %d machines are left; said at most $%v", usd, c.CountMachines(), cost.AtMostUSD)
			}
			c.Calm()
			c.Cut(false)
			p.Close()
		})
	}
}

// The cost is not bounded while a machine has no lease, since only Reap would end it.
func TestCostWithoutALease(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: time.Minute, BootJitter: 5 * time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 3, MinReady: 1})
		if cost := p.Cost(); cost.Bounded || cost.AtMostUSD != 0 {
			t.Errorf("while a machine boots: %+v", cost)
		}
		e2etest.WithinVirtualTime(t, "ready", func() bool { return e2etest.AllReady(p) })
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
		c.CloseAndCheck(t, p)
	})
}

func ExampleCost() {
	cost := gputrain.Cost{USD: 3, HourlyUSD: 12, AtMostUSD: 6.5, OverspendUSD: 1.5, Bounded: true}
	fmt.Printf("$%.2f so far, $%.2f at most\n", cost.USD, cost.AtMostUSD)
	// Output: $3.00 so far, $6.50 at most
}
