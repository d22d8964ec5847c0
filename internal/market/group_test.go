package market_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// two is a group of two simulated clouds, with a pool.
type two struct {
	a, b *sim.Cloud
	driver.Driver
	info driver.PoolInfo

	mu       sync.Mutex
	recorded []driver.Resource
}

// inTwo runs a test with a group, in virtual time.
func inTwo(t *testing.T, f func(t *testing.T, g *two)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		exec := func(context.Context, sim.Command) int { return 0 }
		g := &two{
			a: sim.New(sim.Options{Name: "cloud-a", Exec: exec, Offers: []driver.Offer{at("a-1", 1), at("a-3", 3)}}),
			b: sim.New(sim.Options{Name: "cloud-b", Exec: exec, Offers: []driver.Offer{at("b-2", 2), at("b-4", 4)}}),
		}
		defer g.a.Close()
		defer g.b.Close()
		var err error
		if g.Driver, err = market.Cheapest(sim.Config{Cloud: g.a}, sim.Config{Cloud: g.b}).Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		g.info = driver.PoolInfo{ID: "pool", Owner: "host/1/2", Lease: time.Hour}.WithRecord(func(r driver.Resource) error {
			g.mu.Lock()
			defer g.mu.Unlock()
			g.recorded = append(g.recorded, r)
			return nil
		})
		if err := g.Prepare(t.Context(), g.info); err != nil {
			t.Fatal(err)
		}
		f(t, g)
	})
}

// offers returns the group's offers by region.
func (g *two) offers(t *testing.T) map[string]driver.Offer {
	t.Helper()
	all := map[string]driver.Offer{}
	for o, err := range g.Offers(t.Context(), driver.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all[o.Region] = o
	}
	return all
}

// launch launches one machine in a region.
func (g *two) launch(ctx context.Context, t *testing.T, region, name string) (string, error) {
	t.Helper()
	got, err := g.Launch(ctx, driver.Launch{Pool: g.info, Offer: g.offers(t)[region], Nodes: []driver.NodeRequest{{Name: name}}, Token: name})
	if len(got) == 0 {
		return "", err
	}
	return got[0].ID, err
}

// calls counts the calls of a cloud.
func calls(c *sim.Cloud, ops ...sim.Op) (n int) {
	for _, call := range c.Log() {
		if slices.Contains(ops, call.Op) {
			n++
		}
	}
	return n
}

func TestGroupOffers(t *testing.T) {
	inTwo(t, func(t *testing.T, g *two) {
		offers := g.offers(t)
		caps := g.Capabilities()
		if len(offers) != 4 || len(caps.Accounts) != 2 {
			t.Fatalf("%v of %v", offers, caps.Accounts)
		}
		for region, other := range map[string]string{"a-1": "a-3", "b-2": "b-4"} {
			o := offers[region]
			if o.Provider != "sim" || caps.Accounts[o.Account] == nil || o.Account != offers[other].Account || o.Capabilities == nil || caps.Of(o).Account == caps.Account {
				t.Errorf("%s: %+v", region, o)
			}
		}
		if offers["a-1"].Account == offers["b-2"].Account {
			t.Error("two accounts have one key")
		}
		id, err := g.launch(t.Context(), t, "b-2", "n-0")
		if err != nil || !strings.HasPrefix(id, offers["b-2"].Account+"/") {
			t.Errorf("launched %q, %v", id, err)
		}
		got, err := g.Describe(t.Context(), id)
		if err != nil || len(got) != 1 || got[0].Offer.Account != offers["b-2"].Account || got[0].Offer.Region != "b-2" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := g.Describe(t.Context(), id, "other/i-1"); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("of no member: %v", err)
		}
		if _, err := g.Launch(t.Context(), driver.Launch{Offer: at("a-1", 1)}); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("of no offer: %v", err)
		}
	})
}

func TestGroupOrdersWhatItsMembersOffer(t *testing.T) {
	a := provided{name: "a", d: &shop{offers: []driver.Offer{at("a-1", 1), at("a-3", 3)}}}
	b := provided{name: "b", d: &shop{offers: []driver.Offer{at("b-2", 2), at("b-4", 4)}}}
	for name, tt := range map[string]struct {
		group driver.Provider
		want  string
	}{
		"cheapest":             {market.Cheapest(a, b), "a-1 b-2 a-3 b-4"},
		"first of":             {market.FirstOf(b, a), "b-2 b-4 a-1 a-3"},
		"cheapest of cheapest": {market.Cheapest(market.Cheapest(b), a), "a-1 b-2 a-3 b-4"},
		"first of cheapest":    {market.FirstOf(market.Cheapest(b, a), a), "a-1 b-2 a-3 b-4 a-1 a-3"},
		"first of first of":    {market.FirstOf(market.FirstOf(b), a), "b-2 b-4 a-1 a-3"},
	} {
		d, err := tt.group.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		found, err := market.New(tt.group.Name(), d, market.Wants{}).Candidates(t.Context())
		if got := strings.Join(regions(found.Offers), " "); got != tt.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, tt.want)
		}
	}
}

