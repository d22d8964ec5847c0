package recovery

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// after changes the cloud after a time.
func after(d time.Duration, change func()) { time.AfterFunc(d, change) }

// Open waits for room, for quota and for a price, and asks at a bearable pace.
func TestWaitForCapacity(t *testing.T) {
	limit := gputrain.Spec{Nodes: 2, WaitForCapacity: 6 * time.Hour, MaxHourlyUSD: 2}
	for name, tt := range map[string]struct {
		options sim.Options
		become  func(*e2etest.SimCloud)
		says    string
	}{
		"room":  {sim.Options{Offers: []gputrain.Offer{}}, func(c *e2etest.SimCloud) { c.SetOffers(e2etest.OfferAt("here", 1)) }, "offers nothing"},
		"quota": {sim.Options{Quota: 1}, func(c *e2etest.SimCloud) { c.SetAccount(func(_ *driver.Balance, quota *int) { *quota = 2 }) }, "quota"},
		"a quota that is told": {
			sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("here", 1)}, Quota: 1, TellsAccount: true}, func(c *e2etest.SimCloud) { c.SetAccount(func(_ *driver.Balance, quota *int) { *quota = 2 }) }, "the account may have 1 machines",
		},
		"price": {
			sim.Options{Offers: []gputrain.Offer{e2etest.OfferAt("here", 3)}}, func(c *e2etest.SimCloud) { c.SetPrice("here", driver.USD(2)) }, "MaxHourlyUSD is $2.00",
		},
		"stock": {
			sim.Options{Offers: []gputrain.Offer{available(1)}}, func(c *e2etest.SimCloud) { c.SetOffers(available(1)) }, "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, tt.options, func(t *testing.T, c *e2etest.SimCloud) {
				begun := time.Now()
				spec := limit
				if name == "stock" { // one comes after the other
					spec.MinReady = 1
				}
				after(3*time.Hour, func() { tt.become(c) })
				p := c.Pool(t, spec)
				if name == "stock" {
					e2etest.WithinVirtualTime(t, "the second node", func() bool { n := p.Nodes(); return len(n) == 2 && n[1].State == gputrain.NodeReady })
				}
				if waited := time.Since(begun); waited < 3*time.Hour || waited > 3*time.Hour+3*time.Minute {
					t.Errorf("it waited %v", waited)
				}
				if n := c.CountEvents(gputrain.EventWait, "capacity"); n < 1 || n > 19 {
					t.Errorf("%d events about that", n)
				}
				for _, e := range c.Events() {
					if e.State == "capacity" && (!strings.Contains(e.Err.Error(), tt.says) || e.Until.Before(begun.Add(6*time.Hour)) || e.Elapsed > 4*time.Hour) {
						t.Errorf("%+v: want %s", e, tt.says)
					}
				}
				asked := 0
				for _, call := range c.Log() {
					if call.Op == sim.OpOffers {
						asked++
					}
				}
				if asked > 110 {
					t.Errorf("it asked %d times in three hours", asked)
				}
				c.CloseAndCheck(t, p)
			})
		})
	}
}

func available(n int) gputrain.Offer {
	o := e2etest.OfferAt("here", 1)
	o.Available = n
	return o
}

// A wait ends with its time, with the reason for which it waited, or with the caller's context. Nothing is left.
func TestWaitForCapacityEnds(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{}}, func(t *testing.T, c *e2etest.SimCloud) {
		begun := time.Now()
		_, err := c.Open(t, gputrain.Spec{WaitForCapacity: time.Hour})
		if waited := time.Since(begun); !errors.Is(err, gputrain.ErrNoOffers) || waited != time.Hour {
			t.Errorf("after %v: %v", waited, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		_, err = gputrain.Open(ctx, sim.Config{Cloud: c.Cloud}, gputrain.Spec{WaitForCapacity: 6 * time.Hour}, gputrain.WithStateDir(c.State))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "waiting for capacity") {
			t.Errorf("%v", err)
		}
		begun = time.Now()
		if _, err := c.Open(t, gputrain.Spec{}); !errors.Is(err, gputrain.ErrNoOffers) || time.Since(begun) > time.Second {
			t.Errorf("without a wait, after %v: %v", time.Since(begun), err)
		}
		if n := c.CountLaunches() + len(c.Live()); n > 0 {
			t.Errorf("%d things were made", n)
		}
	})
}

// What no wait can mend fails at once.
func TestWaitForNothing(t *testing.T) {
	for name, o := range map[string]sim.Options{
		"a wrong key": {Token: "right"}, "no money": {TellsAccount: true},
	} {
		e2etest.InCloud(t, o, func(t *testing.T, c *e2etest.SimCloud) {
			c.SetAccount(func(money *driver.Balance, _ *int) { money.Known = true })
			begun := time.Now()
			_, err := c.Open(t, gputrain.Spec{WaitForCapacity: time.Hour})
			if !errors.Is(err, gputrain.ErrAuth) && !errors.Is(err, gputrain.ErrBalance) || time.Since(begun) > time.Minute {
				t.Errorf("%s: %v after %v", name, err, time.Since(begun))
			}
		})
	}
}

