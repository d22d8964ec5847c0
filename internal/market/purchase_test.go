package market_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A shopper is a buyer whose nodes are numbers. Each of its launches takes a second.
type shopper struct {
	t   *testing.T
	buy func(o driver.Offer, nodes []int) (got int, err error) // nil refuses for lack of capacity

	mu                sync.Mutex
	asked             []string    // regions, in order
	under, most       int         // launches at the same time
	trying            map[int]int // launches under way, by node
	machines, gaveUp  map[int]bool
	offers            []driver.Offer // of the machines
	refused, progress []error
	reported          []time.Time
}

func (s *shopper) Buy(o driver.Offer, nodes []int) ([]int, error) {
	s.mu.Lock()
	s.asked = append(s.asked, o.Region)
	s.under++
	s.most = max(s.most, s.under)
	for _, n := range nodes {
		if s.trying[n]++; s.trying[n] > 1 || s.machines[n] {
			s.t.Errorf("a second machine is bought for node %d", n)
		}
	}
	s.mu.Unlock()
	time.Sleep(time.Second)
	got, err := 0, error(&driver.Error{Provider: "acme", Op: "launch", Kind: driver.ErrNoCapacity, Err: errors.New("none in " + o.Region)})
	if s.buy != nil {
		got, err = s.buy(o, nodes)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.under--
	for i, n := range nodes {
		s.trying[n]--
		s.machines[n] = i < got
		if i < got {
			s.offers = append(s.offers, o)
		}
	}
	return nodes[got:], err
}

func (s *shopper) rented() []driver.Offer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.offers
}

func (s *shopper) Wanted(nodes []int) (wanted []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range nodes {
		if !s.gaveUp[n] {
			wanted = append(wanted, n)
		}
	}
	return wanted
}

func (s *shopper) Refused(_ int, err error) { s.refused = append(s.refused, err) }

func (s *shopper) Progress(err error) {
	s.progress, s.reported = append(s.progress, err), append(s.reported, time.Now())
}

func newShopper(t *testing.T, buy func(o driver.Offer, nodes []int) (int, error)) *shopper {
	return &shopper{t: t, buy: buy, trying: map[int]int{}, machines: map[int]bool{}, gaveUp: map[int]bool{}}
}

// purchase buys for so many nodes, from offers in the regions r-0, r-1, and so on.
func (s *shopper) purchase(ctx context.Context, offers []driver.Offer, limit, nodes int) (left int, err error) {
	var all []int
	for n := range nodes {
		all = append(all, n)
	}
	p := market.NewPurchase(opened(&shop{offers: offers}, market.Wants{}), s, offers, limit, 0)
	none, err := p.Run(ctx, all)
	return len(none), err
}

func many(n int) (offers []driver.Offer) {
	for i := range n {
		offers = append(offers, at(fmt.Sprintf("r-%d", i), 1+float64(i)/1000))
	}
	return offers
}