func TestGroupThatMakesNoSense(t *testing.T) {
	for name, g := range map[string]driver.Provider{
		"empty": market.Cheapest(), "nil": market.FirstOf(sim.Config{}, nil), "first of in cheapest": market.Cheapest(market.FirstOf(sim.Config{})),
	} {
		if _, err := g.Open(t.Context()); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := market.Flatten(g); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s, taken apart: %v", name, err)
		}
	}
}

// A member is not asked about a pool until a machine is launched there.
func TestGroupAsksNoOtherMember(t *testing.T) {
	inTwo(t, func(t *testing.T, g *two) {
		id, err := g.launch(t.Context(), t, "a-1", "n-0")
		if err != nil {
			t.Fatal(err)
		}
		g.info.Made = g.recorded
		if listed, err := g.List(t.Context(), "pool"); err != nil || !slices.ContainsFunc(listed, func(r driver.Resource) bool { return r.ID == id }) {
			t.Errorf("%v, %v", listed, err)
		}
		if err := errors.Join(g.Terminate(t.Context(), id), g.Release(t.Context(), g.info)); err != nil {
			t.Error(err)
		}
		if n := calls(g.b, sim.OpPrepare, sim.OpLaunch, sim.OpDescribe, sim.OpList, sim.OpTerminate, sim.OpRelease); n > 0 {
			t.Errorf("the other member was called %d times: %v", n, g.b.Log())
		}
		if _, err := g.List(t.Context(), ""); err != nil || calls(g.b, sim.OpList) != 1 {
			t.Errorf("the lists of all pools: %v", err)
		}
	})
}

// A member is prepared at the first launch there, after its account was recorded. It is prepared
// again after the pool's lease, and after Prepare.
func TestGroupPreparesAtLaunch(t *testing.T) {
	inTwo(t, func(t *testing.T, g *two) {
		each := 0 // calls
		want := func(n int) {
			t.Helper()
			if got := calls(g.a, sim.OpPrepare); got != n*each {
				t.Errorf("%d calls to prepare, want %d times %d", got, n, each)
			}
		}
		launch := func(name string) {
			t.Helper()
			if _, err := g.launch(t.Context(), t, "a-1", name); err != nil {
				t.Error(err)
			}
		}
		want(0)
		launch("n-0")
		if each = calls(g.a, sim.OpPrepare); each == 0 {
			t.Error("not prepared")
		}
		if r := g.recorded[0]; r.Kind != market.SharedKind || r.Account != g.offers(t)["a-1"].Account || r.ID != "" {
			t.Errorf("recorded %+v first", r)
		}
		last := g.recorded[len(g.recorded)-1]
		if last.Kind != market.SharedKind || last.ID == "" {
			t.Errorf("recorded %+v last", last)
		}
		launch("n-1")
		want(1)
		time.Sleep(time.Hour)
		launch("n-2")
		want(2)
		g.info.Made = g.recorded
		if err := g.Prepare(t.Context(), g.info); err != nil {
			t.Error(err)
		}
		want(2)
		launch("n-3")
		want(3)
	})
}

