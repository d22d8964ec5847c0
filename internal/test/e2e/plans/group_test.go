package plans

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// twoClouds runs a test with two clouds in virtual time. The first has the cheapest offer, the second the next one.
func twoClouds(t *testing.T, f func(t *testing.T, a, b *sim.Cloud, opts ...gputrain.Option)) {
	t.Helper()
	state := t.TempDir()
	bubble.Test(t, func(t *testing.T) {
		a := sim.New(sim.Options{Token: "sk-a", Exec: e2etest.Words, Offers: []gputrain.Offer{e2etest.OfferAt("a-1", 1), e2etest.OfferAt("a-3", 3)}})
		b := sim.New(sim.Options{Exec: e2etest.Words, Offers: []gputrain.Offer{e2etest.OfferAt("b-2", 2), e2etest.OfferAt("b-4", 4)}})
		f(t, a, b, gputrain.WithStateDir(state), gputrain.WithResultsDir(state))
		for _, c := range []*sim.Cloud{a, b} {
			if live := c.Live(); len(live) > 0 {
				t.Errorf("these resources are left: %v", live)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		}
	})
}

func in(a *sim.Cloud) sim.Config { return sim.Config{Cloud: a, Account: "first", Token: "sk-a"} }

func regions(p *gputrain.Compute) (all []string) {
	for _, n := range p.Nodes() {
		all = append(all, n.Region)
	}
	return all
}

// A pool rents from the cheapest member. A member without nodes of the pool is not called after its offers were read.
func TestCheapestRentsFromTheCheapest(t *testing.T) {
	twoClouds(t, func(t *testing.T, a, b *sim.Cloud, opts ...gputrain.Option) {
		p, err := gputrain.Open(t.Context(), gputrain.Cheapest(sim.Config{Cloud: b, Account: "second"}, in(a)), gputrain.Spec{Nodes: 2}, opts...)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(regions(p)); got != "[a-1 a-1]" {
			t.Errorf("rented in %s", got)
		}
		for _, n := range p.Nodes() {
			if !strings.HasPrefix(n.ID, "sim.") || !strings.HasSuffix(n.ID, "/i-"+fmt.Sprint(n.Rank+1)) || n.Provider != "sim" {
				t.Errorf("node %d is %q of %q", n.Rank, n.ID, n.Provider)
			}
		}
		b.Inject(sim.Fault{Kind: sim.Unavailable}) // it remains unavailable
		if r, err := p.Run(gputrain.Cmd("echo", "hello")); err != nil || string(r.Stdout) != "hello\n" {
			t.Errorf("%q, %v", r.Stdout, err)
		}
		time.Sleep(time.Hour)
		if err := p.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		for _, c := range b.Log() {
			if c.Op != sim.OpOpen && c.Op != sim.OpOffers {
				t.Errorf("the other cloud was asked: %v", c)
			}
		}
	})
}

func TestCheapestGoesOnWhereAMemberHasNoRoom(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault sim.Fault
	}{
		{"launch", sim.Fault{Op: sim.OpLaunch, Kind: sim.ErrorBefore}},
		{"prepare", sim.Fault{Op: sim.OpPrepare, Kind: sim.Unavailable}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			twoClouds(t, func(t *testing.T, a, b *sim.Cloud, opts ...gputrain.Option) {
				one := e2etest.OfferAt("b-2", 2)
				one.Available = 1
				b.SetOffers(one)
				a.Inject(tt.fault)
				c := sim.New(sim.Options{Exec: e2etest.Words, Offers: []gputrain.Offer{e2etest.OfferAt("c-5", 5)}})
				defer c.Close()
				p, err := gputrain.Open(t.Context(), gputrain.Cheapest(in(a), sim.Config{Cloud: b, Account: "second"}, sim.Config{Cloud: c, Account: "third"}), gputrain.Spec{Nodes: 2}, opts...)
				if err != nil {
					t.Fatal(err)
				}
				if got := fmt.Sprint(regions(p)); got != "[b-2 c-5]" {
					t.Errorf("rented in %s", got)
				}
				all, err := p.Broadcast(gputrain.Cmd("rank"))
				if err != nil || len(all) != 2 || string(all[0].Stdout)+string(all[1].Stdout) != "0\n1\n" {
					t.Errorf("%v, %v", all, err)
				}
				cost := p.Cost()
				if !cost.Bounded || cost.HourlyUSD != 7 {
					t.Errorf("%+v", cost)
				}
				if err := p.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
				if live := c.Live(); len(live) > 0 {
					t.Errorf("these resources are left: %v", live)
				}
			})
		})
	}
}

