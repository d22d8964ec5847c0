// Package market decides which offer comes next: it asks a driver for offers, rejects with
// reasons those that do not satisfy what a pool wants, ranks the others, avoids those whose
// machines failed, and tries one after the other until all nodes have a machine. Cheapest and
// FirstOf are drivers made of drivers.
package market

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

// Wants are a pool's conditions for offers: its driver's query, and conditions that the driver does not get.
type Wants struct {
	driver.Query
	// AnyOf are accelerators of which each machine must have one. None means Query.Accelerator.
	AnyOf []accelerators.Accelerator
	// Speed is the work per hour of one device, by accelerators in the form of accelerators.Parse. If it
	// is not empty, offers are compared by the price of the work.
	Speed map[string]float64
	// RequireKnownHostKey rejects offers whose machines have a host key that only the first
	// contact shows.
	RequireKnownHostKey bool
	// ImageLogin means that there is a login for the registry of Query.Image.
	ImageLogin bool
	// BudgetUSD bounds the pool's cost. An offer of unknown price is rejected if there is a
	// budget, unless AllowUnknownPrice is true. Zero means no budget.
	BudgetUSD float64
	// Tags means that the user has tags of their own for the machines.
	Tags bool
}

// A Market judges the offers of one driver for one pool. It can be used concurrently.
type Market struct {
	provider string
	driver   driver.Driver
	caps     driver.Capabilities
	wants    Wants
	pace     pace
	history  func() History
	rented   func() []driver.Offer // of the pool's machines
	founding chan struct{}         // has room for one: held by the launch of the pool's first machine in a network

	mu       sync.Mutex
	avoided  map[offerKey]avoidance // guarded by mu
	quotas   map[offerKey]string    // reasons why an offer has room for few machines; guarded by mu
	balances map[string]balance     // by account; guarded by mu
}

// New returns the market of a provider's driver. It asks nothing yet.
func New(provider string, d driver.Driver, wants Wants) *Market {
	return &Market{
		provider: provider, driver: d, caps: d.Capabilities(), wants: wants, history: func() History { return noHistory{} }, rented: noMachines,
		founding: make(chan struct{}, 1),
	}
}

// A History is what earlier pools have seen of machines.
type History interface {
	// Failure returns why machines of an offer are to be avoided, or "".
	Failure(driver.Offer) string
	// Boot returns how long the last machine of an offer took to come up, or 0 if that is unknown.
	Boot(driver.Offer) time.Duration
}

// noHistory knows nothing.
type noHistory struct{}

func (noHistory) Failure(driver.Offer) string     { return "" }
func (noHistory) Boot(driver.Offer) time.Duration { return 0 }

// Remember has the market avoid what a history says, which it reads anew each time that it asks for offers. It is called
// before anything else.
func (m *Market) Remember(history func() History) { m.history = history }

// A Candidate is an offer as Plan has judged it. Its fields are those of gputrain.Candidate, which
// documents them.
type Candidate struct {
	Offer     driver.Offer
	HourlyUSD driver.Price
	WorkUSD   driver.Price
	Rejected  string
	Warnings  []string
}

// Plan returns all offers: first those that satisfy the wants, in the order in which they would
// be tried, and then the others, the nearest first. Sources that could not be asked come last.
func (m *Market) Plan(ctx context.Context) ([]Candidate, error) {
	weighed, out, err := m.weigh(ctx)
	if err != nil {
		return nil, err
	}
	var plan []Candidate
	for _, w := range weighed {
		plan = append(plan, m.candidate(w, m.warnings(ctx, w)))
	}
	for _, s := range out {
		plan = append(plan, Candidate{Offer: driver.Offer{Provider: s.Provider}, Rejected: "could not be asked: " + s.Err.Error()})
	}
	return plan, nil
}

// weigh asks for all offers, judges them, and sorts them: those that satisfy the wants first, in
// the order in which they are tried.
func (m *Market) weigh(ctx context.Context) (all []weighedOffer, out []driver.SourceError, err error) {
	offers, out, err := m.ask(ctx, m.wants)
	if err != nil {
		return nil, nil, err
	}
	if len(offers) == 0 && m.wants.placed() {
		offers = elsewhereOffers(ctx, m)
	}
	return m.judge(ctx, offers), out, nil
}