// If all offers refuse, the limit bounds how many are tried, several at once after the first ones.
func TestPurchaseOfNothing(t *testing.T) {
	for _, tt := range []struct {
		nodes, offers, limit, calls, most int
		within                            time.Duration
	}{
		{nodes: 1, offers: 1000, limit: 100, calls: 100, most: 1, within: 100 * time.Second},
		{nodes: 8, offers: 1000, limit: 100, calls: 100, most: 8, within: 17 * time.Second},
		{nodes: 8, offers: 1000, limit: 20, calls: 20, most: 8, within: 8 * time.Second},
		{nodes: 8, offers: 300, limit: 1 << 30, calls: 300, most: 8, within: 42 * time.Second},
		{nodes: 3, offers: 2, limit: 100, calls: 2, most: 1, within: 2 * time.Second},
	} {
		t.Run(fmt.Sprintf("%d nodes, %d of %d offers", tt.nodes, tt.limit, tt.offers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShopper(t, nil)
				begun := time.Now()
				left, err := s.purchase(t.Context(), many(tt.offers), tt.limit, tt.nodes)
				took := time.Since(begun)
				if left != tt.nodes || !errors.Is(err, driver.ErrNoCapacity) || len(err.Error()) > 1000 {
					t.Errorf("%d nodes are left: %v", left, err)
				}
				if len(s.asked) != tt.calls || s.most != tt.most || took > tt.within {
					t.Errorf("%d calls in %v, %d at once; want %d in %v, %d at once", len(s.asked), took, s.most, tt.calls, tt.within, tt.most)
				}
				if hint := fmt.Sprintf("Spec.MaxOffers is %d", tt.limit); strings.Contains(err.Error(), hint) != (tt.calls == tt.limit) {
					t.Errorf("%v", err)
				}
				if tt.calls > 5 && !strings.Contains(err.Error(), fmt.Sprintf("%d of %d offers tried, 0 of %d nodes have a machine\n", tt.calls, tt.offers, tt.nodes)) {
					t.Errorf("%v", err)
				}
				if len(s.refused) != tt.calls || len(s.progress) == 0 || len(s.progress) > int(took/(5*time.Second))+1 {
					t.Errorf("%d refusals and %d reports in %v", len(s.refused), len(s.progress), took)
				}
				for _, err := range s.progress {
					if !strings.Contains(err.Error(), fmt.Sprintf("of %d offers tried, 0 of %d nodes have a machine; the last: launch: no capacity: none in r-", tt.offers, tt.nodes)) {
						t.Errorf("%v", err)
					}
				}
			})
		})
	}
}

// Capacity is found in the order of the offers, for all nodes that have no machine.
func TestPurchaseFindsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		offers := many(60)
		offers[50].Available = 3
		s := newShopper(t, func(o driver.Offer, nodes []int) (int, error) {
			switch o.Region {
			case "r-50":
				if len(nodes) > 3 {
					t.Errorf("%d are asked for of 3", len(nodes))
				}
				return len(nodes), nil
			case "r-55":
				return len(nodes), nil
			}
			return 0, errors.New("full")
		})
		if left, err := s.purchase(t.Context(), offers, 100, 8); left != 0 {
			t.Errorf("%d nodes are left: %v", left, err)
		}
		if len(s.asked) > 70 || strings.Join(s.asked[:3], " ") != "r-0 r-1 r-2" {
			t.Errorf("asked %v", s.asked)
		}
	})
}

// This is what an error of one offer means for the others.
func TestPurchaseAfterAnError(t *testing.T) {
	fail := func(kind error) error {
		return &driver.Error{Provider: "acme", Op: "launch", Kind: kind, Err: errors.New("no")}
	}
	for name, tt := range map[string]struct {
		err     error
		asked   string
		refused int
		most    int
	}{
		"capacity":   {fail(driver.ErrNoCapacity), "a-1 b-1 a-2 b-2", 4, 2},
		"auth":       {fail(driver.ErrAuth), "a-1 b-1 b-2", 1, 1},
		"invalid":    {fail(driver.ErrInvalid), "a-1 b-1 b-2", 1, 1},
		"unprepared": {&market.PrepareError{Err: fail(driver.ErrUnavailable)}, "a-1 b-1 b-2", 1, 1},
		"ledger":     {fail(driver.ErrLedger), "a-1", 1, 1},
		"fenced":     {fail(driver.ErrFenced), "a-1", 1, 1},
		"budget":     {fail(driver.ErrBudget), "a-1 b-1 a-2 b-2", 0, 1}, // another offer may be cheaper
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var offers []driver.Offer
				for _, region := range []string{"a-1", "b-1", "a-2", "b-2"} {
					o := at(region, 1)
					o.Account = region[:1]
					offers = append(offers, o)
				}
				s := newShopper(t, func(o driver.Offer, nodes []int) (int, error) {
					if o.Account == "a" || name == "capacity" || name == "budget" {
						return 0, tt.err
					}
					return 0, &driver.Error{Kind: driver.ErrBudget} // not a refusal
				})
				left, err := s.purchase(t.Context(), offers, 100, 2)
				if got := strings.Join(s.asked, " "); got != tt.asked || left != 2 || !errors.Is(err, tt.err) {
					t.Errorf("asked %s, %d left, %v; want %s", got, left, err, tt.asked)
				}
				if len(s.refused) != tt.refused {
					t.Errorf("refused %v", s.refused)
				}
			})
		})
	}
}

