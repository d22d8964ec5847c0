package gputrain

import (
	"context"
	"io"
	"iter"
	"net"
	"time"

	"github.com/gputrain/gputrain/accelerators"
)

// A Provider is a fixed configuration from which pools can be opened: a cloud
// account, a container engine, a list of hosts. It is a plain value: copying it
// copies everything, nothing is contacted until Open, and it can be used for
// many pools at once. Most users only ever write one down:
//
//	gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 4})
type Provider interface {
	// Name is the provider's short name, as errors, events and the ledger
	// have it: "local", "container", "vastai".
	Name() string

	// Open returns a driver for one pool. It checks what can be checked
	// without renting anything: that a key is there, that an engine answers.
	// An answer that is not understood is asked for again, and is [ErrUnavailable] if
	// that does not help.
	Open(ctx context.Context) (Driver, error)
}

// A Driver rents and ends the machines of one pool. It knows nothing of SSH or
// of tasks: the pool reaches every machine by the [Endpoint] that the driver
// reports. All methods can be called at the same time.
type Driver interface {
	// Capabilities says what this provider can do. It never changes.
	Capabilities() Capabilities

	// Offers yields what can be rented now and could satisfy the spec. The
	// driver may filter as far as its API can; the pool checks every offer
	// again. Leaving the loop early stops paging.
	Offers(ctx context.Context, spec Spec) iter.Seq2[Offer, error]

	// Prepare makes what the machines of a pool share: a network, a
	// registered key. It is idempotent, makes again what somebody has removed, and
	// tags what it makes with the pool. Each thing is put down by [PoolInfo.Record]
	// before it is made.
	Prepare(ctx context.Context, pool PoolInfo) error

	// Launch starts one machine for each of req.Nodes, tagged with the pool in
	// the create call itself, and does not wait until they can be reached. It
	// may return machines and an error: those machines exist and are the
	// caller's to keep or to terminate. One in state [InstanceFailed] beside an error is
	// terminated at once, and the error is the launch's. An ambiguous answer is settled by
	// listing and adopting, never by creating again: a driver that does so for as long
	// as lists lag calls [PoolInfo.Settling]; else the pool does. What is open after
	// that is [ErrUnavailable]; other kinds mean that nothing was made but what is
	// returned. A [CallError] in the chain says whether the provider answered.
	Launch(ctx context.Context, req LaunchRequest) ([]Instance, error)

	// Describe reports the named machines. One that is gone is reported in
	// state [InstanceTerminated], not left out.
	Describe(ctx context.Context, ids ...string) ([]Instance, error)

	// List reports everything the provider holds for a pool, by its ID, or for
	// every pool where poolID is empty: machines, networks, keys. An odd or
	// failed answer is an error, never an empty list. What was made within
	// Capabilities.ListLag may be missing.
	List(ctx context.Context, poolID string) ([]Resource, error)

	// Terminate ends the named machines by the verb that ends billing. It is
	// idempotent: a machine that is gone already is a success. It is called again as
	// long as Describe shows the machine: that the API has answered does not say that
	// the machine has ended.
	Terminate(ctx context.Context, ids ...string) error

	// Release removes exactly what Prepare made. It is idempotent. While pool.Remaining names
	// machines it leaves what these still use, or need to end themselves, and does not wait
	// for their end: it is called again.
	Release(ctx context.Context, pool PoolInfo) error

	// Close gives up what the driver itself holds. No machine is touched.
	Close() error
}

// A Dialer is a [Driver] whose machines are not reached by host and port.
type Dialer interface {
	// Dial connects to the SSH server of a machine.
	Dial(ctx context.Context, instance Instance) (net.Conn, error)
}

// A SelfDestructor is a [Driver] whose machines can end themselves.
type SelfDestructor interface {
	// SelfDestruct returns POSIX shell text by which the machine, with what it
	// alone was given, ends itself once its lease or TTL has run out.
	SelfDestruct(instance Instance) string
}

// A Resumer is a [Driver] whose machines can be reached only through the program
// that launched them.
type Resumer interface {
	// Resume makes the machines of a pool reachable again after that program has
	// ended, for [Attach]: with the host keys that they had, and for the key of
	// pool.AuthorizedKey. It is idempotent. Machines that are gone are left out.
	Resume(ctx context.Context, pool PoolInfo, ids ...string) error
}