// judge sorts offers: those that satisfy the wants first, in the order in which they are tried.
func (m *Market) judge(ctx context.Context, offers []driver.Offer) (all []weighedOffer) {
	past := m.history()
	for _, o := range offers {
		why := m.reject(o)
		failed, certain := m.avoids(o)
		if failed == "" {
			failed = past.Failure(o)
		}
		if certain != nil && why.reasons == nil {
			why.reasons = []string{certain.Error()}
		}
		all = append(all, weighedOffer{o, why, failed, past.Boot(o)})
	}
	rejectDearSpot(m.wants, all)
	m.wants.sort(all)
	if m.limit(ctx, all) {
		m.wants.sort(all)
	}
	return all
}

// Recall returns a plan of offers that were there at an earlier time. Each has the warning.
func Recall(provider string, wants Wants, offers []driver.Offer, warning string) []Candidate {
	m := &Market{provider: provider, wants: wants, history: func() History { return noHistory{} }, rented: noMachines}
	var plan []Candidate
	for _, w := range m.judge(context.Background(), offers) {
		plan = append(plan, m.candidate(w, append([]string{warning}, w.offer.Warnings...)))
	}
	return plan
}

func (m *Market) candidate(w weighedOffer, warnings []string) Candidate {
	return Candidate{w.offer, m.wants.hourly(w.offer), m.wants.workUSD(w.offer), w.why.String(), warnings}
}

// A Selection are the offers that a pool may try.
type Selection struct {
	// Offers satisfy the wants, the best first.
	Offers []driver.Offer
	// Out are the sources that could not be asked.
	Out []driver.SourceError
	// None is the reason why there is no offer, or nil if there is one. It is [driver.ErrNoOffers],
	// [driver.ErrUnavailable] if a source may answer later, or [driver.ErrBalance] or [driver.ErrQuota] if only
	// these keep the pool from an offer.
	None error
}

// Candidates selects the offers that satisfy the wants. Those whose machines failed lately come
// last, and those whose machines would fail again are left out. The error is the driver's.
func (m *Market) Candidates(ctx context.Context) (s Selection, err error) {
	weighed, out, err := m.weigh(ctx)
	if err != nil {
		return Selection{}, err
	}
	s.Out = out
	for _, w := range weighed {
		if w.why.reasons == nil {
			s.Offers = append(s.Offers, w.offer)
		}
	}
	if s.Offers == nil {
		s.None = m.noOffers(weighed, out)
	}
	return s, nil
}

// noOffers returns the error of a market without a candidate.
func (m *Market) noOffers(all []weighedOffer, out []driver.SourceError) error {
	rejected := m.rejections(all)
	e := &driver.Error{Provider: m.provider, Op: "offers", Kind: driver.ErrNoOffers, Err: errors.New(rejected)}
	if i := slices.IndexFunc(all, func(w weighedOffer) bool { return w.why.kind != nil }); i >= 0 {
		e.Kind, e.Hint = all[i].why.kind, hintOf(all[i].why.kind)
	}
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
	room, most := map[string]int{}, 0
	for _, o := range offers {
		if o.Available == 0 {
			return nil
		}
		network := ""
		if m.wants.Joined() {
			network = m.networkOf(o)
		}
		room[network] += o.Available
		most = max(most, room[network])
	}
	if most >= nodes {
		return nil
	}
	e := &driver.Error{Provider: m.provider, Op: "offers", Kind: driver.ErrNoCapacity}
	if m.caps.Adopts {
		e.Err = fmt.Errorf("%d machines are there to adopt, and the spec asks for %d", most, nodes)
		e.Hint = "name more in the provider's Config (of providers/ssh a host that is listed twice carries two nodes), or ask for fewer nodes"
		return e
	}
	e.Err = fmt.Errorf("%d machines%s can be had now, and the spec asks for %d", most, m.inOneNetwork(), nodes)
	if quota := m.quotasOf(offers); quota != "" {
		e.Kind, e.Err, e.Hint = driver.ErrQuota, fmt.Errorf("%w: %s", e.Err, quota), hintOf(driver.ErrQuota)
	}
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
