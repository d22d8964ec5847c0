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
	// Scratch is a directory on the node that the pool removes at its end.
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
	return NodeInfo{
		Pool: m.Pool, Rank: m.Rank, Nodes: m.Nodes, NodeRank: m.NodeRank, Slot: m.Slot, MasterAddr: m.MasterAddr,
		Addrs: m.Addrs, Scratch: m.Scratch, Task: m.TaskID, Attempt: m.Attempt,
	}
}

// Shard returns this node's share of items that every node of a call was sent.
// The shares are contiguous, differ in length by at most one, and cover every
// item exactly once. They depend on the nodes of the call, not on what the pool
// became since. The result aliases items.
func Shard[T any](ctx context.Context, items []T) []T {
	n := ThisNode(ctx)
	lo, hi := len(items)*n.Rank/n.Nodes, len(items)*(n.Rank+1)/n.Nodes
	return items[lo:hi:hi]
}
