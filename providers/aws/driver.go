package aws

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// A create may still take effect until lateEffect after its caller has given up.
	lateEffect = time.Minute
	// provisionTimeout covers the largest types, which take 5 to 10 minutes to boot.
	provisionTimeout = 15 * time.Minute
	// A spot machine gets preemptionNotice before its end.
	preemptionNotice = 2 * time.Minute
)

// listLag bounds the time until EC2's lists have a new thing.
func listLag() time.Duration { return 15 * second }

// sighting has the times by which a [cloud.Sight] judges.
func sighting() driver.Capabilities {
	return driver.Capabilities{ListLag: listLag(), ProvisionTimeout: provisionTimeout}
}

// An awsDriver rents the machines of one pool. What its parts remember saves calls and adds
// detail to what the tags hold. A driver that remembers nothing works, too.
type awsDriver struct {
	api       *client
	account   string
	networks  *networks
	groups    *securityGroups
	zones     *poolZones
	instances *instances
	catalogue *catalogue
	launcher  *launcher
	quotas    *quotas
	reserved  reservation
	baked     *cloud.Bakery
	// prepares create what Config asks for beside machines, in this order. shared are all kinds
	// of things that a pool may hold beside machines.
	prepares []func(context.Context, driver.PoolInfo) error
	shared   []sharedKind
}

var (
	_ driver.Driver      = (*awsDriver)(nil)
	_ driver.Scripter    = (*awsDriver)(nil)
	_ driver.LeaseMarker = (*awsDriver)(nil)
	_ driver.Resumer     = (*awsDriver)(nil)
	_ driver.Quoter      = (*awsDriver)(nil)
)

func newDriver(cfg Config, api *client) *awsDriver {
	extras := extras{cfg.DiskGB, cfg.ClusterPlacement}
	networks := &networks{api: api, subnetID: cfg.SubnetID}
	images := &images{api: api, ami: cfg.AMI, ubuntu: cfg.UbuntuVersion, username: cfg.Username, known: map[string]image{}}
	spot := &spotPrices{api: api, usd: map[string]map[string]float64{}, at: map[[2]string]time.Time{}}
	reserved := reservation{id: cfg.CapacityReservationID, block: cfg.CapacityBlock, preference: cfg.CapacityReservationPreference}
	zones := &poolZones{zones: map[string]string{}}
	groups := &securityGroups{
		api: api, networks: networks, given: cfg.SecurityGroupID, known: map[string]string{},
		admitted: &admitted{api: api, networks: cfg.SSHFrom, addressURL: cfg.AddressURL, endpoint: cfg.Endpoint},
	}
	keys, placements, templates := &keyPairs{api}, &placementGroups{api}, &launchTemplates{api}
	profiles := &instanceProfiles{api: api, auto: cfg.InstanceProfileARN == autoProfile, policy: cfg.InstanceProfilePolicy}
	instances := &instances{api: api, images: images, zones: zones, spot: spot, opened: time.Now(), made: map[string]machine{}}
	catalogue := &catalogue{
		api: api, networks: networks, images: images, onDemand: &priceList{api: api}, spot: spot, extras: extras,
		reserved: reserved, excludeBurstable: cfg.ExcludeBurstable, zones: map[string][]string{},
	}
	d := &awsDriver{
		api: api, networks: networks, groups: groups, zones: zones, instances: instances, catalogue: catalogue, reserved: reserved,
		quotas: &quotas{api: api, instances: instances, limits: map[string]quotaLimit{}, typical: map[string]float64{}},
		launcher: &launcher{
			reserved: reserved, cfg: cfg, api: api, networks: networks, catalogue: catalogue, spot: spot, extras: extras, images: images, groups: groups,
			profiles: profiles, templates: templates, instances: instances, zones: zones,
		},
		shared: []sharedKind{templates.shared(), (&volumes{api}).shared(), (&snapshots{api}).shared(), groups.shared(), keys.shared(), placements.shared(), profiles.shared()},
	}
	d.baked = d.bakery(images)
	if groups.given == "" {
		d.prepares = append(d.prepares, groups.prepare)
	}
	if cfg.ImportKeyPair {
		d.prepares = append(d.prepares, keys.prepare)
	}
	if cfg.ClusterPlacement {
		d.prepares = append(d.prepares, placements.prepare)
	}
	if profiles.auto {
		d.prepares = append(d.prepares, profiles.prepare)
	}
	return d
}

