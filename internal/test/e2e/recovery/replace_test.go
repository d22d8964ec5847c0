package recovery

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// Limits that Spec.MaxReplacements documents.
const (
	settledAfter     = 10 * time.Minute
	capacityPatience = 30 * time.Minute
)

// However a machine is lost, a replacement with the same rank runs its task.
func TestALostNodeIsReplaced(t *testing.T) {
	ways := map[string]func(c *e2etest.SimCloud, id string) error{
		"vanished":  func(c *e2etest.SimCloud, id string) error { return c.Vanish(id) },
		"preempted": func(c *e2etest.SimCloud, id string) error { return c.Preempt(id, 0) },
		"stopped":   func(c *e2etest.SimCloud, id string) error { return c.Stop(id) },
		"failed":    func(c *e2etest.SimCloud, id string) error { return c.Fail(id) },
		"cut off":   func(c *e2etest.SimCloud, id string) error { return c.Break(id) }, // the cloud says that it runs
	}
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{BootTime: 20 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
				p := c.Pool(t, gputrain.Spec{Nodes: 2})
				before := e2etest.Alive(t, p)
				began := time.Now()
				job := p.Start(gputrain.Task{Args: []string{"sleep", "10m"}, Target: gputrain.OnRank(1)})
				time.Sleep(time.Minute)
				if err := lose(c, before[1]); err != nil {
					t.Fatal(err)
				}
				r, err := job.Wait()
				if err != nil || r.Attempts != 2 || r.Node.Rank != 1 || r.Node.ID == before[1] {
					t.Errorf("%d attempts, the last on %s of rank %d: %v", r.Attempts, r.Node.ID, r.Node.Rank, err)
				}
				if took := time.Since(began); took > 15*time.Minute {
					t.Errorf("it took %v", took)
				}
				if after := e2etest.Alive(t, p); len(after) != 2 || after[0] != before[0] || after[1] == before[1] {
					t.Errorf("nodes %v became %v", before, after)
				}
				if n := c.CountMachines(); n != 2 {
					t.Errorf("%d machines are paid for", n)
				}
				if price, _ := r.CostUSD.USD(); price < 10.9*0.2/60 {
					t.Errorf("11 minutes at $0.20 an hour cost $%v", price)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// A machine that is stopped before it has come up, for example for lack of credit, is replaced at once, not after the
// provisioning timeout.
func TestAMachineStoppedOnItsWayUpIsReplaced(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: 10 * time.Minute, ProvisionTimeout: time.Hour}, func(t *testing.T, c *e2etest.SimCloud) {
		time.AfterFunc(time.Minute, func() {
			if err := c.Stop(c.Machines("")[0].ID); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		p := c.Pool(t, gputrain.Spec{})
		if took := time.Since(began); took > 15*time.Minute {
			t.Errorf("it took %v", took)
		}
		if n := c.CountLaunches(); n != 2 || c.CountMachines() != 1 {
			t.Errorf("%d machines were launched, and %d are paid for", n, c.CountMachines())
		}
		c.CloseAndCheck(t, p)
	})
}

// A replacement avoids the offer that failed, even if that offer is cheaper.
func TestAReplacementIsElsewhere(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("cheap", 0.1), e2etest.OfferAt("dear", 0.2)}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{})
		if got := p.Nodes()[0].Region; got != "cheap" {
			t.Errorf("the first one is in %s", got)
		}
		c.Vanish(e2etest.Alive(t, p)[0])
		e2etest.WithinVirtualTime(t, "replaced", func() bool { n := p.Nodes()[0]; return n.State == gputrain.NodeReady && n.Region == "dear" })
		c.CloseAndCheck(t, p)
	})
}

