package colab

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
)

// connectTimeout bounds the attempt at a runtime. It is up already or not there: the pool
// makes one attempt, which a refused port ends earlier.
const connectTimeout = 30 * time.Second

// A driver is that of providers/ssh with the runtime as its only host. It goes by
// the runtime's host key where that one goes by the address: the tunnel's address
// changes with every start, and a runtime keeps its key for as long as it lives.
type driver struct {
	gputrain.Driver
	id        string // fingerprint of the host key
	addr      string // the runtime's ID there
	acceptAny bool
}

var _ gputrain.Prober = (*driver)(nil)

func (d *driver) Capabilities() gputrain.Capabilities {
	caps := d.Driver.Capabilities()
	caps.ProvisionTimeout = connectTimeout
	return caps
}

// Offers yields the runtime while no node has it. What accelerator it has is not
// known before it is reached.
func (d *driver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if spec.Nodes > 1 {
			yield(gputrain.Offer{}, notOne("offers", spec.Nodes))
			return
		}
		for o, err := range d.Driver.Offers(ctx, spec) {
			if err == nil {
				o = d.offer(o)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

// Launch adopts the runtime for one node.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if len(req.Nodes) > 1 {
		return nil, notOne("launch", len(req.Nodes))
	}
	got, err := d.Driver.Launch(ctx, req)
	if errors.Is(err, gputrain.ErrNoCapacity) {
		return nil, &gputrain.Error{
			Provider: provider, Op: "launch", Kind: gputrain.ErrNoCapacity,
			Err: errors.New("the pool has the runtime already, and there is no other"), Hint: "ask for one node",
		}
	}
	return d.ours(got), err
}

// notOne refuses a pool of several nodes.
func notOne(op string, nodes int) error {
	return &gputrain.Error{
		Provider: provider, Op: op, Kind: gputrain.ErrInvalid,
		Err:  fmt.Errorf("%d nodes asked for, and a runtime is one", nodes),
		Hint: "set Spec.Nodes to 1; providers/ssh takes the runtimes of several notebooks, each with its HostKey",
	}
}

// Describe reports the runtime as running while a node has it: whether it still
// does, the pool finds out over SSH.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	got, err := d.Driver.Describe(ctx, d.theirs(ids)...)
	return d.ours(got), err
}

// Terminate gives the runtime back and does nothing to it.
func (d *driver) Terminate(ctx context.Context, ids ...string) error {
	return d.Driver.Terminate(ctx, d.theirs(ids)...)
}

// theirs returns IDs as providers/ssh has them.
func (d *driver) theirs(ids []string) []string {
	ids = slices.Clone(ids)
	for i, id := range ids {
		if id == d.id {
			ids[i] = d.addr
		}
	}
	return ids
}

// ours makes what providers/ssh says of the runtime this provider's words.
func (d *driver) ours(got []gputrain.Instance) []gputrain.Instance {
	for i := range got {
		in := &got[i]
		switch {
		case in.ID != d.addr:
			in.StateReason = "it is a runtime with another host key"
			continue
		case in.State == gputrain.InstanceTerminated:
			in.StateReason = "given back; it goes on, and uses compute units, until you disconnect it in the notebook"
		}
		in.ID, in.Offer = d.id, d.offer(in.Offer)
		in.PrivateAddr = "127.0.0.1" // the tunnel's end leads to its SSH server alone, and no other node is there
	}
	return got
}

func (d *driver) offer(o gputrain.Offer) gputrain.Offer {
	o.Provider, o.ID, o.InstanceType, o.Region = provider, d.id, "runtime", "colab"
	return o
}
