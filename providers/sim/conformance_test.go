package sim_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
	"github.com/gputrain/gputrain/providers/sim"
)

const (
	once     = "the driver asks once, so that what a pool does about a fault can be seen"
	noAnswer = "this API has one answer that is none, and it is told as html"
	finds    = "this API finds what it lists"
)

// The suite passes in this program's cloud, without tokens and with list lag.
func TestConformance(t *testing.T) {
	providertest.RunInBubble(t, func(t *testing.T) providertest.Harness {
		h := harness(t, sim.Options{Token: "sk-sim-test", BootTime: time.Second, ListLag: 5 * time.Second, NoTokens: true, Exec: greet})
		h.Without["end to end with a function on each node"] = "functions need real processes: see TestConformanceOfRealMachines"
		for _, name := range []string{"ambiguous launch: garbage after it was done", "ambiguous launch: empty after it was done",
			"read that is never answered well: garbage", "read that is never answered well: empty", "read that is never answered well: huge",
			"read that is never answered well: astray", "terminate: html before it was done", "terminate: astray before it was done"} {
			h.Without[name] = noAnswer
		}
		return h
	})
}

// harness returns the harness of a cloud in this program.
func harness(t *testing.T, o sim.Options) providertest.Harness {
	o.TellsAccount = true
	c := sim.New(o)
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			for _, call := range c.Log() {
				t.Log(call)
			}
		}
	})
	cfg := sim.Config{Cloud: c, Token: o.Token}
	return providertest.Harness{
		Provider: cfg,
		Account:  c.Live,
		Calls: func(op providertest.Op) (n int) {
			for _, call := range c.Log() {
				if op == providertest.AnyOp || call.Op == op {
					n++
				}
			}
			return n
		},
		Fault: func(op providertest.Op, f providertest.Fault) func() { return inject(c, op, f) },
		Foreign: func() []string {
			d, err := sim.Config{Cloud: c, Token: o.Token, Account: "other"}.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			before := len(c.Live())
			if err := d.Prepare(t.Context(), info("other")); err != nil {
				t.Fatal(err)
			}
			if _, err := d.Launch(t.Context(), request(t, d, "other", 1)); err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, r := range c.Live() {
				if r.Pool == "other" {
					ids = append(ids, r.ID)
				}
			}
			if len(c.Live()) != before+3 {
				t.Fatal(c.Live())
			}
			return ids
		},
		States: func() []providertest.StateCase {
			must := func(f func(string) error) func(string) {
				return func(id string) {
					if err := f(id); err != nil {
						t.Error(err)
					}
				}
			}
			return []providertest.StateCase{
				{Vendor: "running", Set: func(string) {}, Want: driver.InstanceRunning},
				{Vendor: "preempted", Set: must(func(id string) error { return c.Preempt(id, 0) }), Want: driver.InstancePreempted},
				{Vendor: "preempted after a notice", Set: must(func(id string) error { return c.Preempt(id, time.Second) }), Want: driver.InstancePreempted},
				{Vendor: "vanished", Set: must(c.Vanish), Want: driver.InstanceTerminated},
				{Vendor: "failed", Set: must(c.Fail), Want: driver.InstanceFailed},
				{Vendor: "stopped", Set: must(c.Stop), Want: driver.InstanceStopped},
			}
		},
		Stall: func() { c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp}) },
		Room: func(n int) {
			if n == 0 {
				c.SetOffers()
				return
			}
			c.SetOffers(driver.Offer{HourlyUSD: driver.USD(1), InstanceType: "small", Available: n})
		},
		Funds: func(usd float64) {
			c.SetAccount(func(m *driver.Balance, _ *int) { *m = driver.Balance{Known: true, USD: usd} })
		},
		Allow:      func(n int) { c.SetAccount(func(_ *driver.Balance, quota *int) { *quota = cmp.Or(n, -1) }) },
		Tags:       c.Tags,
		Unpriced:   func() { c.SetOffers(driver.Offer{InstanceType: "small"}) },
		MissingKey: &providertest.MissingKey{Provider: sim.Config{Cloud: c}, Names: "Config.Token"},
		WrongKey:   sim.Config{Cloud: c, Token: "sk-wrong"},
		Secrets:    []string{"sk-sim-test"},
		Without: map[string]string{
			"Metered":                             "internal/test/e2e/recovery compares Cost with Cloud.BilledUSD",
			"PagedOffers":                         "all offers come in one page",
			"states that the table does not have": "this cloud's states are gputrain's",
			"calls that are redirected to another server":              "nothing is sent over a network: see TestConformanceOfRealMachines",
			"read that is answered well the second time: failed":       once,
			"read that is answered well the second time: unavailable":  once,
			"read that is answered well the second time: rate limited": once,
			"read that is answered well the second time: cut":          once,
			"read that is answered well the second time: html":         once,
			"read that is answered well the second time: empty":        once,
			"open that is answered well the second time: html":         once,
			"open that is answered well the second time: empty":        once,
			"read that waits for Retry-After":                          once,
			"open that is never answered well: empty":                  noAnswer,
			"terminate that is not done: empty":                        noAnswer,
			"terminate that does not find what has ended":              finds,
			"terminate that does not find what runs":                   finds,
		},
	}
}

// inject adds a fault of the suite to a cloud.
func inject(c *sim.Cloud, op providertest.Op, f providertest.Fault) func() {
	rule, ok := sim.FaultOf(op, f)
	if !ok {
		return nil
	}
	c.Inject(rule)
	return c.Calm
}