// If one member of a group cannot be used, another member with the same account and another
// configuration is tried.
func TestPurchaseFromMembersOfOneAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		member := provided{name: "acme", d: &shop{offers: []driver.Offer{at("a", 1), at("b", 2)}, caps: driver.Capabilities{Account: "us"}}}
		g, err := market.FirstOf(member, member).Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m := market.New("firstof", g, market.Wants{})
		found, err := m.Candidates(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		s := newShopper(t, func(o driver.Offer, nodes []int) (int, error) {
			if o.Tier == 0 {
				return 0, &driver.Error{Kind: driver.ErrInvalid}
			}
			return len(nodes), nil
		})
		if left, err := market.NewPurchase(m, s, found.Offers, 100, 0).Run(t.Context(), []int{0}); len(left) > 0 || strings.Join(s.asked, " ") != "a a" {
			t.Errorf("asked %v: %v", s.asked, err)
		}
	})
}

// A provider that limits the rate of calls gets one at a time.
func TestPurchaseRateLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShopper(t, func(driver.Offer, []int) (int, error) { return 0, &driver.Error{Kind: driver.ErrRateLimited} })
		if left, err := s.purchase(t.Context(), many(20), 100, 8); left != 8 || s.most != 1 || !errors.Is(err, driver.ErrRateLimited) {
			t.Errorf("%d left, %d at once, %v", left, s.most, err)
		}
	})
}

// Nothing is bought for nodes that are given up meanwhile, and a purchase ends with its context.
func TestPurchaseIsCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShopper(t, nil)
		s.buy = func(driver.Offer, []int) (int, error) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.gaveUp[0] = true
			return 0, errors.New("full")
		}
		if left, _ := s.purchase(t.Context(), many(20), 100, 1); left != 0 || len(s.asked) != 1 {
			t.Errorf("%d left, asked %v", left, s.asked)
		}
		s = newShopper(t, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 4500*time.Millisecond)
		defer cancel()
		if left, err := s.purchase(ctx, many(1000), 1000, 1); left != 1 || len(s.asked) != 5 || !errors.Is(err, driver.ErrNoCapacity) {
			t.Errorf("%d left, asked %v: %v", left, s.asked, err)
		}
		if left, err := newShopper(t, nil).purchase(t.Context(), nil, 1, 1); left != 1 || !errors.Is(err, driver.ErrNoCapacity) {
			t.Errorf("of no offers: %d left, %v", left, err)
		}
	})
}

// Refusals before the purchase count.
func TestPurchaseCountsEarlierRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShopper(t, nil)
		p := market.NewPurchase(opened(&shop{}, market.Wants{}), s, many(20), 10, 7)
		if left, err := p.Run(t.Context(), []int{0}); len(left) != 1 || p.Refused() != 10 || len(s.asked) != 3 || !strings.Contains(err.Error(), "Spec.MaxOffers is 10") {
			t.Errorf("asked %v, %d refused, %v", s.asked, p.Refused(), err)
		}
	})
}

// Nodes that are added at the same time are gathered in one call.
func TestGathering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g market.Gathering[int]
		got := make(chan []int, 10)
		for n := range 10 {
			go func() {
				time.Sleep(time.Duration(n/5) * time.Second)
				got <- g.Add(t.Context(), n)
			}()
		}
		calls, nodes := 0, 0
		for range 10 {
			if all := <-got; all != nil {
				calls++
				nodes += len(all)
			}
		}
		if calls != 2 || nodes != 10 {
			t.Errorf("%d nodes in %d calls", nodes, calls)
		}
	})
}
