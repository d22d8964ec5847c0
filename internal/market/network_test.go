package market_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// joined asks for nodes in one private network.
func joined(nodes int) market.Wants {
	return market.Wants{Query: driver.Query{Nodes: nodes, PrivateNetwork: true}}
}

// A plan says which offers have no private network if one is asked for. One node needs none, and hosts of the user's own
// are taken as they are.
func TestPlanOfPrivateNetwork(t *testing.T) {
	with := at("with", 2)
	with.Capabilities = &driver.Capabilities{PrivateNetwork: true}
	told := at("told", 3)
	told.Rejected = "has no global networking"
	offers := []driver.Offer{at("without", 1), with, told}
	for name, tt := range map[string]struct {
		wants market.Wants
		caps  driver.Capabilities
		want  map[string]string // by region
	}{
		"two nodes":      {joined(2), driver.Capabilities{}, map[string]string{"with": "", "without": "its nodes have no private network, which the spec's Network asks for", "told": "has no global networking"}},
		"one node":       {joined(1), driver.Capabilities{}, map[string]string{"with": "", "without": "", "told": "has no global networking"}},
		"none asked for": {market.Wants{Query: driver.Query{Nodes: 2}}, driver.Capabilities{}, map[string]string{"with": "", "without": "", "told": "has no global networking"}},
		"one's own":      {joined(2), driver.Capabilities{Adopts: true}, map[string]string{"with": "", "without": "", "told": "has no global networking"}},
	} {
		plan, err := opened(&shop{caps: tt.caps, offers: offers}, tt.wants).Plan(t.Context())
		if err != nil || len(plan) != len(offers) {
			t.Errorf("%s: %+v, %v", name, plan, err)
		}
		for _, c := range plan {
			if want := tt.want[c.Offer.Region]; c.Rejected != want {
				t.Errorf("%s: %s: %q; want %q", name, c.Offer.Region, c.Rejected, want)
			}
		}
	}
}

// twoNetworks returns the market of a group of two clouds with a private network each, with the pool's machines.
func twoNetworks(wants market.Wants, regional bool, s *shopper) *market.Market {
	caps := driver.Capabilities{PrivateNetwork: true, RegionalNetwork: regional}
	a, b := &shop{caps: caps, offers: []driver.Offer{at("r-1", 1), at("r-3", 3)}}, &shop{caps: caps, offers: []driver.Offer{at("r-2", 2), at("r-4", 4)}}
	a.caps.Account, b.caps.Account = "a", "b"
	m := market.New("cheapest", market.NewGroup("cheapest", []string{"acme", "other"}, []driver.Driver{a, b}), wants)
	m.Join(s.rented)
	return m
}

// All machines of a pool are in the network of the first one, that of its member or of its region there, whatever
// another one would cost. Without NetworkPrivate they are where there is room.
func TestPurchaseInOneNetwork(t *testing.T) {
	for name, tt := range map[string]struct {
		wants    market.Wants
		regional bool
		asked    string
		left     int
	}{
		"one account":    {joined(4), false, "r-1 r-3", 0},
		"one region":     {joined(4), true, "r-1", 2},
		"none asked for": {market.Wants{Query: driver.Query{Nodes: 4}}, false, "r-1 r-2", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := newShopper(t, func(_ driver.Offer, nodes []int) (int, error) {
				if len(nodes) <= 2 {
					return len(nodes), nil
				}
				return 2, &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New("two are left")}
			})
			m := twoNetworks(tt.wants, tt.regional, s)
			all, err := m.Candidates(t.Context())
			if err != nil || len(all.Offers) != 4 {
				t.Fatalf("%s: %+v, %v", name, all, err)
			}
			left, err := market.NewPurchase(m, s, all.Offers, 100, 0).Run(t.Context(), []int{0, 1, 2, 3})
			if len(left) != tt.left || tt.left > 0 && err == nil || strings.Join(s.asked, " ") != tt.asked {
				t.Errorf("%s: asked %q, %v got none: %v; want %q", name, s.asked, left, err, tt.asked)
			}
			plan, err := m.Plan(t.Context())
			rejected := 0
			for _, c := range plan {
				if strings.Contains(c.Rejected, "the pool's nodes are in that of acme.") {
					rejected++
				}
			}
			if want := map[string]int{"one account": 2, "one region": 3}[name]; err != nil || rejected != want {
				t.Errorf("%s: the plan rejects %d of %+v, %v; want %d", name, rejected, plan, err, want)
			}
		})
	}
}

// Two purchases at once, for a pool without machines, do not begin in different networks.
func TestTwoPurchasesInOneNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShopper(t, func(_ driver.Offer, nodes []int) (int, error) { return len(nodes), nil })
		m := twoNetworks(joined(2), false, s)
		all, err := m.Candidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		other := slices.Clone(all.Offers)
		slices.Reverse(other)
		var purchases sync.WaitGroup
		for node, offers := range [][]driver.Offer{all.Offers, other} {
			purchases.Go(func() {
				if left, err := market.NewPurchase(m, s, offers, 100, 0).Run(t.Context(), []int{node}); len(left) > 0 {
					t.Errorf("node %d got no machine: %v", node, err)
				}
			})
		}
		purchases.Wait()
		accounts := map[string]bool{}
		for _, o := range s.rented() {
			accounts[o.Account] = true
		}
		if len(s.rented()) != 2 || len(accounts) != 1 {
			t.Errorf("rented %+v", s.rented())
		}
	})
}

// A member with room for some nodes is not the room that another one has for the rest.
func TestRoomInOneNetwork(t *testing.T) {
	few := func(account string) driver.Offer {
		o := at("here", 1)
		o.Account, o.Available = account, 2
		return o
	}
	offers := []driver.Offer{few("a"), few("b")}
	if err := opened(&shop{}, market.Wants{}).HasRoom(offers, 4); err != nil {
		t.Error(err)
	}
	if err := opened(&shop{}, joined(4)).HasRoom(offers, 4); !errors.Is(err, driver.ErrNoCapacity) || !strings.Contains(err.Error(), "2 machines in one private network can be had now") {
		t.Error(err)
	}
}
