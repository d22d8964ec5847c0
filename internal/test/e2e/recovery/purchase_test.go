package recovery

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A fullCloud takes a second for each launch and fails it, unless room is true for its offer.
type fullCloud struct {
	e2etest.Wrapped
	c    *e2etest.SimCloud
	room func(o gputrain.Offer) bool

	mu                 sync.Mutex
	calls, under, most int
	asked              []string // regions, in order
	wanted, twice      map[string]bool
}

func newFullCloud(c *e2etest.SimCloud, room func(gputrain.Offer) bool) *fullCloud {
	f := &fullCloud{c: c, room: room, wanted: map[string]bool{}, twice: map[string]bool{}}
	f.Provider = sim.Config{Cloud: c.Cloud}
	f.OnLaunch = f.launchAfter
	return f
}

func (f *fullCloud) launchAfter(ctx context.Context, r driver.Launch, d driver.Driver) ([]driver.Instance, error) {
	f.mu.Lock()
	f.calls++
	f.under++
	f.most = max(f.most, f.under)
	f.asked = append(f.asked, r.Offer.Region)
	var ranks []string
	for _, n := range r.Nodes {
		rank := fmt.Sprint(n.Rank)
		f.twice[rank] = f.twice[rank] || f.wanted[rank]
		f.wanted[rank] = true
		ranks = append(ranks, rank)
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.under--
		for _, rank := range ranks {
			delete(f.wanted, rank)
		}
	}()
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if f.room == nil || !f.room(r.Offer) {
		return nil, &gputrain.Error{Provider: "sim", Op: "launch", Kind: gputrain.ErrNoCapacity, Err: errors.New("none in " + r.Offer.Region)}
	}
	return d.Launch(ctx, r)
}

func manyOffers(n int) (offers []gputrain.Offer) {
	for i := range n {
		offers = append(offers, e2etest.OfferAt(fmt.Sprintf("r-%d", i), 1+float64(i)/1000))
	}
	return offers
}

// If no machine is available, a limited number of offers is tried, several at once but never two
// for the same node. Events report the progress.
func TestNothingCanBeHad(t *testing.T) {
	for _, tt := range []struct {
		nodes, offers, most int
		spec                gputrain.Spec
		calls               int
		within              time.Duration
		abreast             int
	}{
		{nodes: 1, offers: 1000, calls: 100, within: 101 * time.Second, abreast: 1},
		{nodes: 8, offers: 1000, calls: 100, within: 17 * time.Second, abreast: 8},
		{nodes: 8, offers: 1000, spec: gputrain.Spec{MaxOffers: 20}, calls: 20, within: 8 * time.Second, abreast: 8},
		{nodes: 8, offers: 300, spec: gputrain.Spec{MaxOffers: -1, MaxReplacements: -1}, calls: 300, within: 42 * time.Second, abreast: 8},
		{nodes: 3, offers: 2, calls: 2 * 4, within: 30 * time.Second, abreast: 2}, // retried as often as nodes are replaced
		{nodes: 8, offers: 1000, spec: gputrain.Spec{BudgetUSD: 1000}, calls: 100, within: 101 * time.Second, abreast: 1},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d offers, MaxOffers %d, budget %v", tt.nodes, tt.offers, tt.spec.MaxOffers, tt.spec.BudgetUSD), func(t *testing.T) {
			e2etest.InCloud(t, sim.Options{Offers: manyOffers(tt.offers)}, func(t *testing.T, c *e2etest.SimCloud) {
				f := newFullCloud(c, nil)
				tt.spec.Nodes = tt.nodes
				began := time.Now()
				_, err := gputrain.Open(t.Context(), f, tt.spec, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
				if !errors.Is(err, gputrain.ErrNoCapacity) || len(err.Error()) > 1000 {
					t.Errorf("%v", err)
				}
				var closing time.Duration
				counts := 0
				for _, e := range c.Events() {
					switch {
					case e.Kind == gputrain.EventPool && e.State == "closing":
						closing = e.Time.Sub(began)
					case e.Kind == gputrain.EventWait && e.State == "launching":
						if counts++; !strings.Contains(e.Err.Error(), fmt.Sprintf("of %d offers tried, 0 of %d nodes have a machine; the last: launch: no capacity", tt.offers, tt.nodes)) {
							t.Errorf("%v", e.Err)
						}
					}
				}
				if f.calls != tt.calls || closing > tt.within || f.most != tt.abreast {
					t.Errorf("%d calls in %v, %d at once; want %d in %v, %d at once", f.calls, closing, f.most, tt.calls, tt.within, tt.abreast)
				}
				if counts == 0 || counts > int(closing/(5*time.Second))+4 {
					t.Errorf("%d events count in %v", counts, closing)
				}
				for rank, twice := range f.twice {
					if twice {
						t.Errorf("node %s was asked for twice at once", rank)
					}
				}
			})
		})
	}
}

// Offers with capacity are found in the order of price, and all nodes without a machine are rented
// there, but no more machines than wanted.
func TestRoomBehindOffersThatRefuse(t *testing.T) {
	offers := manyOffers(60)
	offers[50].Available = 3 // for eight nodes
	e2etest.InCloud(t, sim.Options{Offers: offers}, func(t *testing.T, c *e2etest.SimCloud) {
		f := newFullCloud(c, func(o gputrain.Offer) bool { return o.Region == "r-50" || o.Region == "r-55" || o.Region == "r-57" })
		p, err := gputrain.Open(t.Context(), f, gputrain.Spec{Nodes: 8}, gputrain.WithStateDir(c.State), gputrain.WithEvents(c.Tell))
		if err != nil {
			t.Fatal(err)
		}
		c.Pools = append(c.Pools, p)
		where := map[string]int{}
		for _, n := range p.Nodes() {
			where[n.Region]++
		}
		if where["r-50"] == 0 || where["r-50"] > 3 || where["r-50"]+where["r-55"]+where["r-57"] != 8 || where["r-57"] > 1 {
			t.Errorf("%v", where)
		}
		if c.CountLaunches() != 8 || f.calls > 70 {
			t.Errorf("%d machines by %d calls", c.CountLaunches(), f.calls)
		}
		for i, region := range f.asked[:3] {
			if region != fmt.Sprintf("r-%d", i) {
				t.Errorf("the first are %v", f.asked[:3])
			}
		}
		c.CloseAndCheck(t, p)
	})
}

// Nodes that are lost at the same time are replaced by one launch.
func TestNodesLostTogetherAreRentedTogether(t *testing.T) {
	e2etest.InCloud(t, sim.Options{BootTime: 10 * time.Second}, func(t *testing.T, c *e2etest.SimCloud) {
		p := c.Pool(t, gputrain.Spec{Nodes: 20})
		count := func() (n int) {
			for _, call := range c.Log() {
				if call.Op == sim.OpLaunch {
					n++
				}
			}
			return n
		}
		before := count()
		for _, id := range e2etest.Alive(t, p)[:15] {
			if err := c.Preempt(id, 0); err != nil {
				t.Fatal(err)
			}
		}
		e2etest.WithinVirtualTime(t, "others", func() bool { return c.CountLaunches() == 35 && e2etest.AllReady(p) })
		if n := count() - before; n > 3 {
			t.Errorf("%d launches", n)
		}
		c.CloseAndCheck(t, p)
	})
}