// A LeaseMarker is a [Driver] that can note on the machines, where [Driver.List]
// finds it again as Resource.LeaseUntil, how long their pool's program is known
// to live. [Reap] on another computer goes by that.
type LeaseMarker interface {
	MarkLease(ctx context.Context, pool PoolInfo, until time.Time, ids ...string) error
}

// A PreemptionWatcher is a [Driver] whose machines are told of a preemption
// ahead, by other means than Instance.PreemptAt.
type PreemptionWatcher interface {
	// PreemptionWatch returns POSIX shell text that looks once, on the machine,
	// for a notice: it prints the seconds that are left, or nothing.
	PreemptionWatch(instance Instance) string
}

// A Prober is a [Driver] of machines that it knows nothing of before the pool has
// reached them, and of whose troubles it knows more than the pool.
type Prober interface {
	// Probe returns POSIX shell text that looks at the machine, each time that a
	// program takes it over, and prints what it finds.
	Probe(instance Instance) string
	// Probed returns the accelerator that the machine has, by what the text has
	// printed, or why it is not what the spec asks for.
	Probed(instance Instance, spec Spec, printed string) (accelerators.Accelerator, error)
	// Advise says what to do about a machine that cannot be reached, by the kind
	// of that error: [ErrHostKey], [ErrAuth] or [ErrUnavailable].
	Advise(kind error) string
}

// An AddressFinder is a [Driver] of machines that alone know by what address the other
// nodes of their pool reach them.
type AddressFinder interface {
	// FindAddress returns POSIX shell text that looks, on the machine, for what is to be
	// its Instance.PrivateAddr: it prints an IP address, or nothing where it has none.
	// Empty text means that there is nothing to look for.
	FindAddress(instance Instance) string
}

// Capabilities says what a provider can do. The zero value claims nothing.
type Capabilities struct {
	// Account names the account, project, engine or machine that this driver works
	// in, with its region where one is fixed, without secrets. What was made in one
	// account is not looked for in another.
	Account string
	// ListLag is how long what was made may be missing from List. Zero means that
	// it is there at once.
	ListLag time.Duration
	// LateEffect is how long after its program was killed, or its call was given up
	// without an answer, something may still be made: a request that was sent is carried
	// out all the same. Zero means that nothing is. A call that was answered with an error
	// has no late effect: see [CallError].
	LateEffect time.Duration
	// Adopts is true where machines exist already: they are taken as they are,
	// left as found, and never terminated.
	Adopts bool
	// KeepCache leaves on adopted machines what the next pool there can use
	// again: programs by their hash, Python environments.
	KeepCache bool
	// Free is true where machines cost nothing.
	Free bool
	// Spot is true where machines can be rented at a spot price.
	Spot bool
	// PreemptionNotice is how long before a preemption the machine is told.
	PreemptionNotice time.Duration
	// EndsBilling names the provider's verb that ends billing.
	EndsBilling string
	// PrivateNetwork is true where nodes reach each other by Instance.PrivateAddr.
	PrivateNetwork bool
	// LocalAddresses is true where a machine's SSH server may be at an address that no
	// machine elsewhere has: of this computer (127.0.0.1), its link, a cloud's metadata,
	// or for multicast. It is so where the API's own address is, as a gateway's on this
	// computer or a test server's. Where it is false a machine at one, or at a name for
	// one, is given up before anything is sent, unless it is adopted or by a [Dialer].
	LocalAddresses bool
	// Mounts is true where Spec.Mounts is understood.
	Mounts bool
	// DiskResizable is true where Spec.DiskGiB decides the size of the disk.
	DiskResizable bool
	// Tags is true where machines carry tags that List finds again.
	Tags bool
	// HostKeys says how a machine's host key comes to be known. A machine of another way
	// than HostKeyFirstContact whose Endpoint tells no key is not connected to.
	HostKeys HostKeySource
	// ProvisionTimeout is how long a machine may take from launch until SSH
	// answers. Zero means [DefaultProvisionTimeout].
	ProvisionTimeout time.Duration
}