// Capabilities describes what EC2 can do.
func (d *awsDriver) Capabilities() driver.Capabilities {
	ports := driver.PortsOfPool
	if d.groups.given != "" { // whom it lets in is its owner's business
		ports = driver.PortsUnknown
	}
	return driver.Capabilities{
		Account:          d.account + "/" + d.api.region,
		LocalAddresses:   d.api.local,
		ListLag:          listLag(),
		LateEffect:       lateEffect,
		Spot:             true,
		PreemptionNotice: preemptionNotice,
		EndsBilling:      "TerminateInstances",
		PrivateNetwork:   true,
		Ports:            ports,
		DiskResizable:    true,
		Tags:             true,
		UserTags:         true,
		HostKeys:         driver.HostKeyInjected,
		ProvisionTimeout: provisionTimeout,
	}
}

// Offers yields the instance types that the zones of the nodes' subnets have, page by page,
// each as a spot offer and as one on demand, as the spec wants. A spot price is that of the
// cheapest zone.
func (d *awsDriver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		start := d.baked.Offering(ctx, spec.Baked, d.launcher.images.base)
		for o, err := range d.catalogue.offers(ctx, spec) {
			if !yield(start(o), fail("offers", err)) {
				return
			}
		}
	}
}

// Prepare makes the pool's security group and, if Config asks for them, its key pair, placement
// group and instance profile.
func (d *awsDriver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if err := checkPool(pool); err != nil {
		return fail("prepare", err)
	}
	if _, err := d.networks.find(ctx); err != nil {
		return fail("prepare", err)
	}
	for _, prepare := range d.prepares {
		if err := prepare(ctx, pool); err != nil {
			return fail("prepare", err)
		}
	}
	return nil
}

// Launch creates an instance for each node, by a fleet of one that may choose the zone: each
// node needs user data of its own, with its host key, and user data belongs to a launch. Later
// nodes try the zone of the first one first, as traffic between zones costs money.
func (d *awsDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	defer d.quotas.changed()
	return d.launcher.launch(ctx, req)
}

// Quota returns how many more machines of an offer the account's quota of vCPUs allows. What runs
// in a reservation was counted when that was made.
func (d *awsDriver) Quota(ctx context.Context, o driver.Offer) (driver.Quota, error) {
	if d.reserved.id != "" {
		return driver.Quota{}, nil
	}
	q, err := d.quotas.of(ctx, o)
	return q, fail("quota", err)
}

// Describe reports the named machines.
func (d *awsDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	all, err := d.instances.describe(ctx, ids)
	return all, fail("describe", err)
}

// Terminate ends the machines, and with them their disks.
func (d *awsDriver) Terminate(ctx context.Context, ids ...string) error {
	defer d.quotas.changed()
	return fail("terminate", d.instances.terminate(ctx, ids))
}

// MarkLease records in a tag of the machines until when the lease runs.
func (d *awsDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	return fail("mark the lease", d.instances.markLease(ctx, pool, until, ids))
}

// List lists by tags what a pool, or all pools, have in the region: machines, leftover disks,
// security groups, key pairs, placement groups, launch templates and, if Config has "auto",
// instance profiles.
func (d *awsDriver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	if poolID != "" {
		if err := pooltag.CheckPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	listers := append(cloud.Each(d.shared, func(k sharedKind) lister { return k.list }), d.instances.list, d.baked.Unfinished)
	all, err := listOf(ctx, poolID, listers)
	return all, fail("list", err)
}

// Release removes what Prepare has made and what launches have left: launch templates, and
// disks without a machine, and images that are not finished, and snapshots without an image.
func (d *awsDriver) Release(ctx context.Context, pool driver.PoolInfo) error {
	if err := pooltag.CheckPool(pool.ID); err != nil {
		return fail("release", err)
	}
	err := errors.Join(d.baked.DeleteUnfinished(ctx, pool.ID), release(ctx, pool, d.shared))
	d.groups.forget(pool.ID)
	d.zones.forget(pool.ID)
	return fail("release", err)
}

// Resume lets in this program, whose address may differ from that of the program that opened
// the pool.
func (d *awsDriver) Resume(ctx context.Context, pool driver.PoolInfo, _ ...string) error {
	return fail("resume", d.groups.resume(ctx, pool.ID))
}

// Scripts returns a script that shuts the machine down, which terminates it, and one that asks
// the metadata service for an interruption.
func (d *awsDriver) Scripts(driver.Instance) driver.Scripts {
	return driver.Scripts{SelfDestruct: cloud.Script(destructScript), PreemptionWatch: cloud.Script(noticeScript)}
}

// Close closes idle connections.
func (d *awsDriver) Close() error {
	d.api.end()
	return nil
}