// Machines that never come up are replaced as often as the spec allows, with growing pauses. Then the pool reports why.
func TestReplacementsHaveALimit(t *testing.T) {
	for _, limit := range []int{-1, 2} {
		e2etest.InCloud(t, sim.Options{Faults: []sim.Fault{{Op: sim.OpLaunch, Kind: sim.NeverUp}}, ProvisionTimeout: time.Minute}, func(t *testing.T, c *e2etest.SimCloud) {
			_, err := c.Open(t, gputrain.Spec{MaxReplacements: limit})
			if err == nil {
				t.Fatal("the pool opened")
			}
			if want := 1 + max(limit, 0); c.CountLaunches() != want {
				t.Errorf("limit %d: %d machines; want %d: %v", limit, c.CountLaunches(), want, err)
			}
			if n := len(c.Live()); n > 0 {
				t.Errorf("%d machines are left", n)
			}
		})
	}
}

// The loss of a node that was ready for a long time does not count together with earlier losses.
func TestALossLongAfterIsANewOne(t *testing.T) {
	for settled, want := range map[time.Duration]int{settledAfter + time.Minute: 6, time.Minute: 2} {
		e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
			p := c.Pool(t, gputrain.Spec{MaxReplacements: 1})
			for range 5 {
				time.Sleep(settled)
				if n := p.Nodes()[0]; n.State == gputrain.NodeReady {
					c.Vanish(n.ID)
				}
			}
			time.Sleep(time.Minute)
			if got := c.CountLaunches(); got != want {
				t.Errorf("lost every %v: %d machines; want %d", settled, got, want)
			}
			_, err := p.Run(gputrain.Cmd("echo"))
			if want == 2 && !errors.Is(err, gputrain.ErrNodeLost) || want > 2 && err != nil {
				t.Errorf("lost every %v: %v", settled, err)
			}
			c.CloseAndCheck(t, p)
		})
	}
}

// A failure that another machine would not fix, of a quota or the user's own setup, causes no replacement.
func TestWhatIsNotReplaced(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Quota: 2}, func(t *testing.T, c *e2etest.SimCloud) {
		_, err := c.Open(t, gputrain.Spec{Nodes: 3, Image: gputrain.Image{}})
		if !errors.Is(err, gputrain.ErrQuota) || c.CountLaunches() > 2 {
			t.Errorf("%d machines, %v", c.CountLaunches(), err)
		}
	})
	fails := func(context.Context, sim.Command) int { return 3 }
	e2etest.InCloud(t, sim.Options{Exec: fails}, func(t *testing.T, c *e2etest.SimCloud) {
		_, err := c.Open(t, gputrain.Spec{Image: gputrain.Image{Setup: []string{"make"}}})
		if !errors.Is(err, gputrain.ErrBootstrap) || c.CountLaunches() != 1 {
			t.Errorf("%d machines, %v", c.CountLaunches(), err)
		}
	})
}

// A broadcast is not repeated: its share on a lost node fails.
func TestABroadcastIsNotReplaced(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 3})
		lost := e2etest.Alive(t, p)[1]
		time.AfterFunc(time.Minute, func() { c.Vanish(lost) })
		results, err := p.Broadcast(gputrain.Cmd("sleep", "5m"))
		if !errors.Is(err, gputrain.ErrNodeLost) || len(results) != 3 {
			t.Fatalf("%d results, %v", len(results), err)
		}
		for i, r := range results {
			if (r.Err != nil) != (i == 1) || r.Attempts != 1 {
				t.Errorf("share %d in %d attempts: %v", i, r.Attempts, r.Err)
			}
		}
		if !e2etest.AllReady(p) || len(e2etest.Alive(t, p)) != 3 {
			t.Errorf("%v", p.Nodes())
		}
		c.CloseAndCheck(t, p)
	})
}

