package market

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// SharedKind is the kind of the record that a driver makes before it prepares an account: until the record is gone,
// there may be resources that no other record names.
const SharedKind = "shared"

// A Group is a driver made of drivers. What concerns several members is done by all of them at once. Only the members
// that have dealt with the pool are asked about it: a failing member does no harm to a pool that has nothing there.
type Group struct {
	name    string
	members []*member
	out     []driver.SourceError // members that could not be opened
	caps    driver.Capabilities

	mu       sync.Mutex            // guards the fields below
	begun    bool                  // touched has all members that have dealt with the pool
	touched  map[string]bool       // keys of the members that have dealt with the pool
	prepared map[*member]time.Time // when the member last made what its machines share
}

// NewGroup returns a driver of this name made of drivers, whose providers are named.
func NewGroup(name string, providers []string, drivers []driver.Driver) *Group {
	g := &Group{name: name}
	for i, d := range drivers {
		g.add(providers[i], 0, d)
	}
	g.caps = g.common()
	return g
}

// Members returns the drivers of a group, or nil for another driver.
func Members(d driver.Driver) (all []driver.Driver) {
	if g, ok := d.(*Group); ok {
		for _, m := range g.members {
			all = append(all, m.driver)
		}
	}
	return all
}

func (g *Group) add(provider string, tier int, d driver.Driver) {
	caps := d.Capabilities()
	g.members = append(g.members, &member{
		provider: provider, driver: d, caps: &caps, index: len(g.members) + 1, tier: tier, key: AccountKey(provider, caps.Account), preparing: make(chan struct{}, 1),
	})
}

// Capabilities returns what holds for all members. Offers have their own.
func (g *Group) Capabilities() driver.Capabilities { return g.caps }

func (g *Group) common() driver.Capabilities {
	c := *g.members[0].caps
	c.Accounts = map[string]*driver.Capabilities{}
	for _, m := range g.accounts() {
		c.Accounts[m.key] = m.caps
	}
	var verbs []string
	for _, m := range g.members {
		verbs = append(verbs, m.caps.EndsBilling)
		c.ListLag, c.LateEffect = max(c.ListLag, m.caps.ListLag), max(c.LateEffect, m.caps.LateEffect)
		c.ProvisionTimeout = max(c.ProvisionTimeout, cmp.Or(m.caps.ProvisionTimeout, driver.DefaultProvisionTimeout))
		c.Adopts = c.Adopts && m.caps.Adopts
		c.Queues = c.Queues && m.caps.Queues
		c.KeepCache = c.KeepCache && m.caps.KeepCache
		c.EndsWithProgram = c.EndsWithProgram || m.caps.EndsWithProgram
		c.Free = c.Free && m.caps.Free
		c.Spot = c.Spot || m.caps.Spot
		c.PreemptionNotice = min(c.PreemptionNotice, m.caps.PreemptionNotice)
		c.LocalAddresses = c.LocalAddresses && m.caps.LocalAddresses
		c.Mounts = c.Mounts && m.caps.Mounts
		c.DiskResizable = c.DiskResizable && m.caps.DiskResizable
		c.Tags, c.UserTags = c.Tags && m.caps.Tags, c.UserTags && m.caps.UserTags
		if m.caps.Images == nil {
			c.Images = nil
		}
		if m.caps.HostKeys != c.HostKeys {
			c.HostKeys = driver.HostKeyFirstContact
		}
		c.Ports = min(c.Ports, m.caps.Ports)
		c.PrivateNetwork = c.PrivateNetwork && m.key == g.members[0].key
	}
	slices.Sort(verbs)
	c.Account, c.EndsBilling = strings.Join(slices.Sorted(maps.Keys(c.Accounts)), " "), strings.Join(slices.Compact(verbs), ", ")
	return c
}

// touch records that a member has dealt with the pool.
func (g *Group) touch(keys ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.begun = true
	if g.touched == nil {
		g.touched = map[string]bool{}
	}
	for _, key := range keys {
		g.touched[key] = true
	}
}

// Begin limits what is asked about the pool to these accounts, by their keys, and to those of later
// launches. Without it every member is asked.
func (g *Group) Begin(accounts ...string) { g.touch(accounts...) }

// concerned returns a member for each account that may have dealt with the pool.
func (g *Group) concerned() (all []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.accounts() {
		if !g.begun || g.touched[m.key] {
			all = append(all, m)
		}
	}
	return all
}

// accounts returns one member for each account.
func (g *Group) accounts() []*member {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(g.members), func(m *member) bool {
		again := seen[m.key]
		seen[m.key] = true
		return again
	})
}

