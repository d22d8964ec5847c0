package novita

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// maxName bounds the length of an instance's name.
const maxName = 255

// An api is Novita's [cloud.API].
type api struct {
	cfg     Config //secretvet:ignore without the key
	client  *client
	account string
	// registry returns the login of the image's registry, "user:password", or "". It is a func, so
	// that printing does not show it.
	registry func() string
}

func (a *api) Close() { a.client.close() }

func (a *api) Classify(op string, err error) (hint string, kind error) { return classify(op, err) }

func (a *api) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account:        a.account,
		LocalAddresses: localnet.IsURL(a.cfg.Endpoint),
		ListLag:        10 * cloud.Second, // an estimate
		LateEffect:     60 * cloud.Second, // an estimate
		Spot:           true,
		EndsBilling:    "delete",
		DiskResizable:  true,
		HostKeys:       driver.HostKeyFirstContact,
		Images:         &driver.Images{Configured: a.cfg.Image, Logins: true},
	}
}

// Prepare makes nothing: this API has no keys, and each machine has a password.
func (a *api) Prepare(context.Context, driver.PoolInfo) error { return nil }

// Release does nothing.
func (a *api) Release(context.Context, driver.PoolInfo) error { return nil }

// Shared returns nothing.
func (a *api) Shared(context.Context, string) ([]driver.Resource, error) { return nil, nil }

// Create tries the versions of CUDA, newest first, until a machine with such a driver is free.
// Only a refusal for lack of one leads to the next version.
func (a *api) Create(ctx context.Context, o cloud.Order) (id string, err error) {
	p, err := readPlace(o.Offer.ID)
	if err != nil {
		return "", err
	}
	disk, err := a.diskGB(o.Spec)
	if err != nil {
		return "", err
	}
	login := a.login(o.Login)
	for _, s := range steps(cmp.Or(a.cfg.Image, o.Spec.Image), a.cfg.MinCUDAVersion, o.Offer.Accelerator) {
		id, err = a.client.create(ctx, create{
			Name: o.Tag.LongName(maxName), ProductID: p.product, GPUNum: p.gpus, RootFSSize: disk, Kind: "gpu", BillingMode: p.mode, ClusterID: p.cluster,
			ImageURL: s.image, MinCUDAVersion: s.cuda, ImageAuth: login, ImageAuthID: a.cfg.authID(login),
		})
		if _, kind := classify("launch", err); kind != driver.ErrNoCapacity {
			return id, err
		}
	}
	return "", err
}

// login returns the login of the image's registry, "user:password", or "". A spec's comes before Config's.
func (a *api) login(of driver.ImageLogin) string {
	if of.Password == "" {
		return a.registry()
	}
	login := of.User + ":" + string(of.Password)
	a.client.rest.Hide(login, string(of.Password))
	return login
}

// Balance returns the account's money, if the address of the API for billing is known.
func (a *api) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	if a.client.billing == nil {
		return driver.Balance{}, nil
	}
	usd, err := a.client.balance(ctx)
	return driver.Balance{Known: err == nil, USD: usd}, err
}

// Machines identifies machines by their names alone.
func (a *api) Machines(ctx context.Context, _ string) ([]cloud.Machine, error) {
	rows, err := a.client.instances(ctx)
	if err != nil {
		return nil, err
	}
	var all []cloud.Machine
	for _, in := range rows {
		if tag := pooltag.FromName(in.Name); tag.Pool != "" {
			all = append(all, a.machine(in))
		}
	}
	return all, nil
}

func (a *api) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	if id == "" {
		return cloud.Machine{}, &driver.Error{Kind: driver.ErrNotFound, Err: errors.New("the ID of an instance cannot be empty")}
	}
	in, err := a.client.instance(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	m := a.machine(in)
	if m.State == driver.InstanceRunning {
		if m.SSH = in.endpoint(a.cfg.AllowPasswordAtFirstContact); m.SSH.Addr == "" {
			m.State, m.StateReason = driver.InstancePending, "its SSH server does not run yet"
		}
	}
	return m, nil
}

// machine translates a row of the list.
func (a *api) machine(in instance) cloud.Machine {
	m := cloud.Machine{Tag: pooltag.FromName(in.Name)}
	m.ID = in.ID
	m.State, m.StateReason = in.state()
	m.Offer = driver.Offer{InstanceType: in.ProductName, Region: in.ClusterID, Country: countryOf(in.ClusterID), Spot: in.BillingMode == "spot", Billing: billing}
	m.Unbilled = slices.Contains(unbilled, in.Status)
	if at := in.reclaimed(); m.State == driver.InstanceRunning && !at.IsZero() {
		m.PreemptAt = at
	}
	return m
}

// End deletes an instance. Stopping it would keep its disk, which is billed.
func (a *api) End(ctx context.Context, id string) error { return a.client.end(ctx, id) }
