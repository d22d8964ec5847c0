package driver

import (
	"context"
	"iter"
	"net"
	"time"
)

// A Provider is a fixed configuration from which pools can be opened: a cloud account, a
// container engine, a list of hosts. It is a plain value: copying it copies everything, it
// contacts nothing until Open, and it can be used for many pools at once. Most users only write
// one:
//
//	gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4})
type Provider interface {
	// Name is the provider's short name in errors, events and the ledger: "local", "container",
	// "vastai".
	Name() string

	// Open returns a driver for one pool. It checks what can be checked without renting
	// anything: that a key exists, that an engine answers. If an answer is unreadable, Open
	// asks again, and returns [ErrUnavailable] if that does not help.
	Open(ctx context.Context) (Driver, error)
}

// A Driver rents and ends the machines of one pool. It knows nothing of SSH or of tasks: the
// pool reaches every machine by the driver's [Endpoint]. All methods can be called at the same
// time.
type Driver interface {
	// Capabilities describe what this provider can do. They never change. An offer whose
	// machines differ has Offer.Capabilities.
	Capabilities() Capabilities

	// Offers yields the offers of the moment that could satisfy the query. The driver may
	// filter as far as its API can; the pool checks every offer again. Leaving the loop early
	// stops paging. If only some of several sources can be asked, a [*PartialError] follows
	// their offers.
	Offers(ctx context.Context, query Query) iter.Seq2[Offer, error]

	// Prepare makes what the machines of a pool share: a network, a registered key. It is
	// idempotent, makes again what another program has removed, and tags what it makes with the
	// pool. It records each thing by [PoolInfo.Record] before it makes it.
	Prepare(ctx context.Context, pool PoolInfo) error

	// Launch starts one machine for each of req.Nodes, tagged with the pool in the create call
	// itself, and does not wait until they can be reached. It may return machines and an error:
	// those machines exist, and the caller keeps or terminates them. A machine in state
	// [InstanceFailed] beside an error is terminated at once, and the error is the launch's. An
	// ambiguous answer is settled by listing and adopting, never by creating again: a driver
	// that does so for as long as lists lag calls [PoolInfo.Settling]; otherwise the pool does.
	// If it is still open then, the error is [ErrUnavailable]; other kinds mean that nothing
	// was made beyond the returned machines. A [CallError] in the chain reports whether the
	// provider answered.
	Launch(ctx context.Context, req Launch) ([]Instance, error)

	// Describe reports the named machines. A gone machine is reported in state
	// [InstanceTerminated], not omitted.
	Describe(ctx context.Context, ids ...string) ([]Instance, error)

	// List lists everything that the provider holds for a pool, by its ID, or for every pool if
	// poolID is empty: machines, networks, keys. An odd or failed answer is an error, never an
	// empty list. Things that were made within Capabilities.ListLag may be missing. Each is
	// described by its own tags, never by those of other things of its pool.
	List(ctx context.Context, poolID string) ([]Resource, error)

	// Terminate ends the named machines with the call that ends billing. It is idempotent: a
	// machine that is already gone is a success. The pool repeats it as long as Describe shows
	// the machine, as the API's answer does not prove the machine's end.
	Terminate(ctx context.Context, ids ...string) error

	// Release removes exactly what Prepare made. It is idempotent. While pool.Remaining names
	// machines, it leaves what these still use, or need to end themselves, and does not wait
	// for their end: the pool calls it again.
	Release(ctx context.Context, pool PoolInfo) error

	// Close releases what the driver itself holds. It touches no machine.
	Close() error
}

// A Dialer is a [Driver] whose machines are not reached by host and port.
type Dialer interface {
	// Dial connects to the SSH server of a machine.
	Dial(ctx context.Context, instance Instance) (net.Conn, error)
}

// A Resumer is a [Driver] whose machines can be reached only through the program
// that launched them.
type Resumer interface {
	// Resume makes the machines of a pool reachable again after that program has ended, for
	// gputrain.Attach: with their former host keys, and for the key of pool.AuthorizedKey. It
	// is idempotent, and skips machines that are gone.
	Resume(ctx context.Context, pool PoolInfo, ids ...string) error
}

// A LeaseMarker is a [Driver] that can record on the machines until when the lease of their
// pool's program runs. [Driver.List] reports that as Resource.LeaseUntil, on which
// gputrain.Reap on another computer relies.
type LeaseMarker interface {
	MarkLease(ctx context.Context, pool PoolInfo, until time.Time, ids ...string) error
}

// An Adviser is a [Driver] that may know why one of its machines cannot be reached.
type Adviser interface {
	// Advise returns a hint about the machine for a kind of error: [ErrHostKey], [ErrAuth] or
	// [ErrUnavailable]. Empty text means that it has none.
	Advise(instance Instance, kind error) string
}

// A PublicProvider is a [Provider] whose offers anyone can ask for.
type PublicProvider interface {
	Provider
	// OpenPublic returns a driver without credentials, of which only Capabilities, Offers and Close
	// are called. gputrain.Plan uses it if Open fails with ErrAuth. If there is a credential, which is then
	// wrong, OpenPublic fails.
	OpenPublic(ctx context.Context) (Driver, error)
}
