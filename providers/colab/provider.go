package colab

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// connectTimeout bounds the attempt to connect to a runtime. It is either up or gone: the pool
// makes one attempt, which a refused port ends earlier.
const connectTimeout = 30 * time.Second

// A colabDriver is the driver of providers/ssh with the runtime as its only host. It identifies
// the runtime by its host key instead of its address: the tunnel's address changes with every
// start, and a runtime keeps its key for life.
type colabDriver struct {
	driver.Driver
	id        string // fingerprint of the host key
	addr      string // the runtime's ID there
	acceptAny bool
}

var (
	_ driver.Scripter = (*colabDriver)(nil)
	_ driver.Adviser  = (*colabDriver)(nil)
)

func (d *colabDriver) Capabilities() driver.Capabilities {
	caps := d.Driver.Capabilities()
	caps.ProvisionTimeout = connectTimeout
	return caps
}

// Offers yields the runtime while no node has it. Its accelerator is unknown until it is
// reached.
func (d *colabDriver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if spec.Nodes > 1 {
			yield(driver.Offer{}, checkOne("offers", spec.Nodes))
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
func (d *colabDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if len(req.Nodes) > 1 {
		return nil, checkOne("launch", len(req.Nodes))
	}
	got, err := d.Driver.Launch(ctx, req)
	if errors.Is(err, driver.ErrNoCapacity) {
		return nil, &driver.Error{
			Provider: provider, Op: "launch", Kind: driver.ErrNoCapacity,
			Err: errors.New("the pool has the runtime already; there is no other"), Hint: "ask for one node",
		}
	}
	return d.fromSSH(got), err
}

// checkOne refuses a pool of several nodes.
func checkOne(op string, nodes int) error {
	return &driver.Error{
		Provider: provider, Op: op, Kind: driver.ErrInvalid,
		Err:  fmt.Errorf("the pool asks for %d nodes; a runtime is one", nodes),
		Hint: "set Spec.Nodes to 1; use providers/ssh for the runtimes of several notebooks, each with its HostKey",
	}
}

// Describe reports the runtime as running while a node has it: the pool checks over SSH that it
// still runs.
func (d *colabDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := d.Driver.Describe(ctx, d.sshIDs(ids)...)
	return d.fromSSH(got), err
}

// Terminate releases the runtime and does nothing to it.
func (d *colabDriver) Terminate(ctx context.Context, ids ...string) error {
	return d.Driver.Terminate(ctx, d.sshIDs(ids)...)
}

// sshIDs translates IDs into those of providers/ssh.
func (d *colabDriver) sshIDs(ids []string) []string {
	ids = slices.Clone(ids)
	for i, id := range ids {
		if id == d.id {
			ids[i] = d.addr
		}
	}
	return ids
}

// fromSSH translates the instances of providers/ssh.
func (d *colabDriver) fromSSH(got []driver.Instance) []driver.Instance {
	for i := range got {
		in := &got[i]
		switch {
		case in.ID != d.addr:
			in.StateReason = "it is a runtime with another host key"
			continue
		case in.State == driver.InstanceTerminated:
			in.StateReason = "released; it goes on and uses compute units until you disconnect it in the notebook"
		}
		in.ID, in.Offer = d.id, d.offer(in.Offer)
		in.PrivateAddr = "127.0.0.1" // the tunnel leads only to its SSH server, and there is no other node
	}
	return got
}

func (d *colabDriver) offer(o driver.Offer) driver.Offer {
	o.Provider, o.ID, o.InstanceType, o.Region, o.Host = provider, d.id, "runtime", "colab", d.id
	return o
}
