package gputrain

import (
	"context"
	"maps"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/fleet"
	"github.com/gputrain/gputrain/internal/worker"
)

// A Node is one machine of a pool, as it was at the time of the call that returned it.
type Node struct {
	// Rank is the node's index in the pool, from 0. It stays, unless the pool becomes smaller: the
	// node of the last rank then gets the rank of one that is gone.
	Rank int
	// ID is the provider's name for the machine, and Name the pool's, which
	// other nodes of the pool can reach it by if the provider has a private
	// network.
	ID, Name string
	// State is how far the node has come.
	State NodeState
	// Provider, Region and InstanceType say what was rented.
	Provider, Region, InstanceType string
	// HourlyUSD is the price that is charged.
	HourlyUSD Price
	// PublicAddr and PrivateAddr are addresses without a port. Nodes of the
	// pool reach each other by PrivateAddr.
	PublicAddr, PrivateAddr string
	// Ports are the addresses, as host:port, by which the internet reaches the node's own ports, if the
	// provider maps them to others. Nil means that a port is reached at PublicAddr, as far as the provider's
	// firewall allows.
	Ports map[int]string
	// HostKey is the fingerprint, "SHA256:...", of the key by which the node's SSH server has
	// proved its identity. It is empty until then. HostKeySource says how that key was known
	// before, if HostKey is not empty. With [HostKeyFirstContact] it was not known: compare HostKey
	// with the machine's own key to be certain.
	HostKey       string
	HostKeySource HostKeySource
	// Accelerator is the one of the offer, or the one that the provider found on the machine.
	Accelerator accelerators.Accelerator
	// OS and Arch are the node's, in Go's words: "linux", "amd64". VCPUs and MemoryGiB are what the
	// node itself reports. All are empty before the first connection.
	OS, Arch  string
	VCPUs     int
	MemoryGiB float64

	labels map[string]string // never modified
}

// Labels are what [OnLabels] can choose the node by: the labels that the provider gives it
// (ssh.Host.Labels) and the pool's own, such as [LabelRegion].
func (n Node) Labels() map[string]string { return maps.Clone(n.labels) }

// A NodeState is how far a node has come. Its String is in lower case: "ready".
type NodeState = fleet.State

const (
	// NodeLaunching means that the machine was asked for, or is coming up.
	NodeLaunching NodeState = fleet.Launching
	// NodeConnecting means that the machine runs, and SSH does not answer yet.
	NodeConnecting NodeState = fleet.Connecting
	// NodeBootstrapping means that the node is being made ready: packages, files, setup.
	NodeBootstrapping NodeState = fleet.Bootstrapping
	// NodeReady means that the node takes tasks.
	NodeReady NodeState = fleet.Ready
	// NodeUnreachable means that a ready node's connection is down and is being reopened.
	NodeUnreachable NodeState = fleet.Unreachable
	// NodeLost means that the node was given up: vanished, preempted, or unreachable for too long.
	NodeLost NodeState = fleet.Lost
	// NodeFailed means that the node never became ready.
	NodeFailed NodeState = fleet.Failed
	// NodeTerminated means that the pool has ended the node.
	NodeTerminated NodeState = fleet.Terminated
)

// NodeInfo is what a function can learn about the node on which it runs.
type NodeInfo struct {
	// Pool is the pool's ID.
	Pool string
	// Rank is the node's index among the nodes of the call, and Nodes is their number: all nodes of
	// a Broadcast, and 1 for anything else.
	Rank, Nodes int
	// NodeRank is the node's index in the pool.
	NodeRank int
	// Slot is which of the node's slots the call has, from 0 to Concurrency-1. A call with [Task].Accelerators has a
	// number from Concurrency on. No other task that runs on the node has the same.
	Slot int
	// MasterAddr is the address of the call's first node, as other nodes reach it.
	MasterAddr string
	// Addrs are the addresses of the call's nodes, by rank.
	Addrs []string
	// PrivateAddr and PublicAddr are this node's, without a port, if the
	// provider has reported them.
	PrivateAddr, PublicAddr string
	// Accelerators are the devices that are the call's own, by [Task].Accelerators
	// or by its slot, as the variables CUDA_VISIBLE_DEVICES and the like name
	// them. Nil means that the node has none.
	Accelerators []string
	// Scratch is a directory on the node for this attempt alone. ThisNode makes it. It is removed
	// once the call is over, and the caller has its result and what [Task.Outputs] names in it.
	Scratch string
	// Task and Attempt are the task's id and which attempt at it this is, from 1. For a [Training] it is the gang's attempt.
	Task    string
	Attempt int
	// MasterPort is a port of MasterAddr that was free when a [Training]'s attempt began, and 0 for any other call.
	MasterPort int
	// Checkpoints is the folder of Task.Checkpoints, and Resume the checkpoint in it to go on from. They are empty without
	// Task.Checkpoints, and Resume is if there is no checkpoint yet.
	Checkpoints, Resume string
}

// ThisNode returns the node on which the function that was given ctx runs. Outside of a call it is
// the only node of a call, so that functions can be tested without a pool.
func ThisNode(ctx context.Context) NodeInfo {
	m, ok := worker.MetaFrom(ctx)
	if !ok {
		return NodeInfo{Nodes: 1, MasterAddr: "127.0.0.1", Addrs: []string{"127.0.0.1"}}
	}
	info := NodeInfo{
		Pool: m.Node.Pool, NodeRank: m.Node.Rank, PrivateAddr: m.Node.PrivateAddr, PublicAddr: m.Node.PublicAddr,
		Rank: m.Place.Rank, Slot: m.Place.Slot, Accelerators: m.Place.Accelerators, Task: m.Place.TaskID, Attempt: m.Place.Attempt, MasterPort: m.Place.MasterPort,
		Checkpoints: m.Place.Checkpoints, Resume: m.Place.Resume, Addrs: m.Addrs, Nodes: max(len(m.Addrs), 1),
	}
	if len(m.Addrs) > 0 {
		info.MasterAddr = m.Addrs[0]
	}
	// If the disk is full or gone, the path is still right, and a function that writes there gets
	// the error.
	info.Scratch, _ = m.Scratch()
	return info
}

// Shard returns this node's share of items that every node of a call was sent. The shares are
// contiguous, differ in length by at most one, and cover every item exactly once. They depend on
// the nodes of the call, not on later changes of the pool. The result aliases items.
func Shard[T any](ctx context.Context, items []T) []T {
	n := ThisNode(ctx)
	lo, hi := shard(len(items), n.Rank, n.Nodes)
	return items[lo:hi:hi]
}

// shard returns the bounds of one share of n. It avoids products of n, which could overflow.
func shard(n, rank, nodes int) (lo, hi int) {
	each, more := n/nodes, n%nodes
	lo = each*rank + more*rank/nodes
	return lo, each*(rank+1) + more*(rank+1)/nodes
}
