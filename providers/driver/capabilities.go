package driver

import "time"

// Capabilities describe what a provider can do. The zero value claims nothing.
type Capabilities struct {
	// Account names the account, project, engine or machine that this driver works in, with its
	// region if one is fixed, without secrets. The pool does not look in one account for things
	// made in another.
	Account string
	// Accounts are the accounts of a driver that is made of other drivers, by their keys, with
	// the capabilities of each account's machines. Its resources name theirs by
	// Resource.Account. Empty means that there is only one.
	Accounts map[string]*Capabilities
	// List may lack new things for ListLag. Zero means that they are listed at once.
	ListLag time.Duration
	// LateEffect bounds the time for which a call may still make things after it was given up
	// without an answer, or after its program was killed: a request that was sent is executed
	// nevertheless. Zero means that nothing is made late. A call that was answered with an
	// error has no late effect: see [CallError].
	LateEffect time.Duration
	// Adopts is true if machines exist already: they are taken as they are, left as they were,
	// and never terminated.
	Adopts bool
	// Queues is true if a machine waits in a queue of the provider until there is room, for a time that its Config bounds. One
	// that fails with [ErrNoCapacity], or [ErrQuota], before it was a node has had that time: the pool asks elsewhere, and not
	// there again for a while.
	Queues bool
	// KeepCache leaves on adopted machines what the next pool there can reuse: programs by
	// their hash, Python environments.
	KeepCache bool
	// EndsWithProgram is true if machines end with this program, such as those of a cloud that is simulated in its
	// memory: no other program can take them up.
	EndsWithProgram bool
	// Free is true if machines cost nothing.
	Free bool
	// Spot is true if machines can be rented at a spot price.
	Spot bool
	// A machine gets PreemptionNotice before a preemption.
	PreemptionNotice time.Duration
	// EndsBilling names the provider's call that ends billing.
	EndsBilling string
	// PrivateNetwork is true if nodes reach each other by Instance.PrivateAddr.
	PrivateNetwork bool
	// RegionalNetwork is true if PrivateNetwork joins only machines of one Offer.Region.
	RegionalNetwork bool
	// Ports says who reaches the ports that programs open on a machine, beside the pool's machines.
	Ports PortAccess
	// Images is set if machines are containers of the image of Query.Image. Nil means that they
	// are machines, on which gputrain itself runs that image.
	Images *Images
	// LocalAddresses is true if a machine's SSH server may be at an address that means another
	// machine elsewhere: this computer's (127.0.0.1, or one of its interfaces'), link-local, a
	// cloud's metadata service, or multicast. That is so if the API's own address is such a one, as a gateway's on this
	// computer or a test server's. If it is false, a machine at such an address, or at a name
	// for one, is given up before anything is sent, unless it is adopted or the driver is a
	// [Dialer].
	LocalAddresses bool
	// Mounts is true if Spec.Mounts is supported.
	Mounts bool
	// DiskResizable is true if Spec.DiskGiB determines the size of the disk.
	DiskResizable bool
	// Tags is true if machines carry tags that List finds again.
	Tags bool
	// UserTags is true if machines get PoolInfo.Tags, the user's own tags. If it is false, an offer of them has a warning
	// for a spec with Tags.
	UserTags bool
	// HostKeys is the source of a machine's host key. Unless it is HostKeyFirstContact, the
	// pool does not connect to a machine whose Endpoint has no key.
	HostKeys HostKeySource
	// ProvisionTimeout bounds the time from a machine's launch until its SSH server answers.
	// Zero means [DefaultProvisionTimeout].
	ProvisionTimeout time.Duration
	// BootstrapTimeout bounds the preparation of a machine from then on: all phases of the spec's Image together. Zero
	// means that only Image.PhaseTimeout bounds it.
	BootstrapTimeout time.Duration
}

// Images describe how a provider rents containers of images.
type Images struct {
	// Configured is the image that the provider's Config names. A spec may name no other one.
	// Empty means that Config leaves it open.
	Configured string
	// Logins is true if the provider takes a login for the image's registry.
	Logins bool
	// NoLogin says what to do instead if Logins is false: "; set Config.RegistryAuth".
	NoLogin string
}

// Of returns the capabilities of an offer's machines: the offer's own, or else c.
func (c Capabilities) Of(o Offer) Capabilities {
	if o.Capabilities != nil {
		return *o.Capabilities
	}
	return c
}

// DefaultProvisionTimeout bounds the time from a machine's launch until its SSH server answers,
// if the provider sets no other.
const DefaultProvisionTimeout = 10 * time.Minute

// A PortAccess says who, beside the pool's own machines, reaches the ports that programs open on a machine. Ports that the
// provider's Config opens on purpose, and the SSH server's, are not meant.
type PortAccess int

const (
	// PortsUnknown means that nothing is known to keep anyone out, the internet included.
	PortsUnknown PortAccess = iota
	// PortsOfNetwork means that the internet is kept out, but not what shares a network with the machine: other
	// machines of the account, the host, or the cluster.
	PortsOfNetwork
	// PortsOfPool means that a firewall, or a network of the pool's own, keeps out everything else.
	PortsOfPool
)

// String returns "unknown", "network" or "pool".
func (a PortAccess) String() string {
	switch a {
	case PortsOfNetwork:
		return "network"
	case PortsOfPool:
		return "pool"
	}
	return "unknown"
}

// A HostKeySource is the way in which a machine's host key becomes known.
type HostKeySource int

const (
	// HostKeyFirstContact records the key at the first connection and expects it from then on.
	// Any server that answers that connection is trusted.
	HostKeyFirstContact HostKeySource = iota
	// HostKeyInjected means that the pool makes the key and the driver puts it into the machine
	// before it starts: Launch.Nodes[i].HostKey.
	HostKeyInjected
	// HostKeyPublished means that the driver reports it in Endpoint.HostKeys.
	HostKeyPublished
	// HostKeyConfigured means that the user supplies it: a known_hosts file or a fingerprint.
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
