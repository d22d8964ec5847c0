package gputrain

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
)

// A Candidate is an offer as [Plan] has weighed it.
type Candidate struct {
	// Offer is what can be rented. Of a member of [Cheapest] or [FirstOf] that could not be
	// asked it has the provider alone.
	Offer Offer
	// Rejected says why the offer is not for the spec: all that is against it. It is empty
	// for one that is.
	Rejected string
}

// Plan lists what the provider offers now: first what satisfies the spec, in the order
// in which [Open] would try it, and then the rest, each with why it does not: the nearest
// first, which are those with the right accelerator. It rents nothing. A provider that
// offers nothing is an empty plan; [ErrAuth] and the like are errors as they are from Open.
func Plan(ctx context.Context, provider Provider, spec Spec) (plan []Candidate, err error) {
	driver, err := openToAsk(ctx, provider, spec)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, driver.Close()) }()
	p := &pool{members: driversOf(provider.Name(), driver)}
	var weighed []rejectedOffer
	for offer, err := range driver.Offers(ctx, spec) {
		out, some := errors.AsType[groupError](err)
		if err != nil && !some {
			return nil, err
		}
		for _, m := range out {
			why := rejection{reasons: []string{"could not be asked: " + m.err.Error()}, accelerator: math.MaxInt}
			weighed = append(weighed, rejectedOffer{Offer{Provider: m.provider}, why})
		}
		if err == nil {
			weighed = append(weighed, rejectedOffer{offer, reject(offer, spec, p.capsOf(offer))})
		}
	}
	slices.SortStableFunc(weighed, func(a, b rejectedOffer) int {
		return cmp.Or(before(a.why.reasons == nil, b.why.reasons == nil), a.why.compare(b.why), p.compare(spec, a.offer, b.offer))
	})
	for _, w := range weighed {
		plan = append(plan, Candidate{w.offer, w.why.String()})
	}
	return plan, nil
}

// Offers yields what the provider offers now and satisfies the spec, in whatever order
// the provider tells of it. Leaving the loop early stops asking for more. It rents
// nothing.
func Offers(ctx context.Context, provider Provider, spec Spec) iter.Seq2[Offer, error] {
	return func(yield func(Offer, error) bool) {
		driver, err := openToAsk(ctx, provider, spec)
		if err != nil {
			yield(Offer{}, err)
			return
		}
		left := false
		defer func() {
			if err := driver.Close(); err != nil && !left {
				yield(Offer{}, err)
			}
		}()
		p := &pool{members: driversOf(provider.Name(), driver)}
		for offer, err := range driver.Offers(ctx, spec) {
			if err == nil && reject(offer, spec, p.capsOf(offer)).reasons != nil {
				continue
			}
			if left = !yield(offer, err) || err != nil; left {
				return
			}
		}
	}
}

// openToAsk opens a provider for somebody who only wants to know.
func openToAsk(ctx context.Context, provider Provider, spec Spec) (Driver, error) {
	if provider == nil {
		return nil, &Error{Op: "plan", Kind: ErrInvalid, Err: errors.New("the provider is nil; local.Config{} is the simplest")}
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return provider.Open(ctx)
}

// compare orders offers as the spec, and a group, would have them.
func (p *pool) compare(s Spec, a, b Offer) int {
	return cmp.Or(
		cmp.Compare(p.memberOf(a).tier, p.memberOf(b).tier),
		before(s.Allocation == SpotIfAvailable && a.Spot, s.Allocation == SpotIfAvailable && b.Spot),
		before(cheaper(s.hourly(a), s.hourly(b)), cheaper(s.hourly(b), s.hourly(a))),
		cmp.Compare(a.member, b.member),
	)
}

// hourly is what an hour costs with the traffic that the spec expects.
func (s Spec) hourly(o Offer) Price {
	usd, known := o.HourlyUSD.USD()
	if !known {
		return Price{}
	}
	return USD(usd + s.IngressGiB*o.IngressUSD + s.EgressGiB*o.EgressUSD)
}