// Concurrent launches prepare a member once. A member whose Prepare hangs delays no other.
func TestGroupPreparesSideBySide(t *testing.T) {
	inTwo(t, func(t *testing.T, g *two) {
		g.a.Inject(sim.Fault{Op: sim.OpPrepare, Kind: sim.SlowAnswer, For: time.Minute, Nth: 1})
		var launching sync.WaitGroup
		for i := range 4 {
			launching.Go(func() {
				if _, err := g.launch(t.Context(), t, "a-1", fmt.Sprintf("a-%d", i)); err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		begun := time.Now()
		if _, err := g.launch(t.Context(), t, "b-2", "b-0"); err != nil || time.Since(begun) > time.Second {
			t.Errorf("after %v: %v", time.Since(begun), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := g.launch(ctx, t, "a-3", "a-9")
		if _, unprepared := errors.AsType[*market.PrepareError](err); !unprepared || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("cut short: %v", err)
		}
		launching.Wait()
		if n, once := calls(g.a, sim.OpPrepare), calls(g.b, sim.OpPrepare); n != once {
			t.Errorf("%d calls to prepare, want %d", n, once)
		}
	})
}

// If a member cannot be prepared, nothing is launched there. The others are not affected.
func TestGroupThatCannotPrepareAMember(t *testing.T) {
	inTwo(t, func(t *testing.T, g *two) {
		for _, kind := range []sim.Kind{sim.ErrorBefore, sim.Lost} {
			g.a.Inject(sim.Fault{Op: sim.OpPrepare, Kind: kind})
			id, err := g.launch(t.Context(), t, "a-1", "n-0")
			if _, unprepared := errors.AsType[*market.PrepareError](err); !unprepared || id != "" {
				t.Errorf("%q, %v", id, err)
			}
			g.a.Calm()
		}
		if n := calls(g.a, sim.OpLaunch); n > 0 {
			t.Errorf("launched %d times", n)
		}
		g.info.Made = g.recorded
		if err := g.Prepare(t.Context(), g.info); err != nil {
			t.Errorf("of the pool: %v", err)
		}
		if _, err := g.launch(t.Context(), t, "b-2", "n-0"); err != nil {
			t.Errorf("at the other: %v", err)
		}
		g.recorded = nil
		if _, err := g.launch(t.Context(), t, "a-1", "n-1"); err != nil {
			t.Errorf("when it can be prepared: %v", err)
		}
		if last := g.recorded[len(g.recorded)-1]; last.Kind == market.SharedKind && last.ID != "" {
			t.Errorf("recorded %+v as made, and an earlier call may still make something", last)
		}
		full := errors.New("the ledger's disk is full")
		before := calls(g.b, sim.OpPrepare)
		g.info = g.info.WithRecord(func(driver.Resource) error { return full })
		time.Sleep(time.Hour)
		if _, err := g.launch(t.Context(), t, "b-2", "n-2"); !errors.Is(err, full) || calls(g.b, sim.OpPrepare) != before {
			t.Errorf("unrecorded: %v", err)
		}
	})
}

// Another program resumes the members that the records name, even if an earlier version wrote the records.
func TestGroupResume(t *testing.T) {
	inTwo(t, func(t *testing.T, g *two) {
		key := g.offers(t)["a-1"].Account
		id, err := g.launch(t.Context(), t, "a-1", "n-0")
		if err != nil {
			t.Fatal(err)
		}
		for name, made := range map[string][]driver.Resource{
			"by its machine": nil, "by its record": g.recorded, "by an old record": {{Provider: "sim", Account: key, Kind: market.SharedKind, Name: key}},
		} {
			again, err := market.FirstOf(sim.Config{Cloud: g.b}, sim.Config{Cloud: g.a}).Open(t.Context()) // in another order
			if err != nil {
				t.Fatal(err)
			}
			info := g.info
			info.Made = made
			ids := []string{id}
			if made != nil {
				ids = nil
			}
			before := calls(g.b, sim.OpList)
			if err := again.(driver.Resumer).Resume(t.Context(), info, ids...); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			listed, err := again.List(t.Context(), "pool")
			if err != nil || !slices.ContainsFunc(listed, func(r driver.Resource) bool { return r.ID == id }) || calls(g.b, sim.OpList) != before {
				t.Errorf("%s: %v, %v", name, listed, err)
			}
			again.Close()
		}
		alone, err := market.Cheapest(sim.Config{Cloud: g.b}).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer alone.Close()
		info := g.info
		info.Made = g.recorded
		if err := alone.(driver.Resumer).Resume(t.Context(), info); !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), key) {
			t.Errorf("without the member: %v", err)
		}
	})
}

// A provided is a provider with one driver.
type provided struct {
	driver.Provider
	name string
	d    driver.Driver
}

func (p provided) Name() string                                { return p.name }
func (p provided) Open(context.Context) (driver.Driver, error) { return p.d, nil }

// A group's member is used even if only some of its own sources answer.
func TestGroupOfPartialOffers(t *testing.T) {
	some := &shop{offers: []driver.Offer{at("a", 1)}, err: &driver.PartialError{Sources: []driver.SourceError{{Provider: "inner", Err: driver.ErrAuth}}}}
	dead := &shop{err: driver.ErrUnavailable}
	g, err := market.Cheapest(provided{name: "some", d: some}, provided{name: "dead", d: dead}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for o, err := range g.Offers(t.Context(), driver.Query{}) {
		out, ok := errors.AsType[*driver.PartialError](err)
		switch {
		case err == nil:
			got = append(got, o.Region)
		case !ok:
			t.Errorf("%v", err)
		default:
			for _, s := range out.Sources {
				got = append(got, s.Provider)
			}
		}
	}
	if fmt.Sprint(got) != "[a inner dead]" {
		t.Errorf("%v", got)
	}
	g, err = market.Cheapest(provided{name: "dead", d: dead}).Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for o, err := range g.Offers(t.Context(), driver.Query{}) {
		if _, partly := errors.AsType[*driver.PartialError](err); partly || !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%v, %v", o, err)
		}
	}
}
