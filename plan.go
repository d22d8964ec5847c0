package gputrain

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/history"
	"github.com/gputrain/gputrain/internal/invalid"
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/internal/retry"
)

// A Candidate is an offer as [Plan] judges it.
type Candidate struct {
	// Offer is the judged offer. For a member of [Cheapest] or [FirstOf] that could not be asked,
	// only its provider is set.
	Offer Offer
	// HourlyUSD is the price of an hour of one node with everything: what the offer's HourlyUSD
	// has, and the traffic that Spec.IngressGiB and EgressGiB expect.
	HourlyUSD Price
	// WorkUSD is the price of a unit of work, by Spec.Speed. It is unknown if that has no speed for
	// the offer's accelerator.
	WorkUSD Price
	// Rejected gives all reasons why the offer does not satisfy the spec. It is empty if the offer
	// does.
	Rejected string
	// Warnings are what a user should know before such a node is rented: that it cannot end itself,
	// that its host key is trusted at the first contact, that a host's contract ends soon.
	Warnings []string
}

// Plan lists what the provider offers now: first the offers that satisfy the spec, in the order in
// which [Open] would try them, and then the rejected ones with the reasons, those with the right
// accelerator first. Plan rents nothing. If the provider offers nothing, the plan is empty.
// [ErrAuth] and the like are errors as they are from Open.
//
// If a credential is missing, and the provider's price list is public, the plan is of that. If the
// provider does not answer, the plan is what it last offered for the spec, at most a week ago. The
// warnings of the candidates say so. Open rents nothing by either.
func Plan(ctx context.Context, provider Provider, spec Spec) ([]Candidate, error) {
	if provider == nil {
		return nil, &Error{Op: "plan", Kind: ErrInvalid, Err: errors.New("the provider is nil; local.Config{} is the simplest")}
	}
	if err := errors.Join(invalid.NoContext("plan", ctx), spec.Validate()); err != nil {
		return nil, err
	}
	book, question := StateDir("").history(), fmt.Sprintf("%T %+v %+v", provider, provider, spec.wants())
	plan, err := planNow(ctx, provider, spec, book)
	if err == nil {
		_ = book.KeepOffers(question, offersOf(plan)) // a plan can do without
		return plan, nil
	}
	offers, at := book.KeptOffers(question)
	if len(offers) == 0 || ctx.Err() != nil || !retry.IsTransient(err) {
		return nil, err
	}
	warning := fmt.Sprintf("it was there %v ago; the provider does not answer now: %s", time.Since(at).Round(time.Second), cutoff.OneLine(err))
	return candidates(market.Recall(provider.Name(), spec.wants(), offers, warning)), nil
}

// planNow asks the provider.
func planNow(ctx context.Context, provider Provider, spec Spec, book *history.Book) (plan []Candidate, err error) {
	d, err := market.OpenToAsk(ctx, provider)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	m := market.New(provider.Name(), d, spec.wants())
	m.Remember(func() market.History {
		page, _ := book.Read() // a plan can do without
		return page
	})
	weighed, err := m.Plan(ctx)
	return candidates(weighed), err
}

func candidates(weighed []market.Candidate) (plan []Candidate) {
	for _, c := range weighed {
		plan = append(plan, Candidate(c))
	}
	return plan
}

// offersOf returns the offers of a plan with all their warnings. Sources that could not be asked are left out.
func offersOf(plan []Candidate) (offers []Offer) {
	for _, c := range plan {
		if c.Offer.InstanceType != "" {
			c.Offer.Warnings = c.Warnings
			offers = append(offers, c.Offer)
		}
	}
	return offers
}
