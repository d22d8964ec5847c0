package driver

import "context"

// A Balancer is a [Driver] that can ask for the money of its account.
type Balancer interface {
	// Balance returns the money of the account that has the offer. The pool asks before it rents
	// anything, at most once a minute.
	Balance(ctx context.Context, offer Offer) (Balance, error)
}

// A Balance is the money that an account can spend now. The zero value means that the provider tells
// none.
type Balance struct {
	// Known is false if the provider does not tell, or the account pays later, by invoice.
	Known bool
	// USD is the sum, with credits. It may be negative.
	USD float64
	// LeastUSD is the sum below which the provider launches nothing. Zero means that it launches
	// with any sum above zero.
	LeastUSD float64
	// LeastHours is for how many hours of a machine the sum must last before the provider launches it.
	LeastHours float64
}

// A Quoter is a [Driver] that can ask what its account may have.
type Quoter interface {
	// Quota returns how many more machines of an offer the account may have now. The driver keeps
	// answers for a minute, as the pool asks for each offer that it may try. An error of kind
	// [ErrAuth] means that the credential may not ask, which forbids no launch.
	Quota(ctx context.Context, offer Offer) (Quota, error)
}

// A Quota bounds the machines of an offer. The zero value means that the provider tells none.
type Quota struct {
	// Known is false if the provider has, or tells, no bound for the offer.
	Known bool
	// Machines is how many more machines of the offer the account may have.
	Machines int
	// Reason is the bound in the provider's words, with what it allows, what is used, and what one
	// machine needs: "Running On-Demand P instances (L-417A185B) in us-east-1: 96 vCPUs, of which 96
	// are used; a machine needs 96".
	Reason string
}
