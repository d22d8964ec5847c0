package sim_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/sim"
)

// Each kind of fault that only this cloud has applies to the first launch of two machines. got
// machines are returned, live machines exist.
func TestLaunchUnderEachFault(t *testing.T) {
	tests := []struct {
		kind      sim.Kind
		got, live int
		err       error
	}{
		{sim.None, 2, 2, nil},
		{sim.Garbage, 2, 2, nil}, // repeated with the token
		{sim.Delay, 2, 2, nil},
		{sim.SlowAnswer, 2, 2, nil},
		{sim.WithID, 2, 2, driver.ErrUnavailable},
		{sim.Partial, 1, 1, nil},
		{sim.Duplicate, 2, 3, nil},
		{sim.Lag, 2, 2, nil},
		{sim.Overcharged, 2, 2, nil},
		{sim.NeverUp, 2, 2, nil},
		{sim.FailedBoot, 2, 2, nil},
		{sim.DeadSSH, 2, 2, nil},
	}
	for _, tt := range tests {
		t.Run(tt.kind.String(), func(t *testing.T) {
			inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
				d := open(t, c)
				req := request(t, d, "p", 2)
				c.Inject(sim.Fault{Op: sim.OpLaunch, Nth: 1, Kind: tt.kind, For: 10 * time.Second})
				start := time.Now()
				got, err := d.Launch(t.Context(), req)
				if len(got) != tt.got || count(c, "machine") != tt.live {
					t.Errorf("%d machines came back and %d are there; want %d and %d", len(got), count(c, "machine"), tt.got, tt.live)
				}
				if tt.err == nil && err != nil {
					t.Error(err)
				} else if tt.err != nil {
					cloudtest.Is(t, err, tt.err, "sim", "launch")
				}
				if doubles := c.Doubles(); len(doubles) > 0 {
					t.Errorf("doubles: %v", doubles)
				}
				time.Sleep(time.Second)
				var state driver.InstanceState
				if len(got) > 0 {
					found, err := d.Describe(t.Context(), got[0].ID)
					if err != nil {
						t.Fatal(err)
					}
					state = found[0].State
					listed, err := d.List(t.Context(), "p")
					if err != nil || (tt.kind == sim.Lag) != (len(listed) == 0) {
						t.Errorf("listed: %v, %v", listed, err)
					}
				}
				switch tt.kind {
				case sim.Delay, sim.SlowAnswer:
					if took := time.Since(start) - time.Second; took != 10*time.Second {
						t.Errorf("took %v", took)
					}
				case sim.Overcharged:
					asked, _ := req.Offer.HourlyUSD.USD()
					if usd, _ := got[0].Offer.HourlyUSD.USD(); usd != 2*asked {
						t.Errorf("$%v is charged for an offer of $%v", usd, asked)
					}
				case sim.NeverUp:
					time.Sleep(time.Hour)
					if found, err := d.Describe(t.Context(), got[0].ID); err != nil || found[0].State != driver.InstancePending {
						t.Errorf("%v, %v", found, err)
					}
				case sim.FailedBoot:
					if state != driver.InstanceFailed {
						t.Errorf("it is %v", state)
					}
				case sim.DeadSSH:
					if _, err := d.(driver.Dialer).Dial(t.Context(), got[0]); err == nil || state != driver.InstanceRunning {
						t.Errorf("it is %v, and dialing says %v", state, err)
					}
				case sim.Lag:
					if state != driver.InstancePending {
						t.Errorf("a machine that is not shown yet is %v", state)
					}
					time.Sleep(10 * time.Second)
					if listed, err := d.List(t.Context(), "p"); err != nil || len(listed) != 2 {
						t.Errorf("after the lag: %v, %v", listed, err)
					}
				}
			})
		})
	}
}

func TestATokenLaunchesOnce(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		req := request(t, d, "p", 2)
		first, err := d.Launch(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		again, err := d.Launch(t.Context(), req)
		if err != nil || fmt.Sprint(ids(first)) != fmt.Sprint(ids(again)) || count(c, "machine") != 2 {
			t.Errorf("%v, then %v, %v", ids(first), ids(again), err)
		}
		req.Nodes = req.Nodes[:1]
		_, err = d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, "sim", "launch")
	})
}

