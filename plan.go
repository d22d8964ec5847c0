package gputrain

import (
	"context"
	"errors"
	"iter"

	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Candidate is an offer as [Plan] judges it.
type Candidate struct {
	// Offer is the judged offer. For a member of [Cheapest] or [FirstOf] that could not be asked,
	// only its provider is set.
	Offer Offer
	// Rejected gives all reasons why the offer does not satisfy the spec. It is empty if the offer
	// does.
	Rejected string
}

// Plan lists what the provider offers now: first the offers that satisfy the spec, in the order in
// which [Open] would try them, and then the rejected ones with the reasons, those with the right
// accelerator first. Plan rents nothing. If the provider offers nothing, the plan is empty.
// [ErrAuth] and the like are errors as they are from Open.
func Plan(ctx context.Context, provider Provider, spec Spec) (plan []Candidate, err error) {
	d, err := openToAsk(ctx, provider, spec)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	weighed, err := market.New(provider.Name(), d, spec.wants()).Plan(ctx)
	for _, c := range weighed {
		plan = append(plan, Candidate(c))
	}
	return plan, err
}

// Offers yields the current offers that satisfy the spec, in the provider's order. It asks for
// no more once the loop has ended. It rents nothing.
func Offers(ctx context.Context, provider Provider, spec Spec) iter.Seq2[Offer, error] {
	return func(yield func(Offer, error) bool) {
		d, err := openToAsk(ctx, provider, spec)
		if err != nil {
			yield(Offer{}, err)
			return
		}
		left := false
		defer func() {
			if err := d.Close(); err != nil && !left {
				yield(Offer{}, err)
			}
		}()
		for offer, err := range market.New(provider.Name(), d, spec.wants()).Offers(ctx) {
			if left = !yield(offer, err) || err != nil; left {
				return
			}
		}
	}
}

// openToAsk opens a provider only to ask for offers.
func openToAsk(ctx context.Context, provider Provider, spec Spec) (driver.Driver, error) {
	if provider == nil {
		return nil, &Error{Op: "plan", Kind: ErrInvalid, Err: errors.New("the provider is nil; local.Config{} is the simplest")}
	}
	if err := spec.Validate(); err != nil {
		return nil, err
	}
	return provider.Open(ctx)
}
