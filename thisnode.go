package gputrain

import (
	"context"

	"github.com/gputrain/gputrain/internal/worker"
)

// NodeInfo is what a function knows of where it runs.
type NodeInfo struct {
	// Pool is the pool's ID.
	Pool string
	// Rank is the node's index among the nodes of the call, and Nodes how many
	// those are: for Broadcast every node, for anything else one of one.
	Rank, Nodes int
	// NodeRank is the node's index in the pool.
	NodeRank int
	// Slot is which of the node's slots the call has, from 0 to Concurrency-1.
	Slot int
	// MasterAddr is the address of node rank 0, as other nodes reach it.
	MasterAddr string
	// Addrs are the addresses of the call's nodes, by rank.
	Addrs []string
	// PrivateAddr and PublicAddr are this node's, without a port, where the
	// provider has said them.
	PrivateAddr, PublicAddr string
	// Accelerators are the devices that are this slot's own, as the variables
	// CUDA_VISIBLE_DEVICES and the like name them. Nil means that the node has
	// none, or that its tasks have not been told apart.
	Accelerators []string
	// Scratch is a directory on the node for this attempt at this task alone.
	// ThisNode makes it. It is removed once the call is over and its result,
	// and what [Task.Outputs] names in it, is with the caller.
	Scratch string
	// Task and Attempt are the task's id and which attempt at it this is, from 1.
	Task    string
	Attempt int
}

// ThisNode returns where the function that was given ctx runs. Outside of a
// call it is one node of one, so that functions can be tested as they are.
func ThisNode(ctx context.Context) NodeInfo {
	m, ok := worker.MetaFrom(ctx)
	if !ok {
		return NodeInfo{Nodes: 1, MasterAddr: "127.0.0.1", Addrs: []string{"127.0.0.1"}}
	}
	info := NodeInfo{
		Pool: m.Node.Pool, NodeRank: m.Node.Rank, PrivateAddr: m.Node.PrivateAddr, PublicAddr: m.Node.PublicAddr,
		Rank: m.Place.Rank, Slot: m.Place.Slot, Accelerators: m.Place.Accelerators, Task: m.Place.TaskID, Attempt: m.Place.Attempt,
		Addrs: m.Addrs, Nodes: max(len(m.Addrs), 1),
	}
	if len(m.Addrs) > 0 {
		info.MasterAddr = m.Addrs[0]
	}
	// Where the disk is full or gone the path is right all the same, and who
	// writes there hears why it cannot be done.
	info.Scratch, _ = m.Scratch()
	return info
}

// Shard returns this node's share of items that every node of a call was sent.
// The shares are contiguous, differ in length by at most one, and cover every
// item exactly once. They depend on the nodes of the call, not on what the pool
// became since. The result aliases items.
func Shard[T any](ctx context.Context, items []T) []T {
	n := ThisNode(ctx)
	lo, hi := shard(len(items), n.Rank, n.Nodes)
	return items[lo:hi:hi]
}

// shard returns the bounds of one share of n. Products of n could overflow.
func shard(n, rank, nodes int) (lo, hi int) {
	each, more := n/nodes, n%nodes
	lo = each*rank + more*rank/nodes
	return lo, each*(rank+1) + more*(rank+1)/nodes
}