// A call takes effect even if its caller does not wait for the answer.
func TestLaunchWithoutItsCaller(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		req := request(t, d, "p", 1)
		c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.Delay, For: time.Minute})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := d.Launch(ctx, req)
		cloudtest.Is(t, err, driver.ErrUnavailable, "sim", "launch")
		if n := count(c, "machine"); n != 0 {
			t.Errorf("%d machines at once", n)
		}
		time.Sleep(2 * time.Minute)
		if n := count(c, "machine"); n != 1 {
			t.Errorf("%d machines in the end; want the one that was asked for", n)
		}
	})
}

// Both forms of garbage are errors.
func TestGarbage(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		got, err := d.Launch(t.Context(), request(t, d, "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		c.Inject(sim.Fault{Kind: sim.Garbage})
		for range 2 { // three reads in a round, so that each gets both
			_, err = d.List(t.Context(), "")
			cloudtest.Is(t, err, driver.ErrUnavailable, "sim", "list")
			_, err = d.Describe(t.Context(), got[0].ID)
			cloudtest.Is(t, err, driver.ErrUnavailable, "sim", "describe")
			for _, err := range d.Offers(t.Context(), driver.Query{}) {
				cloudtest.Is(t, err, driver.ErrUnavailable, "sim", "offers")
			}
		}
		c.Calm()
		if listed, err := d.List(t.Context(), ""); err != nil || len(listed) != 1 {
			t.Errorf("%v, %v", listed, err)
		}
	})
}

// An ignored terminate reports success, and can be repeated.
func TestTerminateIsIgnored(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		got, err := d.Launch(t.Context(), request(t, d, "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		c.Inject(sim.Fault{Op: sim.OpTerminate, Nth: 1, Count: 2, Kind: sim.Ignored})
		for _, live := range []int{1, 1, 0} {
			if err := d.Terminate(t.Context(), ids(got)...); err != nil || count(c, "machine") != live {
				t.Errorf("%d machines, %v; want %d", count(c, "machine"), err, live)
			}
		}
	})
}

// A fault can apply to one of the two calls of Prepare.
func TestPrepareAndRelease(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		c.Inject(sim.Fault{Op: sim.OpPrepare, Nth: 2, Kind: sim.ErrorBefore}, sim.Fault{Op: sim.OpRelease, Nth: 1, Kind: sim.Ignored})
		cloudtest.Is(t, d.Prepare(t.Context(), info("p")), driver.ErrUnavailable, "sim", "prepare")
		if count(c, "network") != 1 || count(c, "key") != 0 {
			t.Errorf("after half of it: %v", c.Live())
		}
		for range 2 {
			if err := d.Prepare(t.Context(), info("p")); err != nil {
				t.Fatal(err)
			}
		}
		listed, err := d.List(t.Context(), "p")
		if err != nil || len(listed) != 2 || listed[0].Pool != "p" || listed[0].Owner != info("p").Owner {
			t.Errorf("%v, %v", listed, err)
		}
		if err := d.Release(t.Context(), info("p")); err != nil || count(c, "network") != 1 {
			t.Errorf("ignored: %v, %v", err, c.Live())
		}
		got, err := d.Launch(t.Context(), request(t, d, "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Release(t.Context(), info("p")); err == nil {
			t.Error("a network was removed with a machine in it")
		}
		if err := d.Terminate(t.Context(), ids(got)...); err != nil {
			t.Error(err)
		}
		for range 2 {
			if err := d.Release(t.Context(), info("p")); err != nil || len(c.Live()) > 0 {
				t.Errorf("%v, left %v", err, c.Live())
			}
		}
	})
}

func TestOutage(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		c.Outage(time.Now().Add(time.Minute), time.Minute)
		list := func() error { _, err := d.List(t.Context(), ""); return err }
		if err := list(); err != nil {
			t.Error(err)
		}
		time.Sleep(90 * time.Second)
		cloudtest.Is(t, list(), driver.ErrUnavailable, "sim", "list")
		if _, err := (sim.Config{Cloud: c}).Open(t.Context()); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("open in an outage: %v", err)
		}
		time.Sleep(time.Minute)
		if err := list(); err != nil {
			t.Error(err)
		}
	})
}

// The same seed gives the same faults, whatever the IDs of the pools.
func TestASeedRepeatsItself(t *testing.T) {
	run := func(seed uint64) (log string) {
		inBubble(t, sim.Options{Seed: seed, Faults: []sim.Fault{sim.Random(seed, 0.3)}}, func(t *testing.T, c *sim.Cloud) {
			d := open(t, c)
			for i := range 30 {
				d.Prepare(t.Context(), info(fmt.Sprint("p", i)))
				d.List(t.Context(), "")
			}
			for _, call := range c.Log() {
				log += fmt.Sprint(call.Fault, " ")
			}
		})
		return log
	}
	if a, b := run(1), run(1); a != b {
		t.Errorf("once\n%s\nand once\n%s", a, b)
	}
	if run(1) == run(2) {
		t.Error("another seed brings the same")
	}
}

