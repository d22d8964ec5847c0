package jarvislabs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/currency"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// maxName bounds the length of a machine's name.
	maxName = 40
	// maxPoolID leaves room in a name for "gputrain-", a rank, and the number of a replacement.
	maxPoolID = 24
	// destroyTries bounds the looks at a machine whose end was not confirmed.
	destroyTries = 20
	// Every destroyAgain looks, the machine is asked to end again.
	destroyAgain = 5
)

// A provider is Jarvis Labs' [cloud.API].
type provider struct {
	cloud.OnlyKeys
	cfg     Config //secretvet:ignore without the key
	api     *client
	account string

	mu       sync.Mutex
	currency string              // of the account; empty means not known yet
	made     map[string]instance // what is known of the machines that this driver has made, by ID
}

// Capabilities describes what Jarvis Labs can do. The times are estimates, not measured.
func (p *provider) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account: p.account, ListLag: 10 * cloud.Second, LateEffect: 2 * time.Minute, Spot: p.cfg.Template != vmTemplate,
		LocalAddresses: p.cfg.isLocal(),
		EndsBilling:    "destroy", DiskResizable: true, HostKeys: driver.HostKeyFirstContact,
	}
}

func (p *provider) Close() { p.api.close() }

// Classify returns the kind of a failure, and a hint.
func (p *provider) Classify(op string, err error) (string, error) { return classify(op, err) }

// Prepare registers the pool's key. It must exist before the first machine: each machine gets
// all keys of the account, and a VM without any does not start.
func (p *provider) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if len(pool.ID) > maxPoolID {
		return &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("pool ID %q is longer than %d characters", pool.ID, maxPoolID),
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
		return "", fmt.Errorf("%w: the name %s is longer than %d characters", driver.ErrInvalid, order.Name(), maxName)
	}
	_, r, err := p.api.at(at.region)
	if err != nil {
		return "", err
	}
	id, err := p.api.create(ctx, p.cfg.Template, createInstance{
		GPU: at.gpu, GPUs: at.count, Storage: p.cfg.storage(order.Spec, r), Region: at.region, Name: order.Tag.LongName(maxName), Spot: at.spot,
		Duration: "hour", DiskType: "ssd",
	})
	if id != "" {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.made[id] = instance{MachineID: word(id), Region: word(at.region), GPU: word(at.gpu), Framework: word(p.cfg.Template)}
	}
	return id, err
}

// Balance returns the money of the wallet. It is taken to be in the currency of the account's prices, and unknown if that
// currency's rate is.
func (p *provider) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	money, err := p.api.balance(ctx)
	if err != nil {
		return driver.Balance{}, err
	}
	p.mu.Lock()
	code := p.currency
	p.mu.Unlock()
	if code == "" {
		if _, code, err = p.groups(ctx); err != nil {
			return driver.Balance{}, err
		}
	}
	rate, err := currency.Of(code, 0)
	if err != nil {
		return driver.Balance{}, nil
	}
	return driver.Balance{Known: true, USD: money * rate.USD}, nil
}

// groups returns the groups of servers, and remembers their currency.
func (p *provider) groups(ctx context.Context) ([]group, string, error) {
	all, code, err := p.api.groups(ctx)
	if err == nil {
		p.mu.Lock()
		p.currency = code
		p.mu.Unlock()
	}
	return all, code, err
}

// Machine returns one machine. The API's text for an unknown ID is ambiguous, and counts only
// if the list of all lacks the machine, too.
func (p *provider) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	in, err := p.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	return p.describe(ctx, in), nil
}

func (p *provider) instance(ctx context.Context, id string) (instance, error) {
	gone := &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("no machine %s", id)}
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

// Machines returns the machines with gputrain's names, without the workers of serverless
// deployments among them.
func (p *provider) Machines(ctx context.Context, poolID string) ([]cloud.Machine, error) {
	all, err := p.api.instances(ctx)
	if err != nil {
		return nil, err
	}
	var found []cloud.Machine
	for _, in := range all {
		if t := pooltag.FromName(in.name()); t.Pool != "" && in.Deployment == "" && (poolID == "" || t.Pool == poolID) {
			found = append(found, p.describe(ctx, in))
		}
	}
	return found, nil
}

