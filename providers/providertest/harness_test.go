package providertest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

const (
	token       = "sk-sim-test"
	foreignPool = "other"
)

// leadsTo is where the redirects of a *sim.Cloud lead.
var leadsTo sync.Map

// harness is a simulated cloud behind a provider with a flaw.
func harness(t *testing.T, f flaw) Harness {
	c := sim.New(sim.Options{Token: token, BootTime: time.Second, ListLag: 5 * time.Second, NoTokens: true, Exec: func(_ context.Context, cmd sim.Command) int {
		fmt.Fprintln(cmd.Stdout, strings.Join(cmd.Args[1:], " "))
		return 0
	}})
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	with := func(cfg sim.Config) gputrain.Provider {
		return provider{Config: cfg, Regions: []string{"sim-east"}, flaw: f}
	}
	const elsewhere = "providers/sim runs it"
	h := Harness{
		Provider: with(sim.Config{Cloud: c, Token: token}),
		Account:  c.Live,
		Calls: func(op Op) (n int) {
			for _, call := range c.Log() {
				if op == AnyOp || call.Op == sim.Op(op) {
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
			kind, ok := map[Fault]sim.Kind{
				{Kind: Failed}: sim.ErrorBefore, {Kind: Failed, After: true}: sim.ErrorAfter,
				{Kind: Unavailable}: sim.Unavailable, {Kind: Cut}: sim.Refused, {Kind: Cut, After: true}: sim.Lost,
				{Kind: RateLimited}: sim.RateLimited, {Kind: Undone}: sim.Ignored, {Kind: HTML}: sim.Garbage, {Kind: HTML, After: true}: sim.Garbage,
				{Kind: Redirected}: sim.ErrorBefore, // to the driver: where it leads, only a flaw looks
				{Kind: Hang}:       sim.Delay, {Kind: Hang, After: true}: sim.SlowAnswer,
			}[Fault{Kind: f.Kind, After: f.After}]
			if !ok {
				return nil
			}
			rule := sim.Fault{Op: sim.Op(op), Nth: 1, Count: f.Times, Kind: kind, For: f.RetryAfter}
			if f.Kind == Hang {
				rule.For = time.Hour
			}
			if f.Times < 0 {
				rule.Nth = 0
			}
			c.Inject(rule)
			return c.Calm
		},
		Foreign: func() (ids []string) {
			d, err := sim.Config{Cloud: c, Token: token, Account: foreignPool}.Open(t.Context())
			if err == nil {
				err = d.Prepare(t.Context(), gputrain.PoolInfo{ID: foreignPool})
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
				{Vendor: "preempted", Set: func(id string) { c.Preempt(id, 0) }, Want: gputrain.InstancePreempted},
				{Vendor: hibernated, Set: func(id string) { c.Stop(id) }, Want: gputrain.InstanceUnknown},
			}
		},
		Stall: func() { c.Inject(sim.Fault{Op: sim.OpLaunch, Kind: sim.NeverUp}) },
		Room: func(n int) {
			c.SetOffers(gputrain.Offer{InstanceType: "small", HourlyUSD: gputrain.USD(1), Available: n})
		},
		Unpriced:    func() { c.SetOffers(gputrain.Offer{InstanceType: "small"}) },
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