func TestLeasesAreMarked(t *testing.T) {
	inBubble(t, sim.Options{}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		got, err := d.Launch(t.Context(), request(t, d, "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		until := time.Now().Add(time.Hour)
		if err := d.(driver.LeaseMarker).MarkLease(t.Context(), info("p"), until, ids(got)...); err != nil {
			t.Fatal(err)
		}
		listed, err := d.List(t.Context(), "p")
		if err != nil || !listed[0].LeaseUntil.Equal(until) || listed[0].Lease != time.Minute || listed[0].Created.IsZero() {
			t.Errorf("%+v, %v", listed, err)
		}
		other := open(t, c)
		if err := other.Terminate(t.Context(), ids(got)...); err != nil {
			t.Fatal(err)
		}
		if touched := c.Touched("p"); len(touched) != 1 || touched[0].What != "terminated" {
			t.Errorf("touched: %v", touched)
		}
	})
}

func TestCapacityQuotaAndPrices(t *testing.T) {
	offers := []driver.Offer{{ID: "a", HourlyUSD: driver.USD(1), BillingUnit: time.Hour, Available: 3, Region: "r"}}
	inBubble(t, sim.Options{Offers: offers, Quota: 4}, func(t *testing.T, c *sim.Cloud) {
		d := open(t, c)
		got, err := d.Launch(t.Context(), request(t, d, "p", 2))
		if err != nil {
			t.Fatal(err)
		}
		more, err := d.Launch(t.Context(), request(t, d, "q", 2))
		cloudtest.Is(t, err, driver.ErrNoCapacity, "sim", "launch")
		if len(more) != 1 {
			t.Errorf("%d more", len(more))
		}
		for range d.Offers(t.Context(), driver.Query{}) {
			t.Error("an offer of which nothing is left")
		}
		time.Sleep(61 * time.Minute)
		if usd := c.BilledUSD("p"); usd != 4 {
			t.Errorf("two machines for 61 minutes cost $%v; whole hours make 4", usd)
		}
		if err := d.Terminate(t.Context(), ids(got)...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Hour)
		if usd := c.BilledUSD("p"); usd != 4 {
			t.Errorf("billed on: $%v", usd)
		}
		c.SetPrice("a", driver.Price{})
		for o := range d.Offers(t.Context(), driver.Query{}) {
			if _, known := o.HourlyUSD.USD(); known || o.Available != 2 {
				t.Errorf("%+v", o)
			}
		}
		c.SetOffers(driver.Offer{ID: "b", HourlyUSD: driver.USD(2)})
		_, err = d.Launch(t.Context(), request(t, d, "r", 5))
		cloudtest.Is(t, err, driver.ErrQuota, "sim", "launch")
	})
}

func TestAccountsAndTokens(t *testing.T) {
	inBubble(t, sim.Options{Token: "sk-sim-test"}, func(t *testing.T, c *sim.Cloud) {
		for _, token := range []driver.Secret{"wrong", "env://GPUTRAIN_NO_SUCH"} {
			_, err := sim.Config{Cloud: c, Token: token}.Open(t.Context())
			cloudtest.Is(t, err, driver.ErrAuth, "sim", "open")
		}
		var drivers []driver.Driver
		for _, account := range []string{"", "other"} {
			d, err := sim.Config{Cloud: c, Token: "sk-sim-test", Account: account}.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			drivers = append(drivers, d)
		}
		if a, b := drivers[0].Capabilities().Account, drivers[1].Capabilities().Account; a == b || a == "" {
			t.Errorf("accounts %q and %q", a, b)
		}
		got, err := drivers[0].Launch(t.Context(), request(t, drivers[0], "p", 1))
		if err != nil {
			t.Fatal(err)
		}
		if err := drivers[1].Terminate(t.Context(), ids(got)...); err != nil || count(c, "machine") != 1 {
			t.Errorf("another account ended it: %v", err)
		}
		if listed, err := drivers[1].List(t.Context(), ""); err != nil || len(listed) != 0 {
			t.Errorf("another account lists %v, %v", listed, err)
		}
	})
}
