package worker

import "context"

// A Handler is a function as the worker sees it: bytes in, bytes out. It owns
// arg. What it returns may not be changed afterwards. It should return soon
// after ctx ends; see [Client.Call] for what happens if it does not.
type Handler func(ctx context.Context, arg []byte) ([]byte, error)

// Meta is what a function can know of the call it serves and of the pool
// around it. It is sent with each call.
type Meta struct {
	// Pool is the pool's ID.
	Pool string `cbor:"1,keyasint,omitempty"`
	// Rank is the node's index in the membership of this call, and Nodes the
	// size of that membership.
	Rank  int `cbor:"2,keyasint,omitempty"`
	Nodes int `cbor:"3,keyasint,omitempty"`
	// NodeRank is the node's index in the pool.
	NodeRank int `cbor:"12,keyasint,omitempty"`
	// Slot is which of the node's slots the call runs in.
	Slot int `cbor:"4,keyasint,omitempty"`
	// MasterAddr is the address of node rank 0 as other nodes reach it, Addrs
	// those of all nodes in rank order, and PrivateAddr that of this node.
	MasterAddr  string   `cbor:"5,keyasint,omitempty"`
	Addrs       []string `cbor:"6,keyasint,omitempty"`
	PrivateAddr string   `cbor:"7,keyasint,omitempty"`
	// Scratch is a directory for this attempt alone.
	Scratch string `cbor:"8,keyasint,omitempty"`
	// TaskID names the task, and Attempt counts its attempts.
	TaskID  string `cbor:"9,keyasint,omitempty"`
	Attempt int    `cbor:"10,keyasint,omitempty"`
	// Accelerators are the devices that are the call's own.
	Accelerators []string `cbor:"11,keyasint,omitempty"`
}

type metaKey struct{}

// ContextWithMeta returns a context that carries m.
func ContextWithMeta(ctx context.Context, m Meta) context.Context {
	return context.WithValue(ctx, metaKey{}, m)
}

// MetaFrom returns what the context of a call carries. It is false outside of
// a call.
func MetaFrom(ctx context.Context) (Meta, bool) {
	m, ok := ctx.Value(metaKey{}).(Meta)
	return m, ok
}
