package cloud

import (
	"context"
	"iter"
	"time"

	"github.com/gputrain/gputrain"
)

// Second is how long a second is for what waits here and in the providers that are made of
// this package: how long answers lag, how long it is until the next look. Tests shorten it.
var Second = time.Second

// An API is what differs from one cloud to the next. Its methods can be called at the same
// time. Their errors are as the cloud's client has them: the [Driver] gives them their form.
type API interface {
	// Capabilities, Offers, Prepare and Release are the driver's. The pool's ID was
	// checked, and an offer's Provider is filled in.
	Capabilities() gputrain.Capabilities
	Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error]
	Prepare(ctx context.Context, pool gputrain.PoolInfo) error
	Release(ctx context.Context, pool gputrain.PoolInfo) error

	// Create rents one machine, marked as order.Tag says in the call itself, and returns
	// its ID. With an error the ID is of a machine that exists all the same. An error of
	// no kind, or of ErrUnavailable, leaves open whether there is one: it is looked for
	// among Machines, by the node's name.
	Create(ctx context.Context, order Order) (id string, err error)

	// Machines returns the machines of a pool, or of all pools where poolID is empty, in
	// whatever state. Others may be among them. An answer that is not whole is an error.
	Machines(ctx context.Context, poolID string) ([]Machine, error)

	// Machine returns one machine. Where the cloud says that it does not exist the error
	// is of the kind ErrNotFound, and for no other reason.
	Machine(ctx context.Context, id string) (Machine, error)

	// End ends a machine by the verb that ends billing, and what would go on being billed
	// without it. One that does not exist may be ErrNotFound, or a success. It may
	// return before the machine is gone.
	End(ctx context.Context, id string) error

	// Shared returns what is held for a pool, or for all, beside machines.
	Shared(ctx context.Context, poolID string) ([]gputrain.Resource, error)

	// Classify says what kind of failure of an operation an error is, and what to do
	// about it: by the cloud's own words. Without a kind, and for a call that failed, it
	// is [StatusKind] that counts.
	Classify(op string, err error) (hint string, kind error)

	// Close gives back connections.
	Close()
}

// A Starter is an [API] whose machines are made by one call and started by others.
type Starter interface {
	// Start starts a machine that Create has made, or that was found where the answer to
	// that was lost. One that cannot be started is ended before its error is returned.
	Start(ctx context.Context, id string, order Order) error
}

// An Order is one machine to be rented.
type Order struct {
	Pool  gputrain.PoolInfo
	Offer gputrain.Offer
	Spec  gputrain.Spec
	Node  gputrain.NodeRequest
	Tag   Tag // of the machine
}

// Name is what the machine is called: "gputrain-" and the node's name.
func (o Order) Name() string { return Prefix + o.Node.Name }

// A Machine is one machine as the cloud tells of it.
type Machine struct {
	// Instance is without Name and Rank, and its Offer holds what the cloud itself tells of
	// what was rented and charged. What it does not tell is taken from the offer that the
	// machine was launched by, if that is known.
	gputrain.Instance
	// Tag is whose it is. Without a Pool it is not gputrain's.
	Tag Tag
}

// Options say how a cloud likes to be called.
type Options struct {
	// AtOnce bounds how many creates, and how many ends, are under way. Zero means 4.
	AtOnce int
	// ByList has Describe of even one machine ask for the list of all, which those who
	// ask at the same time share, for clouds that bear few calls.
	ByList bool
	// SpotVanishes says of a cloud that a spot machine which it does not know any more,
	// and that nobody here has ended, was preempted: it says so by no state.
	SpotVanishes bool
	// ByID has Describe ask for each machine by itself, for clouds whose lists do not tell
	// how machines are reached.
	ByID bool
}
