package providertest

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

const (
	token       = "sk-sim-test"
	foreignPool = "other"
)

// leadsTo holds the target of redirects, by *sim.Cloud.
var leadsTo sync.Map

// harness returns the harness of a simulated cloud whose provider has a flaw.
func harness(t *testing.T, f flaw) Harness {
	c := sim.New(sim.Options{Token: token, TellsAccount: true, BootTime: time.Second, ListLag: 5 * time.Second, NoTokens: true, Exec: func(_ context.Context, cmd sim.Command) int {
		fmt.Fprintln(cmd.Stdout, strings.Join(cmd.Args[1:], " "))
		return 0
	}})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	with := func(cfg sim.Config) driver.Provider {
		return provider{Config: cfg, Regions: []string{"sim-east"}, flaw: f}
	}
	const elsewhere = "providers/sim runs it"
	h := Harness{
		Provider: with(sim.Config{Cloud: c, Token: token}),
		Account:  c.Live,
		Calls: func(op Op) (n int) {
			for _, call := range c.Log() {
				if op == AnyOp || call.Op == op {
					n++
				}
			}
			return n
		},
		Fault: func(op Op, f Fault) func() {
			leadsTo.Store(c, f.To)
			if f.Kind == Missing {
				return findNothing(c)
			}
			if f.Kind == Redirected { // sim's driver sees a failure: only a flaw follows the redirect
				f.Kind = Failed
			}
			rule, ok := sim.FaultOf(op, f)
			if !ok {
				return nil
			}
			c.Inject(rule)
			return c.Calm
		},
		Foreign: func() (ids []string) {
			d, err := sim.Config{Cloud: c, Token: token, Account: foreignPool}.Open(t.Context())
			if err == nil {
				err = d.Prepare(t.Context(), driver.PoolInfo{ID: foreignPool})
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range c.Live() {
				if r.Pool == foreignPool {
					ids = append(ids, r.ID)
				}
			}
			return ids
		},
		States: func() []StateCase {
			return []StateCase{
				{Vendor: "preempted", Set: func(id string) { c.Preempt(id, 0) }, Want: driver.InstancePreempted},
				{Vendor: "running", Set: func(string) {}, Want: driver.InstanceRunning},
				{Vendor: "failed", Set: func(id string) { c.Fail(id) }, Want: driver.InstanceFailed},
				{Vendor: hibernated, Set: func(id string) { c.Stop(id) }, Want: driver.InstanceUnknown},
			}
		},
		Stall: func() { c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp}) },
		Room: func(n int) {
			c.SetOffers(driver.Offer{InstanceType: "small", HourlyUSD: driver.USD(1), Available: n})
		},
		Funds: func(usd float64) {
			c.SetAccount(func(m *driver.Balance, _ *int) { *m = driver.Balance{Known: true, USD: usd} })
		},
		Allow:    func(n int) { c.SetAccount(func(_ *driver.Balance, quota *int) { *quota = cmp.Or(n, -1) }) },
		Tags:     c.Tags,
		Unpriced: func() { c.SetOffers(driver.Offer{InstanceType: "small"}) },
		Metered: func() (driver.Provider, func() float64) {
			return with(sim.Config{Cloud: c, Token: token}), func() float64 { return c.BilledUSD("") }
		},
		PagedOffers: true,
		MissingKey:  &MissingKey{Provider: with(sim.Config{Cloud: c}), Names: "Config.Token"},
		WrongKey:    with(sim.Config{Cloud: c, Token: "sk-wrong"}),
		Secrets:     []string{token},
		Without: map[string]string{
			"end to end with a function on each node": "functions need real processes",
			"launch of what there is no room for":     elsewhere,
		},
	}
	for _, name := range []string{"ambiguous launch: unavailable after it was done", "ambiguous launch: garbage after it was done", "ambiguous launch: empty after it was done",
		"read that is never answered well: garbage", "read that is never answered well: empty", "read that is never answered well: huge",
		"terminate that is not done: empty", "open that is answered well the second time: empty", "open that is never answered well: empty",
		"read that is answered well the second time: empty", "read that is never answered well: astray", "terminate: html before it was done", "terminate: astray before it was done"} {
		h.Without[name] = elsewhere
	}
	return h
}
