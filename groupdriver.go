package gputrain

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
)

// A groupDriver is the drivers of a group's members. Machines have the member's key
// before their IDs, and what concerns several members is done by all of them at once.
// Only the members that have had to do with the pool are asked about it: one that
// does not answer is no trouble for a pool that has nothing there.
type groupDriver struct {
	name    string
	members []*member
	out     groupError // members that could not be opened
	caps    Capabilities

	mu      sync.Mutex
	touched map[*member]bool // nil means that any may have had to do with the pool
}

func (g *groupDriver) add(provider string, tier int, d Driver) {
	caps := d.Capabilities()
	g.members = append(g.members, &member{
		provider: provider, driver: d, caps: caps, index: len(g.members) + 1, tier: tier, key: memberKey(provider, caps.Account),
	})
}

func (g *groupDriver) Capabilities() Capabilities { return g.caps }

// common is what can be said of all members.
func (g *groupDriver) common() Capabilities {
	c := g.members[0].caps
	var accounts, verbs []string
	for _, m := range g.members {
		accounts, verbs = append(accounts, m.key), append(verbs, m.caps.EndsBilling)
		c.ListLag, c.LateEffect = max(c.ListLag, m.caps.ListLag), max(c.LateEffect, m.caps.LateEffect)
		c.ProvisionTimeout = max(c.ProvisionTimeout, cmp.Or(m.caps.ProvisionTimeout, DefaultProvisionTimeout))
		c.Adopts = c.Adopts && m.caps.Adopts
		c.KeepCache = c.KeepCache && m.caps.KeepCache
		c.Free = c.Free && m.caps.Free
		c.Spot = c.Spot || m.caps.Spot
		c.PreemptionNotice = min(c.PreemptionNotice, m.caps.PreemptionNotice)
		c.LocalAddresses = c.LocalAddresses && m.caps.LocalAddresses
		c.Mounts = c.Mounts && m.caps.Mounts
		c.DiskResizable = c.DiskResizable && m.caps.DiskResizable
		c.Tags = c.Tags && m.caps.Tags
		if m.caps.HostKeys != c.HostKeys {
			c.HostKeys = HostKeyFirstContact
		}
		c.PrivateNetwork = c.PrivateNetwork && m.key == g.members[0].key
	}
	slices.Sort(accounts)
	slices.Sort(verbs)
	c.Account, c.EndsBilling = strings.Join(slices.Compact(accounts), " "), strings.Join(slices.Compact(verbs), ", ")
	return c
}

// begin says that no member has had to do with the pool, which is new.
func (g *groupDriver) begin() { g.touched = map[*member]bool{} }

// touch says that a member has, by its key.
func (g *groupDriver) touch(key string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if m.key == key && g.touched != nil {
			g.touched[m] = true
		}
	}
}

func (g *groupDriver) concerned() (all []*member) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, m := range g.members {
		if g.touched == nil || g.touched[m] {
			all = append(all, m)
		}
	}
	return all
}