func (p *provider) describe(ctx context.Context, in instance) cloud.Machine {
	m := driver.Instance{ID: in.MachineID.id(), PublicAddr: string(in.PublicIP)}
	m.State, m.StateReason = stateOf(in.Status, in.Spot.is(true))
	switch m.State {
	case driver.InstanceFailed: // without a reason the state suffices
		if why, err := p.api.failure(ctx, in); err == nil && why != "" {
			m.StateReason += ": " + why
		}
	case driver.InstanceRunning:
		if m.SSH = endpoint(in); m.SSH.Addr == "" {
			m.State, m.StateReason = driver.InstancePending, "it has no SSH server yet"
		}
	}
	_, at, err := p.api.at(string(in.Region))
	if err != nil {
		at = region{internal: string(in.Region)}
	}
	gpus, _ := in.GPUs.number()
	cpus, _ := in.CPUs.number()
	ram, _ := in.RAM.number()
	disk, _ := in.Storage.number()
	m.Offer = driver.Offer{
		InstanceType: fmt.Sprintf("%vx %s", gpus, in.GPU), Region: at.name(), Country: at.country(), VCPUs: cpus, MemoryGiB: ram, DiskGiB: disk,
		Spot: in.Spot.is(true), BillingUnit: billingUnit,
	}
	if !strings.EqualFold(string(in.GPU), "cpu") {
		m.Offer.Accelerator = cloud.Accelerator(providerName, string(in.GPU), int(gpus), 0, accelerators.Accelerator{})
	}
	return cloud.Machine{Instance: m, Tag: pooltag.FromName(in.name())}
}

// End destroys a machine. It never pauses one, as the disk would be billed. A failed destroy
// may be under way nevertheless: End watches the machine for a while, and repeats the call as
// long as the machine shows no sign of it.
func (p *provider) End(ctx context.Context, id string) error {
	in, err := p.instance(ctx, id)
	if isMissing(err) {
		return p.endUnseen(ctx, id, err)
	}
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
		case err == nil && isGone(failed) && cloud.IsOver(now): // only the list still shows it
			return &driver.Error{Kind: driver.ErrNotFound, Err: failed}
		case err == nil && ending == driver.InstanceTerminated:
			return nil
		case tries >= destroyTries:
			return failed
		case !retry.Sleep(ctx, cloud.Second):
			return fmt.Errorf("%w: %w", failed, context.Cause(ctx))
		case err == nil && tries%destroyAgain == 0:
			failed = p.api.destroy(ctx, in)
		}
	}
	return failed
}

// endUnseen destroys a machine that the API does not show, which may be too new for that: at the region, and by the path,
// that it was made at, or if another program has made it, at each of them. If none of them has it, the error is missing.
func (p *provider) endUnseen(ctx context.Context, id string, missing error) error {
	if _, err := strconv.ParseUint(id, 10, 63); err != nil {
		return missing // no machine can have it
	}
	p.mu.Lock()
	in, known := p.made[id]
	p.mu.Unlock()
	candidates := []instance{in}
	if !known {
		candidates = p.everywhere(id)
	}
	var errs []error
	for _, in := range candidates {
		err := p.api.destroy(ctx, in)
		if err == nil {
			return nil
		}
		e, answered := cloud.Answered(err)
		if notHere := !known && answered && e.Status == http.StatusNotFound; !notHere && !isGone(err) {
			errs = append(errs, err)
		}
	}
	if errs != nil {
		return errors.Join(errs...)
	}
	return missing
}

// everywhere returns a machine as it would be in each region, of each kind.
func (p *provider) everywhere(id string) (all []instance) {
	for _, r := range p.api.regions {
		in := instance{MachineID: word(id), Region: word(r.internal)}
		vm := in
		vm.Framework = vmTemplate
		cpu := vm
		cpu.GPU = "cpu"
		all = append(all, in, vm, cpu)
	}
	return all
}
