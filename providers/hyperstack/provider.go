package hyperstack

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/localnet"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	billingUnit = time.Minute
	// maxName bounds the length of every name.
	maxName = 50
	// maxPoolID leaves room in names for "gputrain-" and for a region or a rank.
	maxPoolID = 32
)

var errNoImage = errors.New("no such image")

// A provider is Hyperstack's [cloud.API].
type provider struct {
	cfg     Config //secretvet:ignore without the key
	api     *client
	account string
	making  chan struct{}   // held to make a site; guards sites
	sites   map[string]site // by the name of their environment
}

// Capabilities describes what Hyperstack can do. The times are estimates, not measured.
func (p *provider) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Account: p.account, ListLag: 15 * cloud.Second, LateEffect: time.Minute, Spot: true, EndsBilling: "delete",
		LocalAddresses: localnet.IsURL(p.cfg.Endpoint),
		PrivateNetwork: true, RegionalNetwork: true, Ports: driver.PortsOfNetwork, Tags: true, UserTags: true, HostKeys: driver.HostKeyInjected, ProvisionTimeout: 20 * time.Minute,
	}
}

func (p *provider) Close() { p.api.close() }

// Classify returns the kind of a failure, and a hint.
func (p *provider) Classify(op string, err error) (string, error) { return classify(op, err) }

// Prepare makes nothing yet, as the region is unknown: it refuses what would fail later.
func (p *provider) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if len(pool.ID) > maxPoolID {
		return &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("pool ID %q is longer than %d characters", pool.ID, maxPoolID),
			Hint: "Hyperstack's names have 50 characters at most: give WithName a shorter name"}
	}
	if _, err := pooltag.UserWords(pool.Tags); err != nil {
		return err
	}
	credit, err := p.api.credit(ctx)
	if e, refused := cloud.Answered(err); refused && (e.Status == http.StatusForbidden || isGone(err)) {
		return nil // the key may not read it, or the account is billed in another way
	}
	if err == nil && credit.CanCreate != nil && !*credit.CanCreate {
		return &driver.Error{Kind: driver.ErrBalance, Err: errors.New("the account's credit allows no new machines"), Hint: addCredit}
	}
	return err
}

// Create makes one machine, in the pool's environment in the offer's region. It makes one at a
// time, so that each has its own name and host key.
func (p *provider) Create(ctx context.Context, order cloud.Order) (string, error) {
	region, flavor, ok := strings.Cut(order.Offer.ID, "/")
	if !ok || region == "" || flavor == "" {
		return "", fmt.Errorf("%w: offer %q is not like CANADA-1/n3-H100x1", driver.ErrInvalid, order.Offer.ID)
	}
	if len(order.Name()) > maxName {
		return "", fmt.Errorf("%w: the name %s is longer than %d characters", driver.ErrInvalid, order.Name(), maxName)
	}
	users, err := pooltag.UserWords(order.Pool.Tags)
	if err != nil {
		return "", err
	}
	s, err := p.site(ctx, order.Pool, region)
	if err != nil {
		return "", err
	}
	var image string
	if order.Offer.Baked != "" {
		image, err = p.bakedImage(ctx, region, order.Offer.Baked)
	} else {
		image, err = choose(s.images, p.cfg.Image, flavor)
	}
	if err != nil {
		return "", err
	}
	p.api.rest.Hide(string(order.Node.HostKey.Private))
	userData, err := cloud.UserData(order.Pool, order.Node, false, nil)
	if err != nil {
		return "", err
	}
	m, err := p.api.createMachine(ctx, createMachine{
		Name: order.Name(), EnvironmentName: s.environment.Name, FlavorName: flavor, ImageName: image, KeyName: s.key, Count: 1,
		AssignFloatingIP: true, Labels: append(order.Tag.Words(), users...), UserData: userData, SecurityRules: rules(s.subnet),
	})
	if err != nil {
		return "", err
	}
	return strconv.Itoa(m.ID), nil
}

// rules opens closed ports: SSH to all addresses, where a login needs the key, and all ports to
// the other machines of the environment.
func rules(subnet string) []rule {
	open := []rule{{Direction: "ingress", EtherType: "IPv4", Protocol: "tcp", RemoteIPPrefix: "0.0.0.0/0", PortRangeMin: 22, PortRangeMax: 22}}
	if subnet != "" {
		open = append(open, rule{Direction: "ingress", EtherType: "IPv4", Protocol: "any", RemoteIPPrefix: subnet})
	}
	return open
}

// Machine returns one machine.
func (p *provider) Machine(ctx context.Context, id string) (cloud.Machine, error) {
	m, err := p.api.machine(ctx, id)
	if err != nil {
		return cloud.Machine{}, err
	}
	return p.describe(ctx, m), nil
}

// Machines returns the machines whose labels or environments' names are gputrain's. The API has
// no query by label.
func (p *provider) Machines(ctx context.Context, poolID string) ([]cloud.Machine, error) {
	all, err := p.api.machines(ctx)
	if err != nil {
		return nil, err
	}
	var found []cloud.Machine
	for _, m := range all {
		if t := tagOf(m); t.Pool != "" && (poolID == "" || t.Pool == poolID) {
			found = append(found, p.describe(ctx, m))
		}
	}
	return found, nil
}