// While the provider does not answer, nothing is rented. Afterwards the node is replaced.
func TestNothingIsBoughtDuringAnOutage(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		job := p.Start(gputrain.Task{Args: []string{"sleep", "3h"}, Target: gputrain.OnRank(1)})
		time.Sleep(time.Minute)
		c.Outage(time.Now(), time.Hour)
		c.Vanish(e2etest.Alive(t, p)[1])
		time.Sleep(59 * time.Minute)
		if n := c.CountLaunches(); n != 2 {
			t.Errorf("%d machines were launched in the outage", n)
		}
		if r, err := job.Wait(); err != nil || r.Attempts != 2 {
			t.Errorf("%d attempts, %v", r.Attempts, err)
		}
		if n := c.CountLaunches(); n != 3 {
			t.Errorf("%d machines", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// A client that is offline gives no node up and rents nothing. When it is back, everything continues.
func TestOfflineLosesNothing(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
				p := c.Pool(t, gputrain.Spec{Nodes: nodes})
				var jobs []*gputrain.Job
				for range nodes {
					jobs = append(jobs, p.Start(gputrain.Cmd("sleep", "1h")))
				}
				time.Sleep(time.Minute)
				c.Outage(time.Now(), 10*time.Minute)
				c.Cut(true)
				time.Sleep(10*time.Minute + 20*time.Second) // the provider answers first
				c.Cut(false)
				for _, job := range jobs {
					if r, err := job.Wait(); err != nil || r.Attempts != 1 {
						t.Errorf("%d attempts, %v", r.Attempts, err)
					}
				}
				if n := c.CountLaunches(); n != nodes {
					t.Errorf("%d machines", n)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

// A machine that costs more than its offer is ended at once, and the next candidate is rented.
func TestAnotherPriceThanOffered(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("liar", 0.5), e2etest.OfferAt("honest", 0.8)}}, func(t *testing.T, c *e2etest.SimCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.Overcharged, Factor: 3})
		p := c.Pool(t, gputrain.Spec{MaxHourlyUSD: 1})
		if n := p.Nodes()[0]; n.Region != "honest" || c.CountMachines() != 1 {
			t.Errorf("it is in %s, %d machines", n.Region, c.CountMachines())
		}
		c.CloseAndCheck(t, p)
	})
}

// An unknown price exceeds any limit, unless the spec allows it.
func TestUnknownPrices(t *testing.T) {
	for _, spec := range []gputrain.Spec{{MaxHourlyUSD: 1}, {BudgetUSD: 1}} {
		e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("here", 0.5)}}, func(t *testing.T, c *e2etest.SimCloud) {
			c.SetPrice("here", gputrain.Price{})
			if _, err := c.Open(t, spec); !errors.Is(err, gputrain.ErrNoOffers) || c.CountLaunches() > 0 {
				t.Errorf("%d machines, %v", c.CountLaunches(), err)
			}
			spec.AllowUnknownPrice = true
			p := c.Pool(t, spec)
			if cost := p.Cost(); cost.Unknown != 1 || cost.Bounded || cost.USD != 0 {
				t.Errorf("%+v", cost)
			}
			c.CloseAndCheck(t, p)
		})
	}
}

// SpotIfAvailable rents a spot machine, and on demand if there is none, or if that is cheaper.
func TestSpotIfAvailable(t *testing.T) {
	spot := e2etest.OfferAt("spot", 0.4)
	spot.Spot = true
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("demand", 0.4), spot}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Allocation: gputrain.SpotIfAvailable})
		first := p.Nodes()[0]
		if first.Region != "spot" {
			t.Errorf("it is %s", first.Region)
		}
		c.SetOffers(e2etest.OfferAt("demand", 0.4))
		c.Preempt(first.ID, 0)
		e2etest.WithinVirtualTime(t, "replaced", func() bool { n := p.Nodes()[0]; return n.State == gputrain.NodeReady && n.Region == "demand" })
		c.CloseAndCheck(t, p)
	})
}