func TestGroupLeavesOutADeadMember(t *testing.T) {
	twoClouds(t, func(t *testing.T, a, b *sim.Cloud, opts ...gputrain.Option) {
		second := sim.Config{Cloud: b, Account: "second"}
		noKey := in(a)
		noKey.Token = ""
		group := gputrain.Cheapest(noKey, second)
		plan, err := gputrain.Plan(t.Context(), group, gputrain.Spec{})
		if err != nil || len(plan) != 3 || plan[0].Offer.Region != "b-2" || !strings.Contains(plan[2].Rejected, "Config.Token") || plan[2].Offer.Provider != "sim" {
			t.Errorf("%+v, %v", plan, err)
		}
		var told []error
		p, err := gputrain.Open(t.Context(), group, gputrain.Spec{}, append(opts, gputrain.WithEvents(func(e gputrain.Event) {
			if e.Kind == gputrain.EventTrouble && e.State == "member" {
				told = append(told, e.Err)
			}
		}))...)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(regions(p)); got != "[b-2]" {
			t.Errorf("rented in %s", got)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if len(told) != 1 || !errors.Is(told[0], gputrain.ErrAuth) {
			t.Errorf("the members reported as left out are %v", told)
		}

		_, err = gputrain.Open(t.Context(), gputrain.FirstOf(noKey, noKey), gputrain.Spec{}, opts...)
		if !errors.Is(err, gputrain.ErrAuth) {
			t.Errorf("with no member alive: %v", err)
		}
		b.SetOffers()
		_, err = gputrain.Open(t.Context(), group, gputrain.Spec{}, opts...)
		if !errors.Is(err, gputrain.ErrNoOffers) || !errors.Is(err, gputrain.ErrAuth) || !strings.Contains(err.Error(), "offers nothing") {
			t.Errorf("with nothing at the others: %v", err)
		}
		begun := time.Now()
		a.Inject(sim.Fault{Op: sim.OpOffers, Kind: sim.Unavailable}) // Open retries for a while
		_, err = gputrain.Open(t.Context(), gputrain.Cheapest(in(a), second, noKey), gputrain.Spec{}, opts...)
		if !errors.Is(err, gputrain.ErrUnavailable) || errors.Is(err, gputrain.ErrNoOffers) || time.Since(begun) < 20*time.Second {
			t.Errorf("with a member that does not answer now, after %v: %v", time.Since(begun), err)
		}
		a.Calm()
		var regions []string
		plan, err = gputrain.Plan(t.Context(), gputrain.Cheapest(in(a), second, noKey), gputrain.Spec{})
		for _, c := range plan {
			if strings.Contains(c.Rejected, "could not be asked") {
				c.Offer.Region = "error"
			}
			regions = append(regions, c.Offer.Region)
		}
		if err != nil {
			t.Error(err)
		}
		if !slices.Equal(regions, []string{"a-1", "a-3", "error"}) {
			t.Errorf("offers %v", regions)
		}
	})
}

func TestOpenRefusesAGroupThatMakesNoSense(t *testing.T) {
	for name, g := range map[string]gputrain.Provider{
		"empty":                gputrain.Cheapest(),
		"nil":                  gputrain.FirstOf(sim.Config{}, nil),
		"first of in cheapest": gputrain.Cheapest(gputrain.FirstOf(sim.Config{})),
	} {
		if _, err := gputrain.Open(t.Context(), g, gputrain.Spec{}, gputrain.WithStateDir(t.TempDir())); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// desert opens a pool with a node in each cloud, in a program that then dies, and returns its state.
func desert(t *testing.T, a, b gputrain.Provider, state string) (left string) {
	t.Helper()
	left = filepath.Join(state, "grave")
	m := newMortal(filepath.Join(state, "state"), left)
	all := func(gputrain.Offer) bool { return true }
	one := func(o gputrain.Offer) bool { return o.Region == "a-1" }
	ctx, cancel := context.WithCancel(t.Context())
	p, err := gputrain.Open(ctx, gputrain.Cheapest(mortalMember{m, a, one}, mortalMember{m, b, all}), gputrain.Spec{Nodes: 2, Lease: time.Hour},
		gputrain.WithStateDir(m.state), gputrain.WithName("deserted"), gputrain.WithResultsDir(state))
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(regions(p)); got != "[a-1 b-2]" {
		t.Errorf("rented in %s", got)
	}
	m.die("")
	<-m.buried
	cancel()
	p.Close() // its calls reach no cloud
	return left
}

func TestAttachAndReapOfAGroup(t *testing.T) {
	state := t.TempDir()
	run := func(name string, f func(t *testing.T, a, b gputrain.Provider, left string)) {
		t.Run(name, func(t *testing.T) {
			twoClouds(t, func(t *testing.T, a, b *sim.Cloud, _ ...gputrain.Option) {
				one := e2etest.OfferAt("a-1", 1)
				one.Available = 1
				a.SetOffers(one)
				first, second := in(a), sim.Config{Cloud: b, Account: "second"}
				f(t, first, second, desert(t, first, second, filepath.Join(state, name)))
			})
		})
	}
	run("attach", func(t *testing.T, a, b gputrain.Provider, left string) {
		for name, g := range map[string]gputrain.Provider{"a member": a, "the others": gputrain.Cheapest(b)} {
			if _, err := gputrain.Attach(t.Context(), g, "deserted", gputrain.WithStateDir(left)); err == nil {
				t.Errorf("attached by %s alone", name)
			}
		}
		p, err := gputrain.Attach(t.Context(), gputrain.Cheapest(b, a), "deserted", gputrain.WithStateDir(left)) // in another order
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(regions(p)); got != "[a-1 b-2]" {
			t.Errorf("attached to nodes in %s", got)
		}
		if all, err := p.Broadcast(gputrain.Cmd("rank")); err != nil || len(all) != 2 {
			t.Errorf("%v, %v", all, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	run("reap by the group", func(t *testing.T, a, b gputrain.Provider, left string) {
		ended, err := gputrain.StateDir(left).Reap(t.Context(), gputrain.Cheapest(a, b))
		if err != nil || len(ended) < 2 {
			t.Errorf("%v, %v", ended, err)
		}
	})
	run("reap by its members", func(t *testing.T, a, b gputrain.Provider, left string) {
		ended, err := gputrain.StateDir(left).Reap(t.Context(), b, a)
		if err != nil || len(ended) < 2 {
			t.Errorf("%v, %v", ended, err)
		}
	})
	run("reap by one after the other", func(t *testing.T, a, b gputrain.Provider, left string) {
		var leak *gputrain.LeakError
		ended, err := gputrain.StateDir(left).Reap(t.Context(), a)
		if !errors.As(err, &leak) || !slices.ContainsFunc(leak.Resources, func(r gputrain.Resource) bool { return r.Kind == "machine" && strings.HasPrefix(r.Provider, "sim") }) {
			t.Errorf("%v, %v", ended, err)
		}
		if known, err := gputrain.StateDir(left).Pools(); err != nil || len(known) != 1 {
			t.Errorf("the ledger is gone: %v, %v", known, err)
		}
		ended, err = gputrain.StateDir(left).Reap(t.Context(), b)
		if err != nil || len(ended) == 0 {
			t.Errorf("%v, %v", ended, err)
		}
		if known, err := gputrain.StateDir(left).Pools(); err != nil || len(known) != 0 {
			t.Errorf("ledgers: %v, %v", known, err)
		}
	})
}
