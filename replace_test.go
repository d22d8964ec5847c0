package gputrain_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/sim"
)

// However a machine goes, its task is done by another one, which has its rank.
func TestALostNodeIsReplaced(t *testing.T) {
	ways := map[string]func(c *simCloud, id string) error{
		"vanished":  func(c *simCloud, id string) error { return c.Vanish(id) },
		"preempted": func(c *simCloud, id string) error { return c.Preempt(id, 0) },
		"stopped":   func(c *simCloud, id string) error { return c.Stop(id) },
		"failed":    func(c *simCloud, id string) error { return c.Fail(id) },
		"cut off":   func(c *simCloud, id string) error { return c.Break(id) }, // the cloud says that it runs
	}
	for name, lose := range ways {
		t.Run(name, func(t *testing.T) {
			inCloud(t, sim.Options{BootTime: 20 * time.Second}, func(t *testing.T, c *simCloud) {
				p := c.pool(t, gputrain.Spec{Nodes: 2})
				before := alive(t, p)
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
				if after := alive(t, p); len(after) != 2 || after[0] != before[0] || after[1] == before[1] {
					t.Errorf("nodes %v became %v", before, after)
				}
				if n := c.machines(); n != 2 {
					t.Errorf("%d machines are paid for", n)
				}
				if price, _ := r.CostUSD.USD(); price < 10.9*0.2/60 {
					t.Errorf("11 minutes at $0.20 an hour cost $%v", price)
				}
				c.end(t, p)
			})
		})
	}
}

// A machine that is stopped before it has come up, as for want of credit, is not waited
// for until it would have had to be up.
func TestAMachineStoppedOnItsWayUpIsReplaced(t *testing.T) {
	inCloud(t, sim.Options{BootTime: 10 * time.Minute, ProvisionTimeout: time.Hour}, func(t *testing.T, c *simCloud) {
		time.AfterFunc(time.Minute, func() {
			if err := c.Stop(c.Machines("")[0].ID); err != nil {
				t.Error(err)
			}
		})
		began := time.Now()
		p := c.pool(t, gputrain.Spec{})
		if took := time.Since(began); took > 15*time.Minute {
			t.Errorf("it took %v", took)
		}
		if n := c.launches(); n != 2 || c.machines() != 1 {
			t.Errorf("%d machines were launched, and %d are paid for", n, c.machines())
		}
		c.end(t, p)
	})
}

// The place that failed is avoided, though it is cheaper.
func TestAReplacementIsElsewhere(t *testing.T) {
	inCloud(t, sim.Options{Offers: []gputrain.Offer{at("cheap", 0.1), at("dear", 0.2)}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{})
		if got := p.Nodes()[0].Region; got != "cheap" {
			t.Errorf("the first one is in %s", got)
		}
		c.Vanish(alive(t, p)[0])
		inTime(t, "replaced", func() bool { n := p.Nodes()[0]; return n.State == gputrain.NodeReady && n.Region == "dear" })
		c.end(t, p)
	})
}

// Machines that never come up are replaced as often as the spec says, with growing
// pauses, and then the pool says why.
func TestReplacementsHaveALimit(t *testing.T) {
	for _, limit := range []int{-1, 2} {
		inCloud(t, sim.Options{Faults: []sim.Fault{{Op: sim.OpLaunch, Kind: sim.NeverUp}}, ProvisionTimeout: time.Minute}, func(t *testing.T, c *simCloud) {
			_, err := c.open(t, gputrain.Spec{MaxReplacements: limit})
			if err == nil {
				t.Fatal("it came up")
			}
			if want := 1 + max(limit, 0); c.launches() != want {
				t.Errorf("limit %d: %d machines; want %d: %v", limit, c.launches(), want, err)
			}
			if n := len(c.Live()); n > 0 {
				t.Errorf("%d are left", n)
			}
		})
	}
}

// A node that was ready for long is lost anew: that does not count with what was before.
func TestALossLongAfterIsANewOne(t *testing.T) {
	for settled, want := range map[time.Duration]int{gputrain.SettledAfter + time.Minute: 6, time.Minute: 2} {
		inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
			p := c.pool(t, gputrain.Spec{MaxReplacements: 1})
			for range 5 {
				time.Sleep(settled)
				if n := p.Nodes()[0]; n.State == gputrain.NodeReady {
					c.Vanish(n.ID)
				}
			}
			time.Sleep(time.Minute)
			if got := c.launches(); got != want {
				t.Errorf("lost every %v: %d machines; want %d", settled, got, want)
			}
			_, err := p.Run(gputrain.Cmd("echo"))
			if want == 2 && !errors.Is(err, gputrain.ErrNodeLost) || want > 2 && err != nil {
				t.Errorf("lost every %v: %v", settled, err)
			}
			c.end(t, p)
		})
	}
}