// A pool without nodes opens when nothing is free, and its first task waits for a node as long as the spec says.
func TestOpenWithoutNodesWhenNothingIsFree(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 2, WaitForCapacity: time.Hour})
		after(20*time.Minute, func() { c.SetOffers(e2etest.OfferAt("here", 1)) })
		begun := time.Now()
		if r, err := p.Run(gputrain.Cmd("rank")); err != nil || string(r.Stdout) != "0\n" || time.Since(begun) < 20*time.Minute {
			t.Errorf("after %v: %q, %v", time.Since(begun), r.Stdout, err)
		}
		c.CloseAndCheck(t, p)
	})
}

// A lost node's replacement waits too, longer than without WaitForCapacity.
func TestReplacementWaits(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{WaitForCapacity: 6 * time.Hour})
		c.SetOffers()
		c.Preempt(p.Nodes()[0].ID, 0)
		after(5*time.Hour, func() { c.SetOffers(e2etest.OfferAt("here", 1)) })
		if r, err := p.Run(gputrain.Cmd("rank")); err != nil || string(r.Stdout) != "0\n" {
			t.Errorf("%q, %v", r.Stdout, err)
		}
		c.CloseAndCheck(t, p)
	})
}

// The machine of a pool of several accelerators is checked against the one that it has.
func TestAnyOf(t *testing.T) {
	h100, t4 := e2etest.OfferAt("h100", 3), e2etest.OfferAt("t4", 1)
	h100.Accelerator, t4.Accelerator = accelerators.H100(), accelerators.T4()
	h100.Available = 1
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{h100, t4}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{
			Nodes: 2, AnyOf: []accelerators.Accelerator{accelerators.H100(), accelerators.T4()}, Speed: map[string]float64{"H100": 9, "T4": 1},
		})
		got := map[string]int{}
		for _, n := range p.Nodes() {
			got[n.Accelerator.Name]++
		}
		if got["H100"] != 1 || got["T4"] != 1 {
			t.Errorf("%v", got)
		}
		c.CloseAndCheck(t, p)
	})
}

// A machine that takes longer than Spec.ProvisionTimeout is ended, and another one rented.
func TestProvisionTimeout(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp, Nth: 1})
		begun := time.Now()
		p := c.Pool(t, gputrain.Spec{ProvisionTimeout: 3 * time.Minute})
		if waited := time.Since(begun); waited < 3*time.Minute || waited > 4*time.Minute {
			t.Errorf("open took %v", waited)
		}
		c.CloseAndCheck(t, p)
	})
}

// If no task needs the node any more, nothing is rented when there is room at last.
func TestWaitForATaskThatIsGone(t *testing.T) {
	e2etest.InCloud(t, sim.Options{Offers: []gputrain.Offer{}}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{MaxNodes: 3, WaitForCapacity: 6 * time.Hour})
		var jobs []*gputrain.Job
		for range 3 {
			jobs = append(jobs, p.Start(gputrain.Cmd("rank")))
		}
		after(time.Hour, func() { jobs[0].Cancel(); jobs[1].Cancel() })
		after(2*time.Hour, func() { c.SetOffers(e2etest.OfferAt("here", 1)) })
		if r, err := jobs[2].Wait(); err != nil || string(r.Stdout) != "0\n" {
			t.Errorf("%q, %v", r.Stdout, err)
		}
		if n := c.CountLaunches(); n != 1 {
			t.Errorf("%d machines were launched for one task", n)
		}
		c.CloseAndCheck(t, p)
	})
}

// Some places accept a machine and have no room for it afterwards: that is waited for, too, and no longer than it may be.
func TestWaitForCapacityAfterTheCreate(t *testing.T) {
	for name, room := range map[string]time.Duration{"there is room": 2 * time.Hour, "there is none": 100 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
				begun := time.Now()
				w := &e2etest.Wrapped{OnDescribe: func(found []driver.Instance) ([]driver.Instance, error) {
					for i := range found {
						if time.Since(begun) < room && found[i].State <= driver.InstanceRunning {
							found[i].State, found[i].StateReason = driver.InstanceFailed, "no_capacity"
						}
					}
					return found, nil
				}, OnLaunch: func(ctx context.Context, req driver.Launch, d driver.Driver) ([]driver.Instance, error) {
					got, err := d.Launch(ctx, req)
					for i := range got {
						got[i].State = driver.InstancePending
					}
					return got, err
				}}
				p, err := c.OpenWrapped(t.Context(), t, w, gputrain.Spec{WaitForCapacity: 6 * time.Hour})
				took := time.Since(begun)
				if room < 6*time.Hour {
					if err != nil || took < room || took > room+5*time.Minute {
						t.Fatalf("after %v: %v", took, err)
					}
					c.CloseAndCheck(t, p)
				} else if !errors.Is(err, gputrain.ErrNoCapacity) || took < 6*time.Hour || took > 6*time.Hour+10*time.Minute {
					t.Errorf("after %v: %v", took, err)
				}
				if live := c.Live(); len(live) > 0 {
					t.Errorf("left: %v", live)
				}
			})
		})
	}
}

// Resize returns once the end of the surplus was accepted.
func TestResizeEndsTheSurplus(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		w := &e2etest.Wrapped{OnTerminate: func([]string) error {
			time.Sleep(20 * time.Second)
			return nil
		}}
		p, err := c.OpenWrapped(t.Context(), t, w, gputrain.Spec{Nodes: 3})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Resize(1); err != nil {
			t.Error(err)
		}
		machines := 0
		for _, r := range c.Live() {
			if r.Kind == "machine" {
				machines++
			}
		}
		if machines != 1 {
			t.Errorf("Resize has returned, and there are %d machines", machines)
		}
		c.CloseAndCheck(t, p)
	})
}