// each calls f for all of the members at once.
func each(members []*member, f func(i int, m *member) error) error {
	errs := make([]error, len(members))
	var all sync.WaitGroup
	for i, m := range members {
		all.Go(func() { errs[i] = f(i, m) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Launch prepares the offer's member if it has to, and launches there.
func (g *Group) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	m, err := g.offering("launch", req.Offer)
	if err != nil {
		return nil, err
	}
	if err := g.prepare(ctx, m, req.Pool); err != nil {
		return nil, err
	}
	req.Pool, req.Offer = m.info(req.Pool), m.ownOffer(req.Offer)
	got, err := m.driver.Launch(ctx, req)
	return m.groupInstances(got), err
}

// offering returns the member of an offer.
func (g *Group) offering(op string, o driver.Offer) (*member, error) {
	number, _, _ := strings.Cut(o.ID, "/")
	index, err := strconv.Atoi(number)
	if err != nil || index < 1 || index > len(g.members) {
		return nil, &driver.Error{Provider: g.name, Op: op, Kind: driver.ErrInvalid, Err: fmt.Errorf("%s in %s is no offer of this driver", o.InstanceType, o.Region)}
	}
	return g.members[index-1], nil
}

// Balance asks the offer's member, if that can tell.
func (g *Group) Balance(ctx context.Context, o driver.Offer) (driver.Balance, error) {
	m, err := g.offering("balance", o)
	if err != nil {
		return driver.Balance{}, err
	}
	if d, ok := m.driver.(driver.Balancer); ok {
		return d.Balance(ctx, m.ownOffer(o))
	}
	return driver.Balance{}, nil
}

// Quota asks the offer's member, if that can tell.
func (g *Group) Quota(ctx context.Context, o driver.Offer) (driver.Quota, error) {
	m, err := g.offering("quota", o)
	if err != nil {
		return driver.Quota{}, err
	}
	if d, ok := m.driver.(driver.Quoter); ok {
		return d.Quota(ctx, m.ownOffer(o))
	}
	return driver.Quota{}, nil
}

// owners returns the members of these machines. A machine of no member is an error.
func (g *Group) owners(op string, ids []string) ([]*member, error) {
	var all []*member
	for _, m := range g.accounts() {
		if slices.ContainsFunc(ids, m.has) {
			all = append(all, m)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(m *member) bool { return m.has(id) }) {
			why := []error{fmt.Errorf("%s belongs to none of its members", id)}
			for _, out := range g.out {
				why = append(why, out.Err)
			}
			return all, &driver.Error{Provider: g.name, Op: op, Kind: driver.ErrNotFound, Err: errors.Join(why...), Hint: "configure the member that it was rented from"}
		}
	}
	return all, nil
}

// Describe asks each machine's member.
func (g *Group) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	owners, strange := g.owners("describe", ids)
	byID := map[string]driver.Instance{}
	found := make([][]driver.Instance, len(owners))
	err := each(owners, func(i int, m *member) (err error) {
		found[i], err = m.driver.Describe(ctx, m.ownIDs(ids)...)
		return err
	})
	for i, m := range owners {
		for _, inst := range m.groupInstances(found[i]) {
			byID[inst.ID] = inst
		}
	}
	var all []driver.Instance
	for _, id := range ids {
		if inst, ok := byID[id]; ok {
			all = append(all, inst)
		}
	}
	return all, errors.Join(strange, err)
}

// List asks the members that have dealt with the pool, or all of them for all pools.
func (g *Group) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	asked := g.concerned()
	if poolID == "" {
		asked = g.accounts()
	}
	found := make([][]driver.Resource, len(asked))
	err := each(asked, func(i int, m *member) (err error) {
		found[i], err = m.driver.List(ctx, poolID)
		return err
	})
	var all []driver.Resource
	for i, m := range asked {
		for _, r := range found[i] {
			all = append(all, m.resource(r))
		}
	}
	return all, err
}

// Terminate asks each machine's member.
func (g *Group) Terminate(ctx context.Context, ids ...string) error {
	owners, strange := g.owners("terminate", ids)
	err := each(owners, func(_ int, m *member) error { return m.driver.Terminate(ctx, m.ownIDs(ids)...) })
	return errors.Join(strange, err)
}

// Release asks the members that have dealt with the pool.
func (g *Group) Release(ctx context.Context, pool driver.PoolInfo) error {
	return each(g.concerned(), func(_ int, m *member) error { return m.driver.Release(ctx, m.info(pool)) })
}

// Close closes the members.
func (g *Group) Close() error {
	return each(g.members, func(_ int, m *member) error { return m.driver.Close() })
}

// MarkLease asks each machine's member that can.
func (g *Group) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	owners, strange := g.owners("mark the lease of", ids)
	err := each(owners, func(_ int, m *member) error {
		if marker, ok := m.driver.(driver.LeaseMarker); ok {
			return marker.MarkLease(ctx, m.info(pool), until, m.ownIDs(ids)...)
		}
		return nil
	})
	return errors.Join(strange, err)
}

// Dial connects to a machine by its member.
func (g *Group) Dial(ctx context.Context, inst driver.Instance) (net.Conn, error) {
	owners, err := g.owners("dial", []string{inst.ID})
	if err != nil {
		return nil, err
	}
	m := owners[0]
	return Dial(ctx, m.provider, m.driver, *m.caps, m.own(inst))
}

// Scripts returns the text of the machine's member.
func (g *Group) Scripts(inst driver.Instance) driver.Scripts {
	owners, err := g.owners("", []string{inst.ID})
	if err != nil {
		return driver.Scripts{}
	}
	if d, ok := owners[0].driver.(driver.Scripter); ok {
		return d.Scripts(owners[0].own(inst))
	}
	return driver.Scripts{}
}

// Advise returns the advice of the machine's member.
func (g *Group) Advise(inst driver.Instance, kind error) string {
	owners, err := g.owners("", []string{inst.ID})
	if err != nil {
		return ""
	}
	if d, ok := owners[0].driver.(driver.Adviser); ok {
		return d.Advise(owners[0].own(inst), kind)
	}
	return ""
}