// What is the user's own, or the account's, another machine does not mend.
func TestWhatIsNotReplaced(t *testing.T) {
	inCloud(t, sim.Options{Quota: 2}, func(t *testing.T, c *simCloud) {
		_, err := c.open(t, gputrain.Spec{Nodes: 3, Image: gputrain.Image{}})
		if !errors.Is(err, gputrain.ErrQuota) || c.launches() > 2 {
			t.Errorf("%d machines, %v", c.launches(), err)
		}
	})
	fails := func(context.Context, sim.Command) int { return 3 }
	inCloud(t, sim.Options{Exec: fails}, func(t *testing.T, c *simCloud) {
		_, err := c.open(t, gputrain.Spec{Image: gputrain.Image{Setup: []string{"make"}}})
		if !errors.Is(err, gputrain.ErrBootstrap) || c.launches() != 1 {
			t.Errorf("%d machines, %v", c.launches(), err)
		}
	})
}

// A broadcast is not done twice: its share on a lost node fails.
func TestABroadcastIsNotReplaced(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 3})
		lost := alive(t, p)[1]
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
		if !allReady(p) || len(alive(t, p)) != 3 {
			t.Errorf("%v", p.Nodes())
		}
		c.end(t, p)
	})
}

// While the provider does not answer, nothing is bought; afterwards it is.
func TestNothingIsBoughtDuringAnOutage(t *testing.T) {
	inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 2})
		job := p.Start(gputrain.Task{Args: []string{"sleep", "3h"}, Target: gputrain.OnRank(1)})
		time.Sleep(time.Minute)
		c.Outage(time.Now(), time.Hour)
		c.Vanish(alive(t, p)[1])
		time.Sleep(59 * time.Minute)
		if n := c.launches(); n != 2 {
			t.Errorf("%d machines were launched in the outage", n)
		}
		if r, err := job.Wait(); err != nil || r.Attempts != 2 {
			t.Errorf("%d attempts, %v", r.Attempts, err)
		}
		if n := c.launches(); n != 3 {
			t.Errorf("%d machines", n)
		}
		c.end(t, p)
	})
}

// A client that is offline gives nothing up and buys nothing: when it is back, all
// goes on.
func TestOfflineLosesNothing(t *testing.T) {
	for _, nodes := range []int{1, 3} {
		t.Run(strconv.Itoa(nodes), func(t *testing.T) {
			inCloud(t, sim.Options{}, func(t *testing.T, c *simCloud) {
				p := c.pool(t, gputrain.Spec{Nodes: nodes})
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
				if n := c.launches(); n != nodes {
					t.Errorf("%d machines", n)
				}
				c.end(t, p)
			})
		})
	}
}

// A machine that turns out dearer than it was offered ends at once, and the next
// candidate is taken.
func TestAnotherPriceThanOffered(t *testing.T) {
	inCloud(t, sim.Options{Offers: []gputrain.Offer{at("liar", 0.5), at("honest", 0.8)}}, func(t *testing.T, c *simCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.Overcharged, Factor: 3})
		p := c.pool(t, gputrain.Spec{MaxHourlyUSD: 1})
		if n := p.Nodes()[0]; n.Region != "honest" || c.machines() != 1 {
			t.Errorf("it is in %s, %d machines", n.Region, c.machines())
		}
		c.end(t, p)
	})
}

// A price that nobody knows is more than any limit, unless the spec says otherwise.
func TestUnknownPrices(t *testing.T) {
	for _, spec := range []gputrain.Spec{{MaxHourlyUSD: 1}, {BudgetUSD: 1}} {
		inCloud(t, sim.Options{Offers: []gputrain.Offer{at("here", 0.5)}}, func(t *testing.T, c *simCloud) {
			c.SetPrice("here", gputrain.Price{})
			if _, err := c.open(t, spec); !errors.Is(err, gputrain.ErrNoOffers) || c.launches() > 0 {
				t.Errorf("%d machines, %v", c.launches(), err)
			}
			spec.AllowUnknownPrice = true
			p := c.pool(t, spec)
			if cost := p.Cost(); cost.Unknown != 1 || cost.Bounded || cost.USD != 0 {
				t.Errorf("%+v", cost)
			}
			c.end(t, p)
		})
	}
}

// Spot where there is any, though on demand is cheaper, and on demand where there is none.
func TestSpotIfAvailable(t *testing.T) {
	spot := at("spot", 0.5)
	spot.Spot = true
	inCloud(t, sim.Options{Offers: []gputrain.Offer{at("demand", 0.4), spot}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Allocation: gputrain.SpotIfAvailable})
		first := p.Nodes()[0]
		if first.Region != "spot" {
			t.Errorf("it is %s", first.Region)
		}
		c.SetOffers(at("demand", 0.4))
		c.Preempt(first.ID, 0)
		inTime(t, "replaced", func() bool { n := p.Nodes()[0]; return n.State == gputrain.NodeReady && n.Region == "demand" })
		c.end(t, p)
	})
}

