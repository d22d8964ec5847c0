package cloud

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Second is the unit of all waiting here and in the providers that use this package: of list
// lags and of polling. Tests shorten it.
var Second = time.Second

// Limit returns how long to wait for what a cloud does within a number of seconds. Tests shorten Second, and the requests of a
// busy machine still take their time: a limit is 15 real seconds at least.
func Limit(seconds int) time.Duration { return max(time.Duration(seconds)*Second, 15*time.Second) }

// An API is the part of a driver that differs between clouds. Its methods can be called at the
// same time. They return the errors of the cloud's client; the [Driver] puts those into their
// form.
type API interface {
	// Capabilities, Offers, Prepare and Release are the driver's. The [Driver] checks the
	// pool's ID before, and fills in an offer's Provider.
	Capabilities() driver.Capabilities
	Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error]
	Prepare(ctx context.Context, pool driver.PoolInfo) error
	Release(ctx context.Context, pool driver.PoolInfo) error

	// Create rents one machine, tagged with order.Tag in the same call, and returns its ID. An
	// ID beside an error names a machine that exists. An error of no kind, or of
	// ErrUnavailable, leaves open whether a machine exists: the Driver then looks for the
	// node's name among Machines.
	Create(ctx context.Context, order Order) (id string, err error)

	// Machines returns the machines of a pool, or of all pools if poolID is empty, in any
	// state. Others may be among them. An incomplete answer is an error.
	Machines(ctx context.Context, poolID string) ([]Machine, error)

	// Machine returns one machine. Its error is of the kind ErrNotFound if the cloud answers
	// that the machine does not exist, and for no other reason.
	Machine(ctx context.Context, id string) (Machine, error)

	// End ends a machine with the call that ends billing, and removes what would be billed on
	// without it. A machine that does not exist may be ErrNotFound or a success. End may return
	// before the machine is gone.
	End(ctx context.Context, id string) error

	// Shared returns what a pool, or all pools, hold beside machines.
	Shared(ctx context.Context, poolID string) ([]driver.Resource, error)

	// Classify returns the kind of an operation's failure by the cloud's own text, and a hint
	// about it. If it returns no kind for a failed call, [StatusKind] applies.
	Classify(op string, err error) (hint string, kind error)

	// Close closes connections.
	Close()
}

// A Starter is an [API] that makes machines by one call and starts them by another.
type Starter interface {
	// Start starts a machine that Create has made, or that was found after Create's answer was
	// lost. The Driver ends a machine that cannot be started before it returns the error.
	Start(ctx context.Context, id string, order Order) error
}

// A Teller is an [API] that knows more of a new machine than its offer does, such as the real
// price.
type Teller interface {
	// Told describes a machine that Create has made, or that was found after Create's answer
	// was lost. If ok is false, the offer describes the machine.
	Told(ctx context.Context, id string) (m Machine, ok bool)
}

// A Together is an [API] that makes the machines of all nodes of a launch by one call.
type Together interface {
	// CreateTogether rents a machine for each of the orders, which differ in Node and Tag only,
	// and returns the machines in the same order. With an error there are none.
	CreateTogether(ctx context.Context, orders []Order) ([]Machine, error)
}

// An Ender is an [API] that can end several machines at once.
type Ender interface {
	// EndAll ends machines and returns, in their order, the result that [API.End] would have
	// for each.
	EndAll(ctx context.Context, ids []string) []error
}

// ErrUnproven is the result of an accepted call that ends several machines at once. It is
// neither a failure nor a proof that each of them is gone: Describe relies on the cloud's
// reports.
var ErrUnproven = errors.New("the cloud has accepted the end of several machines at once")

// An Order describes one machine to rent.
type Order struct {
	Pool  driver.PoolInfo
	Offer driver.Offer
	Spec  driver.Query
	Node  driver.NodeRequest
	Tag   pooltag.Tag // of the machine
	// Login is that of the registry of Spec.Image.
	Login driver.ImageLogin //secretvet:ignore its Password is exported
}

// Name returns the machine's name: "gputrain-" and the node's name.
func (o Order) Name() string { return pooltag.Prefix + o.Node.Name }

// A Machine is one machine as the cloud reports it.
type Machine struct {
	// Instance has no Name and Rank. Its Offer holds what the cloud itself reports of the offer
	// and the price. The offer of the launch, if known, fills in the rest.
	driver.Instance
	// Tag identifies the owner. If its Pool is empty, gputrain did not make the machine.
	Tag pooltag.Tag
	// Doubt is Resource.Doubt: see [pooltag.Tag.Doubt]. What a launch looks for is never a machine of which there is doubt.
	Doubt string
	// ListAs is the node's name in List's report of a machine that is not the one of its node and has no such name itself.
	ListAs string
	// Region is the machine's region, which List reports, if its offer is for several regions.
	Region string
}

// Options describe how a cloud's API is called.
type Options struct {
	// AtOnce bounds the creates, and the ends, at the same time. Zero means 4.
	AtOnce int
	// ByList makes Describe ask for the list of all machines even for one. Callers at the same
	// time share the list. It is for clouds that allow few calls.
	ByList bool
	// SpotVanishes means that the cloud has no state for preempted machines: an unknown spot
	// machine that was not ended here was preempted.
	SpotVanishes bool
	// ByID makes Describe ask for each machine by itself, for clouds whose lists lack the
	// machines' endpoints.
	ByID bool
}