// DefaultProvisionTimeout is how long a machine may take from its launch until
// its SSH server answers, where the provider does not say otherwise.
const DefaultProvisionTimeout = 10 * time.Minute

// A HostKeySource says how the host key of a machine comes to be known.
type HostKeySource int

const (
	// HostKeyFirstContact records the key at the first connection and holds
	// the machine to it from then on. Whoever answers that connection is believed.
	HostKeyFirstContact HostKeySource = iota
	// HostKeyInjected means that the pool makes the key and the driver puts it
	// into the machine before it starts: LaunchRequest.Nodes[i].HostKey.
	HostKeyInjected
	// HostKeyPublished means that the driver reports it in Endpoint.HostKeys.
	HostKeyPublished
	// HostKeyConfigured means that the user states it: a known_hosts file or
	// a pinned fingerprint.
	HostKeyConfigured
)

// String returns "first contact", "injected", "published" or "configured".
func (s HostKeySource) String() string {
	switch s {
	case HostKeyInjected:
		return "injected"
	case HostKeyPublished:
		return "published"
	case HostKeyConfigured:
		return "configured"
	}
	return "first contact"
}

// PoolInfo is what a driver needs to know of the pool it works for.
type PoolInfo struct {
	// ID is unique: lower-case letters, digits and dashes, at most 40, starting
	// with a letter. It tags everything that is made for the pool.
	ID string
	// Name is the user's name for the pool, by WithName, or "".
	Name string
	// Owner is the program that has the pool: host, process id and start, as
	// "host/pid/start" in letters, digits, dots, dashes and slashes.
	Owner string
	// Lease is Spec.Lease, and DefaultLease where that is zero.
	Lease time.Duration
	// AuthorizedKey is the pool's public key in authorized_keys form.
	AuthorizedKey string
	// Expires is when the pool ends by its TTL. Zero means that it has none.
	Expires time.Time
	// Made is what was recorded by Record and is not known to be gone.
	Made []Resource
	// Remaining are the IDs of machines that were asked to end and are not confirmed gone,
	// for Release alone. Empty means that there is none.
	Remaining []string

	record   func(Resource) error
	settling func(why error, until time.Time)
}

// An Offer is something that can be rented now, at a price, in a place.
type Offer struct {
	// Provider is the provider's name.
	Provider string
	// ID is the provider's own name for the offer, where it has one.
	ID string
	// InstanceType is the provider's name for the kind of machine.
	InstanceType string
	// Region is where it is, in the provider's words.
	Region string
	// Accelerator is what one machine has, with its count. The zero value
	// means none.
	Accelerator accelerators.Accelerator
	// Arch is the processors' architecture in Go's words: "amd64", "arm64". Empty
	// means not known.
	Arch string
	// VCPUs, MemoryGiB and DiskGiB are per machine. Zero means not known.
	VCPUs     float64
	MemoryGiB float64
	DiskGiB   float64
	// HourlyUSD is the price of one machine for one hour, with a disk of Spec.DiskGiB
	// where its provider's page does not say otherwise.
	HourlyUSD Price
	// IngressUSD and EgressUSD are the prices of a GiB that the machine receives from
	// the internet, and sends there. They are not in HourlyUSD. Zero means free, or
	// not known.
	IngressUSD, EgressUSD float64
	// Spot is true where HourlyUSD is a spot price: the machine can be preempted.
	Spot bool
	// BillingUnit is the time that billing is rounded up to. Zero means seconds.
	BillingUnit time.Duration
	// Available is how many machines could be launched now. Zero means not known.
	Available int

	member int // of a group, whose offer it is, from 1
}

// A LaunchRequest asks for machines of one offer.
type LaunchRequest struct {
	Pool  PoolInfo
	Offer Offer
	Spec  Spec
	// Nodes is what is wanted: one machine each.
	Nodes []NodeRequest
	// Token makes the call idempotent where the API has such a thing: the same
	// token never launches twice.
	Token string
	// Output returns where what a phase of Spec.Image prints goes, for a driver that runs
	// phases before its machines start. Nil discards it.
	Output func(phase string) io.Writer
}

