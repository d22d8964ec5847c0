package gcp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	// A request may still take effect until lateEffect after its caller has given up.
	lateEffect = time.Minute
	// A machine gets noticeTime before its preemption.
	noticeTime = 30 * time.Second
	// provisionTimeout covers the boot of a Deep Learning image on a large machine.
	provisionTimeout = 15 * time.Minute
)

// createLag bounds the time until the API's answers have a new instance.
func createLag() time.Duration { return 15 * second }

// sighting has the times by which a [cloud.Sight] judges.
func sighting() driver.Capabilities {
	return driver.Capabilities{ListLag: createLag(), ProvisionTimeout: provisionTimeout}
}

// A gcpDriver rents the machines of one pool. What its parts remember saves calls and
// distinguishes new machines from gone ones. A driver that remembers nothing works, too.
type gcpDriver struct {
	cfg       Config //secretvet:ignore complete, without credentials
	catalogue *catalogue
	shared    *sharedThings
	launcher  *launcher
	instances *instances
	quotas    *quotas
	bakery    *cloud.Bakery
	close     func()
}

var (
	_ driver.Driver      = (*gcpDriver)(nil)
	_ driver.Scripter    = (*gcpDriver)(nil)
	_ driver.LeaseMarker = (*gcpDriver)(nil)
	_ driver.Quoter      = (*gcpDriver)(nil)
)

func newDriver(ctx context.Context, cfg Config, base http.RoundTripper, id *identity) (*gcpDriver, error) {
	api, err := newClient(ctx, cfg, base, id)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", driver.ErrInvalid, err)
	}
	instances := &instances{cfg: cfg, api: api, nodes: map[string]*node{}}
	images := &images{api: api, given: cfg.Image, known: map[familyName]source{}}
	d := &gcpDriver{
		cfg: cfg, catalogue: &catalogue{cfg, api, images, priceListOf(cfg)}, shared: &sharedThings{cfg, api}, instances: instances,
		launcher: &launcher{cfg, api, images, instances}, quotas: &quotas{api: api, known: map[string]quotaSheet{}},
	}
	d.bakery = &cloud.Bakery{Provider: providerName, Images: &baked{cfg, api, images}, Capabilities: d.Capabilities, Fail: fail}
	return d, nil
}

// Capabilities describes what Compute Engine can do.
func (d *gcpDriver) Capabilities() driver.Capabilities {
	keys := driver.HostKeyPublished
	if d.cfg.TrustFirstContact {
		keys = driver.HostKeyFirstContact
	}
	ports := driver.PortsOfNetwork // the network may have rules of its own, as the default one does
	if d.cfg.NoFirewall {
		ports = driver.PortsUnknown
	}
	return driver.Capabilities{
		Account:          "project " + d.cfg.ProjectID,
		LocalAddresses:   localnet.IsURL(d.cfg.Endpoint),
		ListLag:          createLag(),
		LateEffect:       lateEffect,
		Spot:             true,
		PreemptionNotice: noticeTime,
		EndsBilling:      "instances.delete",
		PrivateNetwork:   true,
		Ports:            ports,
		DiskResizable:    true,
		Tags:             true,
		UserTags:         true,
		HostKeys:         keys,
		ProvisionTimeout: provisionTimeout,
	}
}

// Offers yields what each zone has, zone by zone, the smallest machines first. It asks a zone
// only when the caller gets there. An offered machine may be out of stock: Google reports that
// only at the launch.
func (d *gcpDriver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		start := d.bakery.Offering(ctx, spec.Baked, func(o driver.Offer) string { return d.catalogue.images.base(o, d.cfg.SSHUser) })
		for o, err := range d.catalogue.offers(ctx, spec) {
			if !yield(start(o), fail("offers", err)) {
				return
			}
		}
	}
}

// Prepare makes the pool's firewall rules.
func (d *gcpDriver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	return fail("prepare", d.shared.prepare(ctx, pool))
}

// Launch inserts an instance for each node and waits until Google has found room for it.
func (d *gcpDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	defer d.quotas.changed()
	return d.launcher.launch(ctx, req)
}

// Quota returns how many more machines of an offer the quotas of GPUs allow, of its region and of
// the project. What runs in a reservation was counted when that was made.
func (d *gcpDriver) Quota(ctx context.Context, o driver.Offer) (driver.Quota, error) {
	if d.cfg.Reservation != "" {
		return driver.Quota{}, nil
	}
	q, err := d.quotas.of(ctx, o)
	return q, fail("quota", err)
}

// Describe reports the named machines.
func (d *gcpDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	found, err := d.instances.describe(ctx, ids)
	return found, fail("describe", err)
}

// Terminate deletes the instances, with their disks.
func (d *gcpDriver) Terminate(ctx context.Context, ids ...string) error {
	defer d.quotas.changed()
	return d.instances.terminate(ctx, ids)
}

// MarkLease records in a label of the machines until when the lease runs.
func (d *gcpDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	return d.instances.markLease(ctx, pool.ID, until, ids)
}

// List reports machines, rules and leftover disks, of all zones, and images that are not finished.
func (d *gcpDriver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	machines, err := d.instances.list(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	others, err := d.shared.list(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	images, err := d.bakery.Unfinished(ctx, poolID)
	if err != nil && (poolID != "" || kindOf(err) != driver.ErrAuth) { // credentials that may not list images have made none
		return nil, fail("list", err)
	}
	return slices.Concat(machines, others, images), nil
}

// Release removes the pool's rules, the disks that its machines have left behind, and images that are
// not finished.
func (d *gcpDriver) Release(ctx context.Context, pool driver.PoolInfo) error {
	return fail("release", errors.Join(d.bakery.DeleteUnfinished(ctx, pool.ID), d.shared.release(ctx, pool)))
}

// Close closes the connections.
func (d *gcpDriver) Close() error {
	d.close()
	return nil
}
