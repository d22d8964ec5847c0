// Package market decides which offer comes next: it asks a driver for offers, rejects with
// reasons those that do not satisfy what a pool wants, ranks the others, avoids those whose
// machines failed, and tries one after the other until all nodes have a machine. Cheapest and
// FirstOf are drivers made of drivers.
package market

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// Wants are a pool's conditions for offers: its driver's query, and conditions that the driver does not get.
type Wants struct {
	driver.Query
	// RequireKnownHostKey rejects offers whose machines have a host key that only the first
	// contact shows.
	RequireKnownHostKey bool
	// BudgetUSD bounds the pool's cost. An offer of unknown price is rejected if there is a
	// budget, unless AllowUnknownPrice is true. Zero means no budget.
	BudgetUSD float64
}

// A Market judges the offers of one driver for one pool. It can be used concurrently.
type Market struct {
	provider string
	driver   driver.Driver
	caps     driver.Capabilities
	wants    Wants
	pace     pace

	mu      sync.Mutex
	avoided map[offerKey]avoidance // guarded by mu
}

// New returns the market of a provider's driver. It asks nothing yet.
func New(provider string, d driver.Driver, wants Wants) *Market {
	return &Market{provider: provider, driver: d, caps: d.Capabilities(), wants: wants}
}

// Offers yields the offers that satisfy the wants, in the driver's order. Errors of the driver
// are yielded too. Leaving the loop early stops asking.
func (m *Market) Offers(ctx context.Context) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for offer, err := range m.driver.Offers(ctx, m.wants.Query) {
			if err == nil && m.reject(offer).reasons != nil {
				continue
			}
			if !yield(offer, err) || err != nil {
				return
			}
		}
	}
}

// A Candidate is an offer as Plan has judged it.
type Candidate struct {
	// Offer is the judged offer. If a source could not be asked, only its provider is set.
	Offer driver.Offer
	// Rejected has all reasons why the offer does not satisfy the wants. It is empty if it does.
	Rejected string
}

// Plan returns all offers: first those that satisfy the wants, in the order in which they would
// be tried, and then the others, the nearest first. Sources that could not be asked come last.
func (m *Market) Plan(ctx context.Context) ([]Candidate, error) {
	var weighed []weighedOffer
	for offer, err := range m.driver.Offers(ctx, m.wants.Query) {
		if some, ok := errors.AsType[*driver.PartialError](err); ok {
			for _, s := range some.Sources {
				why := rejection{reasons: []string{"could not be asked: " + s.Err.Error()}, accelerator: math.MaxInt}
				weighed = append(weighed, weighedOffer{driver.Offer{Provider: s.Provider}, why})
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		weighed = append(weighed, weighedOffer{offer, m.reject(offer)})
	}
	slices.SortStableFunc(weighed, m.compareWeighed)
	var plan []Candidate
	for _, w := range weighed {
		plan = append(plan, Candidate{w.offer, w.why.String()})
	}
	return plan, nil
}

// A Selection are the offers that a pool may try.
type Selection struct {
	// Offers satisfy the wants, the best first.
	Offers []driver.Offer
	// Out are the sources that could not be asked.
	Out []driver.SourceError
	// None is the reason why there is no offer, or nil if there is one. It is [driver.ErrNoOffers], or
	// [driver.ErrUnavailable] if a source may answer later.
	None error
}

// Candidates selects the offers that satisfy the wants. Those whose machines failed lately come
// last, and those whose machines would fail again are left out. The error is the driver's.
func (m *Market) Candidates(ctx context.Context) (s Selection, err error) {
	var rejected []weighedOffer
	failed := map[offerKey]int{}
	for offer, err := range m.driver.Offers(ctx, m.wants.Query) {
		if some, ok := errors.AsType[*driver.PartialError](err); ok {
			s.Out = some.Sources
			continue
		}
		if err != nil {
			return Selection{}, err
		}
		if why := m.reject(offer); why.reasons != nil {
			rejected = append(rejected, weighedOffer{offer, why})
			continue
		}
		certain, again := m.avoids(offer)
		if certain != nil {
			rejected = append(rejected, weighedOffer{offer, rejection{reasons: []string{certain.Error()}}})
			continue
		}
		failed[offerKeyOf(offer)] = one(again)
		s.Offers = append(s.Offers, offer)
	}
	if s.Offers == nil {
		s.None = m.noOffers(m.rejections(rejected), s.Out)
	}
	slices.SortStableFunc(s.Offers, func(a, b driver.Offer) int {
		if later := failed[offerKeyOf(a)] - failed[offerKeyOf(b)]; later != 0 {
			return later
		}
		return m.compare(a, b)
	})
	return s, nil
}

// noOffers returns the error of a market without a candidate.
func (m *Market) noOffers(rejected string, out []driver.SourceError) error {
	e := &driver.Error{Provider: m.provider, Op: "offers", Kind: driver.ErrNoOffers, Err: errors.New(rejected)}
	var later []error
	for _, s := range out {
		if retry.IsTransient(s.Err) {
			later = append(later, s.Err)
		}
	}
	switch {
	case later != nil:
		e.Kind, e.Err = driver.ErrUnavailable, fmt.Errorf("%s; %w", rejected, errors.Join(later...))
	case out != nil:
		e.Err = fmt.Errorf("%s; %w", rejected, &driver.PartialError{Sources: out})
	}
	return e
}

// HasRoom returns nil if the offers together have room for so many nodes, as far as that is
// known, and otherwise an error of kind [driver.ErrNoCapacity].
func (m *Market) HasRoom(offers []driver.Offer, nodes int) error {
	room := 0
	for _, o := range offers {
		if o.Available == 0 {
			return nil
		}
		room += o.Available
	}
	if room >= nodes {
		return nil
	}
	e := &driver.Error{Provider: m.provider, Op: "offers", Kind: driver.ErrNoCapacity}
	if m.caps.Adopts {
		e.Err = fmt.Errorf("%d machines are there to adopt, and the spec asks for %d", room, nodes)
		e.Hint = "name more in the provider's Config (of providers/ssh a host that is listed twice carries two nodes), or ask for fewer nodes"
		return e
	}
	e.Err = fmt.Errorf("%d machines can be had now, and the spec asks for %d", room, nodes)
	return e
}

// TooFew returns the error of a launch that returned no error and fewer machines than it was
// asked for.
func (m *Market) TooFew() error {
	return &driver.Error{Provider: m.provider, Op: "launch", Kind: driver.ErrNoCapacity, Err: errors.New("the provider launched fewer machines than it was asked for")}
}

// ErrOverpriced is in the chain of an error of [Market.Overpriced].
var ErrOverpriced = errors.New("it was ended at once")

// Overpriced returns an error if the price of a machine that was launched is not one that the
// wants allow, and nil otherwise.
func (m *Market) Overpriced(o driver.Offer) error {
	why := m.wants.rejectPrice(o)
	if why == "" {
		return nil
	}
	return &driver.Error{
		Provider: m.provider, Op: "launch", Kind: driver.ErrNoOffers,
		Err: fmt.Errorf("%w: %s in %s, as launched, %s", ErrOverpriced, o.InstanceType, o.Region, why),
	}
}