// A rank whose place was taken back waits for room, longer than for a machine that works.
func TestAReplacementWaitsForCapacity(t *testing.T) {
	inCloud(t, sim.Options{BootTime: 20 * time.Second}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 2})
		job := p.Start(gputrain.Task{Args: []string{"sleep", "10m"}, Target: gputrain.OnRank(1)})
		c.SetOffers() // nothing is left
		if err := c.Preempt(alive(t, p)[1], 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(gputrain.CapacityPatience - 3*time.Minute)
		c.SetOffers(at("here", 0.2))
		r, err := job.Wait()
		if err != nil || r.Attempts != 2 || r.Node.Rank != 1 {
			t.Errorf("%d attempts, on rank %d: %v", r.Attempts, r.Node.Rank, err)
		}
		if !allReady(p) || c.machines() != 2 {
			t.Errorf("%d machines", c.machines())
		}

		// Not for ever, though.
		time.Sleep(gputrain.SettledAfter)
		c.SetOffers()
		began := time.Now()
		job = p.Start(gputrain.Task{Args: []string{"sleep", "10m"}, Target: gputrain.OnRank(1)})
		if err := c.Preempt(alive(t, p)[1], 0); err != nil {
			t.Fatal(err)
		}
		_, err = job.Wait()
		if took := time.Since(began); !errors.Is(err, gputrain.ErrNodeLost) || !errors.Is(err, gputrain.ErrNoOffers) || took < gputrain.CapacityPatience || took > 2*gputrain.CapacityPatience {
			t.Errorf("after %v: %v", took, err)
		}
		if r, err := p.Run(gputrain.Cmd("true")); err != nil || r.Node.Rank != 0 {
			t.Errorf("the other node: rank %d, %v", r.Node.Rank, err)
		}
		c.end(t, p)
	})
}

// Nodes come from several offers where none has room for all, and nothing is rented
// where all of them together have not.
func TestNodesOfSeveralOffers(t *testing.T) {
	few := func(region string, usd float64) gputrain.Offer {
		o := at(region, usd)
		o.Available = 2
		return o
	}
	inCloud(t, sim.Options{Offers: []gputrain.Offer{few("here", 0.1), few("there", 0.2)}}, func(t *testing.T, c *simCloud) {
		p := c.pool(t, gputrain.Spec{Nodes: 4})
		regions := map[string]int{}
		for _, n := range p.Nodes() {
			regions[n.Region]++
		}
		if regions["here"] != 2 || regions["there"] != 2 {
			t.Errorf("it has nodes in %v", regions)
		}
		c.end(t, p)
		before := c.launches()
		if _, err := c.open(t, gputrain.Spec{Nodes: 5}); !errors.Is(err, gputrain.ErrNoCapacity) || c.launches() != before {
			t.Errorf("%d launches: %v", c.launches()-before, err)
		}
	})
}

// What was rented and is of no use counts, however it looks: waiting is for nothing else.
func TestReplacementsThatCostAreCounted(t *testing.T) {
	for _, kind := range []sim.Kind{sim.Overcharged, sim.FailedBoot} {
		inCloud(t, sim.Options{Offers: []gputrain.Offer{at("here", 0.5)}}, func(t *testing.T, c *simCloud) {
			p := c.pool(t, gputrain.Spec{MaxHourlyUSD: 1})
			c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Count: 1000, Kind: kind, Factor: 3})
			if err := c.Preempt(alive(t, p)[0], 0); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Hour)
			if n := c.launches(); n != 1+gputrain.DefaultReplacements {
				t.Errorf("%v: %d machines were launched", kind, n)
			}
			if _, err := p.Run(gputrain.Cmd("true")); !errors.Is(err, gputrain.ErrNodeLost) {
				t.Errorf("%v: %v", kind, err)
			}
			c.end(t, p)
		})
	}
}

// A machine that has other accelerators than its offer said is ended and replaced, and
// its place comes last from then on.
func TestOtherGPUsThanOffered(t *testing.T) {
	gpus := func(region string, usd float64) gputrain.Offer {
		o := at(region, usd)
		o.Accelerator = accelerators.A100(accelerators.Count(2), accelerators.Memory(80))
		return o
	}
	inCloud(t, sim.Options{Offers: []gputrain.Offer{gpus("liar", 0.5), gpus("honest", 0.8)}}, func(t *testing.T, c *simCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: sim.OtherGPUs})
		p := c.pool(t, gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))})
		if n := p.Nodes()[0]; n.Region != "honest" || c.machines() != 1 || c.launches() != 2 {
			t.Errorf("it is in %s, %d machines of %d", n.Region, c.machines(), c.launches())
		}
		told := false
		for _, e := range c.events() {
			told = told || e.Kind == gputrain.EventNode && e.Err != nil && strings.Contains(e.Err.Error(), "it has 0: Tesla K80, 11441, Tesla K80")
		}
		if !told {
			t.Error("nobody was told what the machine had")
		}
		c.end(t, p)
	})
}