// tagOf reads a machine's labels or, if they were removed, its name.
func tagOf(m machine) pooltag.Tag {
	t := pooltag.FromWords(m.Labels)
	if pool, ok := poolOf(m.Environment); ok && t.Pool == "" {
		if t = pooltag.FromName(m.Name); t.Pool != pool {
			t = pooltag.Tag{Pool: pool, Name: m.Name}
		}
	}
	return t
}

func (p *provider) describe(ctx context.Context, m machine) cloud.Machine {
	in := driver.Instance{ID: strconv.Itoa(m.ID), PublicAddr: m.FloatingIP, PrivateAddr: privateAddr(m)}
	in.State, in.StateReason = stateOf(m.Status)
	in.Unbilled = slices.Contains(unbilled, strings.ToUpper(m.Status))
	if in.State == driver.InstanceFailed {
		// The events name the cause. Without them the state suffices.
		if events, err := p.api.events(ctx, in.ID); err == nil && len(events) > 0 {
			last := events[len(events)-1]
			in.StateReason = strings.TrimSpace(m.Status + ": " + last.Reason + " " + last.Message)
		}
	}
	if m.FloatingIP != "" { // it comes later than ACTIVE
		in.SSH = driver.Endpoint{Addr: m.FloatingIP + ":22", User: p.cfg.SSHUser}
	} else if in.State == driver.InstanceRunning {
		in.State, in.StateReason = driver.InstancePending, "it has no address yet"
	}
	in.Offer = driver.Offer{
		InstanceType: m.Flavor.Name, Region: m.Environment.Region, Country: countryOf(m.Environment.Region), Accelerator: cloud.Accelerator(providerName, m.Flavor.GPU, m.Flavor.GPUCount, 0, accelerators.Accelerator{}),
		VCPUs: m.Flavor.CPU, MemoryGiB: m.Flavor.RAM, DiskGiB: m.Flavor.Disk, Spot: m.Flavor.isSpot(), BillingUnit: billingUnit, Billing: billing,
	}
	tag := tagOf(m)
	return cloud.Machine{Instance: in, Tag: tag, Doubt: tag.Doubt(m.Name, time.Time{})}
}

// privateAddr returns the machine's address on its environment's network, if the other machines
// are let in.
func privateAddr(m machine) string {
	addr, err := netip.ParseAddr(m.FixedIP)
	for _, r := range m.Rules {
		if net, bad := netip.ParsePrefix(r.RemoteIPPrefix); err == nil && bad == nil && net.Bits() > 0 && net.Contains(addr) {
			return m.FixedIP
		}
	}
	return ""
}

// End deletes a machine. A machine that is still being made refuses that for a while.
func (p *provider) End(ctx context.Context, id string) error {
	for until := time.Now().Add(p.cfg.TeardownTimeout); ; {
		err := p.api.deleteMachine(ctx, id)
		switch {
		case err == nil, isGone(err):
			return err
		case !isTooEarly(err), time.Now().After(until):
			if m, lookErr := p.api.machine(ctx, id); lookErr == nil && strings.EqualFold(m.Status, "DELETING") {
				return nil // an earlier deletion ended it
			}
			return err
		}
		if !retry.Sleep(ctx, p.cfg.TeardownPollInterval) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// A hyperstackDriver is the cloud's driver that can also change a machine's labels, and ask for
// the account's credit.
type hyperstackDriver struct {
	*cloud.Driver
	p *provider
}

var (
	_ driver.LeaseMarker = (*hyperstackDriver)(nil)
	_ driver.Balancer    = (*hyperstackDriver)(nil)
)

// Balance returns the account's credit. It is unknown if the account pays in another way, and
// may make machines without credit.
func (d *hyperstackDriver) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	c, err := d.p.api.credit(ctx)
	switch {
	case isGone(err):
		return driver.Balance{}, nil
	case err != nil:
		return driver.Balance{}, cloud.Fail(providerName, "balance", err, classify)
	case c.USD == nil || c.CanCreate == nil:
		return driver.Balance{}, nil
	}
	b := driver.Balance{Known: true, USD: *c.USD, LeastUSD: max(c.Threshold, 0)}
	short := b.USD <= 0 || b.USD < b.LeastUSD
	switch {
	case *c.CanCreate && short:
		return driver.Balance{}, nil
	case !*c.CanCreate && !short: // the API's word counts, not its threshold
		b.LeastUSD = b.USD + 0.01
	}
	return b, nil
}

// MarkLease records on machines until when the lease runs. Other labels stay as they are, and
// gone machines are skipped.
func (d *hyperstackDriver) MarkLease(ctx context.Context, _ driver.PoolInfo, until time.Time, ids ...string) error {
	var errs []error
	for _, id := range ids {
		m, err := d.p.api.machine(ctx, id)
		if err == nil {
			t := tagOf(m)
			t.Until = until
			err = d.p.api.label(ctx, id, append(others(m.Labels), t.Words()...))
		}
		if err != nil && !isGone(err) {
			errs = append(errs, cloud.Fail(providerName, "mark lease", fmt.Errorf("%s: %w", id, err), classify))
		}
	}
	return errors.Join(errs...)
}

func others(labels []string) (all []string) {
	for _, l := range labels {
		if l+"-" != pooltag.Prefix && !strings.HasPrefix(l, pooltag.Prefix) {
			all = append(all, l)
		}
	}
	return all
}