// A NodeRequest asks for one machine.
type NodeRequest struct {
	// Rank is the node's index in the pool, from 0.
	Rank int
	// Name is unique in the pool and fit for a host name: "<pool id>-<rank>",
	// with a suffix for a replacement.
	Name string
	// HostKey is what the machine's SSH server must prove itself with, for a
	// provider whose Capabilities.HostKeys is HostKeyInjected.
	HostKey HostKey
}

// A HostKey is an SSH server's identity.
type HostKey struct {
	// Private is the private key in OpenSSH's PEM form.
	Private Secret
	// Public is the public key in authorized_keys form.
	Public string
}

// An Instance is one machine as its provider knows it.
type Instance struct {
	// ID is the provider's name for the machine.
	ID string
	// Name is NodeRequest.Name, and Rank NodeRequest.Rank.
	Name string
	Rank int
	// State is where the machine is in its life, and StateReason why, in the
	// provider's words.
	State       InstanceState
	StateReason string
	// PublicAddr and PrivateAddr are addresses without a port. PrivateAddr is
	// what other nodes of the pool reach it by. Either may be empty.
	PublicAddr  string
	PrivateAddr string
	// SSH says how to reach the machine. It may be empty until it runs.
	SSH Endpoint
	// Offer is what was rented, with the price that is really charged.
	Offer Offer
	// PreemptAt is when the provider will take the machine back, once that is
	// known. Zero means that it is not.
	PreemptAt time.Time
	// Labels are what else tasks can choose the machine by: see [OnLabels]. The
	// pool adds its own, such as [LabelRegion].
	Labels map[string]string
}

// An InstanceState is where a machine is in its life.
type InstanceState int

const (
	// InstanceUnknown is a state that the provider's table does not have.
	InstanceUnknown InstanceState = iota
	// InstancePending is on its way up. It may be billed already.
	InstancePending
	// InstanceRunning is up, as far as the provider can tell.
	InstanceRunning
	// InstanceStopped does not run but exists, and may be billed.
	InstanceStopped
	// InstancePreempted was taken back by the provider.
	InstancePreempted
	// InstanceFailed will not come up.
	InstanceFailed
	// InstanceTerminated is gone and bills no more.
	InstanceTerminated
)

// String returns the state in lower case: "running".
func (s InstanceState) String() string {
	return nameOf(s, "unknown", "pending", "running", "stopped", "preempted", "failed", "terminated")
}

// An Endpoint says how to reach the SSH server of a machine, and how each side
// proves who it is.
type Endpoint struct {
	// Addr is host:port. Nothing assumes port 22.
	Addr string
	// User is whom to log in as.
	User string
	// HostKeys are the keys the server may have, each in authorized_keys form
	// or as a "SHA256:" fingerprint. Empty, with KnownHosts empty too, means
	// that the first contact decides.
	HostKeys []string
	// KnownHosts is a file in known_hosts form that must name the server.
	KnownHosts string
	// KeyFile is a private key to log in with instead of the pool's own.
	KeyFile string
	// Agent adds the keys of the user's SSH agent.
	Agent bool
	// Password is used once, to put the pool's key in place; again only where the server
	// takes no key from ~/.ssh/authorized_keys. It is the password itself,
	// never a reference: it may be what a provider's API has answered. It is sent to a
	// server whose key is certain, and to another only if PasswordAtFirstContact is true.
	Password Secret
	// PasswordAtFirstContact is the user's word, in the provider's Config, that Password
	// may go to a server whose key the first contact decides: to whoever answers there.
	PasswordAtFirstContact bool
}

// A Resource is something a provider holds for a pool.
type Resource struct {
	Provider string
	// Kind is what it is: "machine", "network", "key", "volume".
	Kind string
	ID   string
	// Name is the name it was made under, and Region its place.
	Name      string
	Region    string
	HourlyUSD Price
	// Pool is the ID of the pool, and Owner PoolInfo.Owner when it was made.
	Pool, Owner string
	// State is a machine's state. It is InstanceUnknown for everything else.
	State InstanceState
	// Created is when it was made. Zero means not known.
	Created time.Time
	// Lease is PoolInfo.Lease, and Expires PoolInfo.Expires.
	Lease   time.Duration
	Expires time.Time
	// LeaseUntil is what a LeaseMarker noted last. Zero means nothing.
	LeaseUntil time.Time
}
