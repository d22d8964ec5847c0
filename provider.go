package gputrain

import (
	"github.com/gputrain/gputrain/internal/market"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Provider is a fixed configuration from which pools can be opened: a cloud account, a container
// engine, a list of hosts. Its type is a Config of one of the packages under providers, or what
// [Cheapest] or [FirstOf] makes of several. It is a plain value: copying it copies everything,
// nothing is contacted until [Open], and it can be used for many pools at once. Package driver says
// how to write a provider.
type Provider = driver.Provider

// An Offer is a machine type that can be rented now, at a price, in a place. [Plan] returns it in a
// [Candidate]. Its fields are in package driver.
type Offer = driver.Offer

// A Resource is something that a provider holds for a pool, such as a machine or a network: [Reap]
// returns what it has ended, a [LeakError] what is left. Its fields are in package driver.
type Resource = driver.Resource

// A Price is US dollars per hour for one machine. Its USD method returns it and whether it
// is known. The zero value is a price that is not known, which is never the same as free.
type Price = driver.Price

// A Secret is a credential that prints as "[redacted]" under every fmt verb, in JSON and in slog.
// It is the credential itself, or a reference to it: env://NAME, file://PATH, store://SERVICE/USER,
// cmd://COMMAND LINE or literal://TEXT. Package driver says when a reference is looked up, and in
// which cases fmt prints a Secret in clear.
type Secret = driver.Secret

// An Allocation says how nodes are rented, spot or on demand.
type Allocation = driver.Allocation

const (
	// OnDemand rents at the fixed price, and is never preempted.
	OnDemand = driver.OnDemand
	// SpotIfAvailable rents spot, and on demand if there is none, or if that costs less.
	SpotIfAvailable = driver.SpotIfAvailable
	// Spot rents spot only.
	Spot = driver.Spot
	// CheapestAllocation rents whatever costs least now.
	CheapestAllocation = driver.CheapestAllocation
)

// A Mount attaches storage that outlives the pool. It has a Source, in the provider's words,
// a Target, which is an absolute path on the node, and ReadOnly.
type Mount = driver.Mount

// A HostKeySource says how the host key of a node's SSH server is known.
type HostKeySource = driver.HostKeySource

const (
	// HostKeyFirstContact means that the first connection showed the key. Any server that answered
	// was trusted, and must show the same key from then on.
	HostKeyFirstContact = driver.HostKeyFirstContact
	// HostKeyInjected means that the pool made the key, and the machine started with it.
	HostKeyInjected = driver.HostKeyInjected
	// HostKeyPublished means that the provider's API reports the key.
	HostKeyPublished = driver.HostKeyPublished
	// HostKeyConfigured means that the user has configured the key: a known_hosts file or a pinned
	// fingerprint.
	HostKeyConfigured = driver.HostKeyConfigured
)

// Cheapest returns a provider made of others, its members. A pool of it takes the cheapest
// machines of all members that satisfy the spec. If these cannot be had, since capacity or
// quota is missing or the price has changed, it takes the next cheapest. So its nodes may be
// at several providers, and then have no private network in common. One provider may be a
// member several times, configured differently.
//
// A member that cannot be asked, since its key is missing or it does not answer, is left out
// as long as another one has offers: an [EventTrouble] of state "member" reports it, and so does
// [Plan]. What a member's machines can do, they can do here too. IDs of machines begin with
// the member's name.
//
// The members of a member that is Cheapest count as members themselves. For a member that is
// FirstOf, Open returns [ErrInvalid].
func Cheapest(providers ...Provider) Provider { return market.Cheapest(providers...) }

// FirstOf returns a provider made of others, its members. A pool of it takes machines of the
// first member that has any that satisfy the spec, and those that cannot be had there of the
// next. Of one member's machines it takes the cheapest. Its members may be Cheapest or FirstOf.
// Otherwise it behaves as [Cheapest].
func FirstOf(providers ...Provider) Provider { return market.FirstOf(providers...) }