// The replacement of a preempted node waits for capacity, longer than it would wait for a machine to come up.
func TestAReplacementWaitsForCapacity(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: 20 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 2})
		job := p.Start(gputrain.Task{Args: []string{"sleep", "10m"}, Target: gputrain.OnRank(1)})
		c.SetOffers() // no capacity is left
		if err := c.Preempt(e2etest.Alive(t, p)[1], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(capacityPatience - 3*time.Minute)
		c.SetOffers(e2etest.OfferAt("here", 0.2))
		r, err := job.Wait()
		if err != nil || r.Attempts != 2 || r.Node.Rank != 1 {
			t.Errorf("%d attempts, on rank %d: %v", r.Attempts, r.Node.Rank, err)
		}
		if !e2etest.AllReady(p) || c.CountMachines() != 2 {
			t.Errorf("%d machines", c.CountMachines())
		}

		// The wait has a limit.
		time.Sleep(settledAfter)
		c.SetOffers()
		began := time.Now()
		job = p.Start(gputrain.Task{Args: []string{"sleep", "10m"}, Target: gputrain.OnRank(1)})
		if err := c.Preempt(e2etest.Alive(t, p)[1], 0); err != nil {
			t.Fatal(err)
		}
		_, err = job.Wait()
		if took := time.Since(began); !errors.Is(err, gputrain.ErrNodeLost) || !errors.Is(err, gputrain.ErrNoOffers) || took < capacityPatience || took > 2*capacityPatience {
			t.Errorf("after %v: %v", took, err)
		}
		if r, err := p.Run(gputrain.Cmd("true")); err != nil || r.Node.Rank != 0 {
			t.Errorf("the other node: rank %d, %v", r.Node.Rank, err)
		}
		c.CloseAndCheck(t, p)
	})
}

// Nodes come from several offers if none has capacity for all. If all together have too little, none is rented.
func TestNodesOfSeveralOffers(t *testing.T) {
	few := func(region string, usd float64) gputrain.Offer {
		o := e2etest.OfferAt(region, usd)
		o.Available = 2
		return o
	}
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{few("here", 0.1), few("there", 0.2)}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 4})
		regions := map[string]int{}
		for _, n := range p.Nodes() {
			regions[n.Region]++
		}
		if regions["here"] != 2 || regions["there"] != 2 {
			t.Errorf("it has nodes in %v", regions)
		}
		c.CloseAndCheck(t, p)
		before := c.CountLaunches()
		if _, err := c.Open(t, gputrain.Spec{Nodes: 5}); !errors.Is(err, gputrain.ErrNoCapacity) || c.CountLaunches() != before {
			t.Errorf("%d launches: %v", c.CountLaunches()-before, err)
		}
	})
}

// A machine that was rented and is useless counts as a replacement. Only a lack of capacity is waited for.
func TestReplacementsThatCostAreCounted(t *testing.T) {
	for _, kind := range []sim.Kind{sim.Overcharged, sim.FailedBoot} {
		e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("here", 0.5)}}, func(t *testing.T, c *e2etest.SimCloud) {
			p := c.Pool(t, gputrain.Spec{MaxHourlyUSD: 1})
			c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Count: 1000, Kind: kind, Factor: 3})
			if err := c.Preempt(e2etest.Alive(t, p)[0], 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n := c.CountLaunches(); n != 1+3 {
				t.Errorf("%v: %d machines were launched", kind, n)
			}
			if _, err := p.Run(gputrain.Cmd("true")); !errors.Is(err, gputrain.ErrNodeLost) {
				t.Errorf("%v: %v", kind, err)
			}
			c.CloseAndCheck(t, p)
		})
	}
}

// A machine with other accelerators than its offer is ended and replaced, and its offer is tried last from then on.
func TestOtherGPUsThanOffered(t *testing.T) {
	gpus := func(region string, usd float64) gputrain.Offer {
		o := e2etest.OfferAt(region, usd)
		o.Accelerator = accelerators.A100(accelerators.Count(2), accelerators.Memory(80))
		return o
	}
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{gpus("liar", 0.5), gpus("honest", 0.8)}}, func(t *testing.T, c *e2etest.SimCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.OtherGPUs})
		p := c.Pool(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))})
		if n := p.Nodes()[0]; n.Region != "honest" || c.CountMachines() != 1 || c.CountLaunches() != 2 {
			t.Errorf("it is in %s, %d machines of %d", n.Region, c.CountMachines(), c.CountLaunches())
		}
		told := false
		for _, e := range c.Events() {
			told = told || e.Kind == gputrain.EventNode && e.Err != nil && strings.Contains(e.Err.Error(), "it has 0: Tesla K80, 11441, Tesla K80")
		}
		if !told {
			t.Error("no event reports the machine's accelerators")
		}
		c.CloseAndCheck(t, p)
	})
}
