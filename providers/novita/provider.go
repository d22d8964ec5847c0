package novita

import (
	"context"
	"errors"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// An api is Novita for package cloud.
type api struct {
	cfg     Config //secretvet:ignore without the key
	client  *client
	account string
}

func (a *api) Close() { a.client.close() }

func (a *api) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

func (a *api) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account:        a.account,
		LocalAddresses: localnet.IsURL(a.cfg.Endpoint),
		ListLag:        10 * cloud.Second, // an estimate
		LateEffect:     60 * cloud.Second, // an estimate
		Spot:           true,
		EndsBilling:    "delete",
		DiskResizable:  true,
		HostKeys:       gputrain.HostKeyFirstContact,
	}
}

// Prepare makes nothing: there are no keys in this API, and a machine has a password.
func (a *api) Prepare(context.Context, gputrain.PoolInfo) error { return nil }

// Release removes nothing, then.
func (a *api) Release(context.Context, gputrain.PoolInfo) error { return nil }

// Shared is nothing.
func (a *api) Shared(context.Context, string) ([]gputrain.Resource, error) { return nil, nil }

// Create goes down the versions of CUDA until there is a machine with such a driver. Only a
// refusal for want of one leads on.
func (a *api) Create(ctx context.Context, o cloud.Order) (id string, err error) {
	p, err := readPlace(o.Offer.ID)
	if err != nil {
		return "", err
	}
	disk, err := a.diskGB(o.Spec)
	if err != nil {
		return "", err
	}
	for _, s := range steps(a.cfg.Image, a.cfg.MinCUDAVersion, o.Offer.Accelerator) {
		id, err = a.client.create(ctx, create{
			Name: o.Name(), ProductID: p.product, GPUNum: p.gpus, RootFSSize: disk, Kind: "gpu", BillingMode: p.mode, ClusterID: p.cluster,
			ImageURL: s.image, MinCUDAVersion: s.cuda,
		})
		if _, kind := classify("launch", err); kind != gputrain.ErrNoCapacity {
			return id, err
		}
	}
	return "", err
}

// Machines are known by their names alone.
func (a *api) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	rows, err := a.client.instances(ctx)
	if err != nil {
		return nil, err
	}
	var all []cloud.Machine
	for _, in := range rows {
		if tag := cloud.FromName(in.Name); tag.Pool != "" {
			all = append(all, a.machine(in))
		}
	}
	return all, nil
}

func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	if id == "" {
		return cloud.Machine{}, &gputrain.Error{Kind: gputrain.ErrNotFound, Err: errors.New("no instance has an empty ID")}
	}
	in, err := a.client.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	m := a.machine(in)
	if m.State == gputrain.InstanceRunning {
		if m.SSH = in.endpoint(a.cfg.AllowPasswordAtFirstContact); m.SSH.Addr == "" {
			m.State, m.StateReason = gputrain.InstancePending, "its SSH server does not run yet"
		}
	}
	return m, nil
}

// machine is what a row of the list tells.
func (a *api) machine(in instance) cloud.Machine {
	m := cloud.Machine{Tag: cloud.FromName(in.Name)}
	m.ID = in.ID
	m.State, m.StateReason = in.state()
	m.Offer = gputrain.Offer{InstanceType: in.ProductName, Region: in.ClusterID, Spot: in.BillingMode == "spot"}
	if at := in.reclaimed(); m.State == gputrain.InstanceRunning && !at.IsZero() {
		m.PreemptAt = at
	}
	return m
}

// End deletes an instance. To stop it would leave its disk, which is billed.
func (a *api) End(ctx context.Context, id string) error { return a.client.end(ctx, id) }
