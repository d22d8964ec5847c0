package gputrain

import (
	"maps"

	"github.com/gputrain/gputrain/accelerators"
)

// A Node is one machine of a pool, as it was when it was asked for.
type Node struct {
	// Rank is the node's index in the pool, from 0. It stays, but where a pool becomes
	// smaller: the node of the last rank then gets that of one that is gone.
	Rank int
	// ID is the provider's name for the machine, and Name the pool's, which
	// other nodes of the pool can reach it by where the provider has a network
	// of its own.
	ID, Name string
	// State is where the node is in its life.
	State NodeState
	// Provider, Region and InstanceType say what was rented.
	Provider, Region, InstanceType string
	// HourlyUSD is the price that is charged.
	HourlyUSD Price
	// PublicAddr and PrivateAddr are addresses without a port. Nodes of the
	// pool reach each other by PrivateAddr.
	PublicAddr, PrivateAddr string
	// HostKey is the fingerprint, "SHA256:...", of the key by which the node's SSH server
	// has proved who it is. Empty means that it has not yet. HostKeySource says how that
	// key came to be known before, if HostKey is not empty; of [HostKeyFirstContact] it
	// was not, and HostKey is to be compared with the machine's own to be certain.
	HostKey       string
	HostKeySource HostKeySource
	// Accelerator is what the offer said the machine has, or what a [Prober] found.
	Accelerator accelerators.Accelerator
	// OS and Arch are the node's, in Go's words: "linux", "amd64". VCPUs and
	// MemoryGiB are what the node itself reports. All are empty until it is
	// reached.
	OS, Arch  string
	VCPUs     int
	MemoryGiB float64

	labels map[string]string // not changed once it is here
}

// Labels are what tasks can choose the node by, with [OnLabels]: those that the
// provider gives it (ssh.Host.Labels) and the pool's own, such as [LabelRegion].
func (n Node) Labels() map[string]string { return maps.Clone(n.labels) }

// A NodeState is where a node is in its life.
type NodeState int

const (
	// NodeLaunching is asked for, or on its way up.
	NodeLaunching NodeState = iota
	// NodeConnecting runs; SSH is not there yet.
	NodeConnecting
	// NodeBootstrapping is made ready: packages, files, setup.
	NodeBootstrapping
	// NodeReady takes tasks.
	NodeReady
	// NodeUnreachable was ready; its connection is down and is being reopened.
	NodeUnreachable
	// NodeLost is given up: vanished, preempted, or unreachable for too long.
	NodeLost
	// NodeFailed never became ready.
	NodeFailed
	// NodeTerminated was ended by the pool.
	NodeTerminated
)

// String returns the state in lower case: "ready".
func (s NodeState) String() string {
	return nameOf(s, "launching", "connecting", "bootstrapping", "ready", "unreachable", "lost", "failed", "terminated")
}

// over reports whether the node will never take a task again.
func (s NodeState) over() bool { return s >= NodeLost }
