package jarvislabs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// maxName is how long the name of a machine may be.
	maxName = 40
	// maxPoolID leaves room in it for "gputrain-", a rank, and the number of a replacement.
	maxPoolID = 24
	// destroyTries is how often a machine is looked at whose end was not confirmed.
	destroyTries = 20
	// destroyAgain is after how many of those looks the machine is asked to end again.
	destroyAgain = 5
)

// A provider is Jarvis Labs as package cloud wants it.
type provider struct {
	cloud.OnlyKeys
	cfg     Config //secretvet:ignore without the key
	api     *client
	account string
}

// Capabilities are what there is. The times are estimates: nobody has measured them.
func (p *provider) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Account: p.account, ListLag: 10 * cloud.Second, LateEffect: 2 * time.Minute, Spot: p.cfg.Template != vmTemplate,
		LocalAddresses: p.cfg.isLocal(),
		EndsBilling:    "destroy", DiskResizable: true, HostKeys: gputrain.HostKeyFirstContact,
	}
}

func (p *provider) Close() { p.api.close() }

// Classify is classify.
func (p *provider) Classify(op string, err error) (string, error) { return classify(op, err) }

// Prepare registers the pool's key. It must be there before the first machine: all keys that
// the account has go into each, and a VM without any does not start.
func (p *provider) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	if len(pool.ID) > maxPoolID {
		return &gputrain.Error{Kind: gputrain.ErrInvalid, Err: fmt.Errorf("pool ID %q is longer than %d characters", pool.ID, maxPoolID),
			Hint: "Jarvis Labs' names have 40 characters at most: give WithName a shorter name"}
	}
	return p.OnlyKeys.Prepare(ctx, pool)
}

// Create makes one machine at the host of its region.
func (p *provider) Create(ctx context.Context, order cloud.Order) (string, error) {
	at, err := parsePlacement(order.Offer.ID)
	if err != nil {
		return "", err
	}
	if len(order.Name()) > maxName {
		return "", fmt.Errorf("%w: the name %s is longer than %d characters", gputrain.ErrInvalid, order.Name(), maxName)
	}
	_, r, err := p.api.at(at.region)
	if err != nil {
		return "", err
	}
	return p.api.create(ctx, p.cfg.Template, createInstance{
		GPU: at.gpu, GPUs: at.count, Storage: p.cfg.storage(order.Spec, r), Region: at.region, Name: order.Name(), Spot: at.spot,
		Duration: "hour", DiskType: "ssd",
	})
}

// Machine returns one machine. That the API does not find it by its ID, which it says in
// words that may mean anything, counts only where the list of all does not have it either.
func (p *provider) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	in, err := p.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	return p.describe(ctx, in), nil
}

func (p *provider) instance(ctx context.Context, id string) (instance, error) {
	gone := &gputrain.Error{Kind: gputrain.ErrNotFound, Err: fmt.Errorf("there is no machine %s", id)}
	if _, err := strconv.ParseUint(id, 10, 63); err != nil {
		return instance{}, gone
	}
	in, err := p.api.instance(ctx, id)
	if err == nil && in.MachineID != "" || err != nil && !isGone(err) {
		return in, err
	}
	all, err := p.api.instances(ctx)
	if err != nil {
		return instance{}, err
	}
	for _, in := range all {
		if in.MachineID.id() == id {
			return in, nil
		}
	}
	return instance{}, gone
}

// Machines returns those whose names are gputrain's. Workers of serverless deployments, which
// are among them, are not.
func (p *provider) Machines(ctx context.Context, poolID string) ([]cloud.Machine, error) {
	all, err := p.api.instances(ctx)
	if err != nil {
		return nil, err
	}
	var found []cloud.Machine
	for _, in := range all {
		if t := cloud.FromName(in.name()); t.Pool != "" && in.Deployment == "" && (poolID == "" || t.Pool == poolID) {
			found = append(found, p.describe(ctx, in))
		}
	}
	return found, nil
}

func (p *provider) describe(ctx context.Context, in instance) cloud.Machine {
	m := gputrain.Instance{ID: in.MachineID.id(), PublicAddr: string(in.PublicIP)}
	m.State, m.StateReason = stateOf(in.Status, in.Spot.is(true))
	switch m.State {
	case gputrain.InstanceFailed: // without the reason the state says enough
		if why, err := p.api.failure(ctx, in); err == nil && why != "" {
			m.StateReason += ": " + why
		}
	case gputrain.InstanceRunning:
		if m.SSH = endpoint(in); m.SSH.Addr == "" {
			m.State, m.StateReason = gputrain.InstancePending, "it has no SSH server yet"
		}
	}
	name := string(in.Region)
	if _, r, err := p.api.at(name); err == nil {
		name = r.name()
	}
	gpus, _ := in.GPUs.number()
	cpus, _ := in.CPUs.number()
	ram, _ := in.RAM.number()
	disk, _ := in.Storage.number()
	m.Offer = gputrain.Offer{
		InstanceType: fmt.Sprintf("%vx %s", gpus, in.GPU), Region: name, VCPUs: cpus, MemoryGiB: ram, DiskGiB: disk,
		Spot: in.Spot.is(true), BillingUnit: billingUnit,
	}
	if !strings.EqualFold(string(in.GPU), "cpu") {
		m.Offer.Accelerator = cloud.Accelerator(providerName, string(in.GPU), int(gpus), 0, accelerators.Accelerator{})
	}
	return cloud.Machine{Instance: m, Tag: cloud.FromName(in.name())}
}

// End destroys a machine, never pauses it, as its disk would be billed. A destroy that fails
// may be under way all the same: the machine is looked at for a while, and asked to end again
// as long as it shows no sign of that.
func (p *provider) End(ctx context.Context, id string) error {
	in, err := p.instance(ctx, id)
	if err != nil {
		return err
	}
	failed := p.api.destroy(ctx, in)
	for tries := 1; failed != nil && mayBeUnderWay(failed); tries++ {
		in, err = p.instance(ctx, id)
		if isMissing(err) {
			return nil
		}
		now, _ := stateOf(in.Status, in.Spot.is(true))
		ending, _ := stateOf(in.Status, false)
		switch {
		case err == nil && isGone(failed) && cloud.IsOver(now): // the list is the only one to show it
			return &gputrain.Error{Kind: gputrain.ErrNotFound, Err: failed}
		case err == nil && ending == gputrain.InstanceTerminated:
			return nil
		case tries >= destroyTries:
			return failed
		case !launches.Pause(ctx, cloud.Second):
			return fmt.Errorf("%w: %w", failed, context.Cause(ctx))
		case err == nil && tries%destroyAgain == 0:
			failed = p.api.destroy(ctx, in)
		}
	}
	return failed
}
