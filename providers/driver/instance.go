package driver

import "time"

// An Instance is one machine in its provider's view.
type Instance struct {
	// ID is the provider's name for the machine.
	ID string
	// Name is NodeRequest.Name, and Rank NodeRequest.Rank.
	Name string
	Rank int
	// State is the machine's state, and StateReason its reason in the provider's words.
	State       InstanceState
	StateReason string
	// Unbilled is true if the provider bills no time in this state. It counts only for an Offer whose
	// Billing begins after the launch, until it has begun.
	Unbilled bool
	// FailureKind is one of the Err values, for a machine that will not come up: [ErrQuota] if a queue keeps it
	// out for good. Nil means [ErrNoCapacity].
	FailureKind error
	// PublicAddr and PrivateAddr are addresses without a port. The pool's other nodes reach the
	// machine by PrivateAddr. Either may be empty.
	PublicAddr  string
	PrivateAddr string
	// Ports are the addresses, as host:port, by which the internet reaches the machine's own ports, if
	// the provider maps them to others. Nil means that a port is reached at PublicAddr by its own number.
	Ports map[int]string
	// SSH is the endpoint of the machine. It may be empty until the machine runs.
	SSH Endpoint
	// Offer is the rented offer, with the price that is really charged.
	Offer Offer
	// PreemptAt is the time at which the provider will take the machine back. Zero means
	// unknown.
	PreemptAt time.Time
	// Labels are further labels by which tasks can choose the machine: see gputrain.OnLabels.
	// The pool adds its own, such as gputrain.LabelRegion.
	Labels map[string]string
}

// An InstanceState is the state of a machine.
type InstanceState int

const (
	// InstanceUnknown is a state that is not in the provider's table.
	InstanceUnknown InstanceState = iota
	// InstancePending is starting. It may already be billed.
	InstancePending
	// InstanceRunning is up, as far as the provider can see.
	InstanceRunning
	// InstanceStopped exists without running, and may be billed.
	InstanceStopped
	// InstancePreempted was taken back by the provider.
	InstancePreempted
	// InstanceFailed will not come up.
	InstanceFailed
	// InstanceTerminated is gone and no longer billed.
	InstanceTerminated
)

// String returns the state in lower case: "running".
func (s InstanceState) String() string {
	return nameOf(s, "unknown", "pending", "running", "stopped", "preempted", "failed", "terminated")
}

// An Endpoint is the address of a machine's SSH server, with the keys for both sides.
type Endpoint struct {
	// Addr is host:port. Nothing assumes port 22.
	Addr string
	// User is the user to log in as.
	User string
	// HostKeys are the server's possible keys, each in authorized_keys form or as a "SHA256:"
	// fingerprint. If it and KnownHosts are empty, the first contact decides.
	HostKeys []string
	// KnownHosts is a file in known_hosts form that must name the server.
	KnownHosts string
	// KeyFile is a private key to log in with instead of the pool's own.
	KeyFile string
	// KeyFiles are further private keys, which are tried after KeyFile, in this order.
	KeyFiles []string
	// Agent adds the keys of the user's SSH agent.
	Agent bool
	// Password is used once, to install the pool's key, and again only if the server accepts no
	// key from ~/.ssh/authorized_keys. It is the password itself, never a reference, as it may
	// come from a provider's API. It is sent to a server with a verified key; to another server
	// only if PasswordAtFirstContact is true.
	Password Secret
	// PasswordAtFirstContact is the user's permission, in the provider's Config, to send
	// Password to a server whose key the first contact decides: to any server that answers
	// there.
	PasswordAtFirstContact bool
}

// Identities returns KeyFile, if it is set, and KeyFiles: the files of the user's own keys.
func (e Endpoint) Identities() []string {
	if e.KeyFile == "" {
		return e.KeyFiles
	}
	return append([]string{e.KeyFile}, e.KeyFiles...)
}

// A Resource is a thing that a provider holds for a pool.
type Resource struct {
	Provider string
	// Account is the account that holds it, by a key of Capabilities.Accounts. Empty means the
	// driver's only one.
	Account string
	// Kind is "machine", "network", "key", "volume" or another kind.
	Kind string
	ID   string
	// Name is the name that it was made with, and Region its place.
	Name      string
	Region    string
	HourlyUSD Price
	// Pool is the ID of the pool, and Owner its PoolInfo.Owner at the time.
	Pool, Owner string
	// Doubt says why a machine with the pool's tag may be a stranger's: its provider's own name for
	// it, or the time at which it was made, is not the one of the tag. Empty means that they agree,
	// as far as the provider reports them. A machine of which there is doubt is never ended by its
	// tag.
	Doubt string
	// State is a machine's state. It is InstanceUnknown for other kinds.
	State InstanceState
	// Created is the time of creation. Zero means unknown.
	Created time.Time
	// Lease is PoolInfo.Lease, and Expires PoolInfo.Expires.
	Lease   time.Duration
	Expires time.Time
	// LeaseUntil is the last time that a LeaseMarker recorded. Zero means none.
	LeaseUntil time.Time
}