// accounts returns one member for each account.
func accounts(members []*member) []*member {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(members), func(m *member) bool {
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

// Offers yields what the members have, as they tell of it. At the end it yields what
// has kept some of them from telling, as a groupError where others did.
func (g *groupDriver) Offers(ctx context.Context, spec Spec) iter.Seq2[Offer, error] {
	return func(yield func(Offer, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		found := make(chan Offer)
		failed := make([]error, len(g.members))
		var asking sync.WaitGroup
		asked := make(chan struct{})
		defer func() { <-asked }()
		defer stop()
		for i, m := range g.members {
			asking.Go(func() {
				for o, err := range m.driver.Offers(ctx, spec) {
					if err != nil {
						failed[i] = err
						return
					}
					o.member = m.index
					select {
					case found <- o:
					case <-ctx.Done():
						return
					}
				}
			})
		}
		go func() {
			defer close(asked)
			asking.Wait()
			close(found)
		}()
		for o := range found {
			if !yield(o, nil) {
				return
			}
		}
		if err := g.leftOut(failed); err != nil {
			yield(Offer{}, err)
		}
	}
}

// leftOut makes one error of those of the members.
func (g *groupDriver) leftOut(failed []error) error {
	out, asked := slices.Clone(g.out), false
	for i, m := range g.members {
		if failed[i] != nil {
			out = append(out, memberError{m.provider, failed[i]})
		} else {
			asked = true
		}
	}
	switch {
	case out == nil:
		return nil
	case asked:
		return out
	}
	return errors.Join(out.Unwrap()...)
}

// Prepare prepares all members. A pool prepares those alone of which it rents: see
// pool.prepareFor.
func (g *groupDriver) Prepare(ctx context.Context, pool PoolInfo) error {
	var errs []error
	for _, m := range g.members {
		errs = append(errs, g.prepare(ctx, m, pool))
	}
	return errors.Join(errs...)
}

func (g *groupDriver) prepare(ctx context.Context, m *member, pool PoolInfo) error {
	g.touch(m.key)
	return m.driver.Prepare(ctx, m.info(pool))
}

func (g *groupDriver) Launch(ctx context.Context, req LaunchRequest) ([]Instance, error) {
	if req.Offer.member < 1 || req.Offer.member > len(g.members) {
		return nil, &Error{Provider: g.name, Op: "launch", Kind: ErrInvalid, Err: fmt.Errorf("%s in %s is no offer of this driver", req.Offer.InstanceType, req.Offer.Region)}
	}
	m := g.members[req.Offer.member-1]
	g.touch(m.key)
	req.Pool, req.Offer.member = m.info(req.Pool), 0
	got, err := m.driver.Launch(ctx, req)
	return m.ofGroup(got), err
}

// owners returns the members whose machines these are. Of one that is nobody's nothing
// can be said.
func (g *groupDriver) owners(op string, ids []string) ([]*member, error) {
	var all []*member
	for _, m := range accounts(g.members) {
		if slices.ContainsFunc(ids, m.has) {
			all = append(all, m)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(all, func(m *member) bool { return m.has(id) }) {
			return all, &Error{Provider: g.name, Op: op, Kind: ErrNotFound, Err: fmt.Errorf("%s is of none of its members", id), Hint: "configure the member that it was rented from"}
		}
	}
	return all, nil
}

func (g *groupDriver) Describe(ctx context.Context, ids ...string) ([]Instance, error) {
	owners, strange := g.owners("describe", ids)
	byID := map[string]Instance{}
	found := make([][]Instance, len(owners))
	err := each(owners, func(i int, m *member) (err error) {
		found[i], err = m.driver.Describe(ctx, m.ownIDs(ids)...)
		return err
	})
	for i, m := range owners {
		for _, inst := range m.ofGroup(found[i]) {
			byID[inst.ID] = inst
		}
	}
	var all []Instance
	for _, id := range ids {
		if inst, ok := byID[id]; ok {
			all = append(all, inst)
		}
	}
	return all, errors.Join(strange, err)
}

func (g *groupDriver) List(ctx context.Context, poolID string) ([]Resource, error) {
	asked := accounts(g.concerned())
	if poolID == "" {
		asked = accounts(g.members)
	}
	found := make([][]Resource, len(asked))
	err := each(asked, func(i int, m *member) (err error) {
		found[i], err = m.driver.List(ctx, poolID)
		return err
	})
	var all []Resource
	for i, m := range asked {
		for _, r := range found[i] {
			all = append(all, m.resource(r))
		}
	}
	return all, err
}

func (g *groupDriver) Terminate(ctx context.Context, ids ...string) error {
	owners, strange := g.owners("terminate", ids)
	err := each(owners, func(_ int, m *member) error { return m.driver.Terminate(ctx, m.ownIDs(ids)...) })
	return errors.Join(strange, err)
}

func (g *groupDriver) Release(ctx context.Context, pool PoolInfo) error {
	return each(accounts(g.concerned()), func(_ int, m *member) error { return m.driver.Release(ctx, m.info(pool)) })
}

func (g *groupDriver) Close() error {
	return each(g.members, func(_ int, m *member) error { return m.driver.Close() })
}
