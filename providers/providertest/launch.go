package providertest

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

func launchChecks() []check {
	return []check{
		{"launch of three", []string{"Account"}, launchThree},
		{"launch with the user's tags", []string{"Tags"}, launchUserTags},
		{"launch of what there is no room for", []string{"Account", "Room"}, launchNoRoom},
		{"launch of more than there is room for", []string{"Account", "Room"}, launchPartly},
		{"launch after the caller has given up", []string{"Account"}, launchTooLate},
		{"tags round trip", nil, launchTags},
	}
}

func launchThree(c *trial) {
	p := c.prepared()
	reqs := p.requests(3)
	wanted, offers := nodes(reqs)
	got, err := p.launchAll(reqs)
	if err != nil || len(got) != len(wanted) {
		c.Fatalf("Driver.Launch of %d returns %d machines and %v: it starts one for each of req.Nodes", len(wanted), len(got), err)
	}
	p.holds("one for each of req.Nodes", ids(got)...)
	seen := map[string]bool{}
	for _, in := range got {
		i := slices.IndexFunc(wanted, func(n driver.NodeRequest) bool { return n.Name == in.Name })
		if i < 0 || in.Rank != wanted[i].Rank || in.ID == "" || seen[in.Name] || seen[in.ID] {
			c.Errorf("Driver.Launch returns ID %q, Name %q, Rank %d: Name and Rank are those of a NodeRequest, each once", in.ID, in.Name, in.Rank)
		}
		seen[in.Name], seen[in.ID] = true, true
		if in.State >= driver.InstancePreempted {
			c.Errorf("a machine that was just launched is reported as %v: an unknown ID right after the create does not mean that it is gone", in.State)
		}
	}
	addrs := map[string]bool{}
	for i, in := range p.running(got) {
		asked := wanted[slices.IndexFunc(wanted, func(n driver.NodeRequest) bool { return n.Name == got[i].Name })]
		if in.Name != got[i].Name || in.Rank != got[i].Rank {
			c.Errorf("Driver.Describe reports %s with Name %q and Rank %d; Launch returned %q and %d", in.ID, in.Name, in.Rank, got[i].Name, got[i].Rank)
		}
		if price := offers[asked.Name].HourlyUSD; in.Offer.HourlyUSD != price || !c.names(in.Offer.Provider) {
			c.Errorf("Instance.Offer is %+v: it must be the rented offer, at the price that is really charged, here %v", in.Offer, price)
		}
		if _, _, err := net.SplitHostPort(in.SSH.Addr); err != nil || in.SSH.User == "" {
			c.Errorf("a machine that runs has Endpoint Addr %q and User %q: Addr is host:port", in.SSH.Addr, in.SSH.User)
		}
		if caps := p.caps.Of(offers[asked.Name]); caps.PrivateNetwork {
			c.privateAddr(p.Driver, caps, in, addrs)
		}
		c.hostKeys(p.caps.HostKeys, in.SSH, asked)
		if err := c.eventually(max(p.caps.ProvisionTimeout, eventTimeout), func() error { return p.reach(in) }); err != nil {
			c.Errorf("%s cannot be reached by its Endpoint: %v", in.ID, err)
		}
	}
}

// privateAddr checks the address by which other machines of the pool reach one. Only machines of this computer, which cost
// nothing, may have one that leads back to whoever uses it, and only they may share it.
func (c *trial) privateAddr(d driver.Driver, caps driver.Capabilities, in driver.Instance, seen map[string]bool) {
	c.Helper()
	if s, ok := d.(driver.Scripter); ok && in.PrivateAddr == "" && s.Scripts(in).FindAddress != "" {
		return // the machine finds it
	}
	addr, err := netip.ParseAddr(in.PrivateAddr)
	alone := err == nil && (addr.IsLoopback() || addr.IsUnspecified()) || in.PrivateAddr == "localhost"
	if in.PrivateAddr == "" || (alone || seen[in.PrivateAddr]) && !caps.Free {
		c.Errorf("Capabilities.PrivateNetwork is true, and %s has the PrivateAddr %q: each machine has one of its own, by which the others reach it", in.ID, in.PrivateAddr)
	}
	seen[in.PrivateAddr] = true
}

func (c *trial) hostKeys(source driver.HostKeySource, e driver.Endpoint, asked driver.NodeRequest) {
	c.Helper()
	fields := func(key string) []string { f := strings.Fields(key); return f[:min(len(f), 2)] } // without the comment
	switch source {
	case driver.HostKeyInjected:
		if len(e.HostKeys) != 1 || !slices.Equal(fields(e.HostKeys[0]), fields(asked.HostKey.Public)) {
			c.Errorf("Endpoint.HostKeys is %q, and the injected key is %q", e.HostKeys, asked.HostKey.Public)
		}
	case driver.HostKeyPublished:
		if len(e.HostKeys) == 0 {
			c.Error("Capabilities.HostKeys is published: the driver reports them in Endpoint.HostKeys")
		}
	case driver.HostKeyConfigured:
		if len(e.HostKeys) == 0 && e.KnownHosts == "" {
			c.Error("Capabilities.HostKeys is configured: Endpoint has HostKeys or KnownHosts")
		}
	}
}

func launchNoRoom(c *trial) {
	p := c.prepared()
	req := p.request()
	c.h.Room(0)
	got, err := p.Launch(c.Context(), req)
	c.failure("Driver.Launch without room", err, driver.ErrNoCapacity, driver.ErrQuota)
	p.holds("there is no room for any", ids(got)...)
	if len(got) > 0 {
		c.Errorf("Driver.Launch returned %q although there is no capacity", ids(got))
	}
}

func launchPartly(c *trial) {
	p := c.prepared()
	reqs := p.requests(3)
	wanted, _ := nodes(reqs)
	room := len(wanted) - 1
	if room == 0 { // launchNoRoom checks that
		return
	}
	c.h.Room(room)
	got, err := p.launchAll(reqs)
	c.failure(fmt.Sprintf("Driver.Launch of %d machines where there is room for %d", len(wanted), room), err, driver.ErrNoCapacity, driver.ErrQuota)
	p.holds("Launch may return machines and an error, and those machines exist", ids(got)...)
	if !p.caps.Adopts {
		return
	}
	if len(got) != room {
		c.Errorf("Driver.Launch adopted %d machines, and only %d were free", len(got), room)
	}
}

// The user's own tags are for the bill, and make no machine another pool's.
func launchUserTags(c *trial) {
	want := map[string]string{"team": "vision", "cost-center": "4711"}
	p := c.prepared()
	p.info.Tags = want
	if !p.caps.UserTags {
		c.Errorf("Capabilities.UserTags is false, and the fake has Tags: Plan would warn that a machine gets none of Spec.Tags")
	}
	in := p.launch(1)[0]
	has := c.h.Tags(in.ID)
	for name, value := range want {
		if has[name] != value {
			c.Errorf("the machine has the tags %v; PoolInfo.Tags has %s=%s", has, name, value)
		}
	}
	p.holds("a user's tags do not hide a machine", in.ID)
}

func launchTooLate(c *trial) {
	p := c.prepared()
	req := p.request()
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	_, err := p.Launch(ctx, req)
	if err == nil {
		c.Error("Driver.Launch succeeded under a context that had ended")
	}
	p.holds("the context had ended before", []string{}...)
}

// Another program's driver finds the data in the tags or, without Capabilities.Tags, at
// least a machine's pool, by its name.
func launchTags(c *trial) {
	before := time.Now().Add(-time.Second)
	p := c.prepared()
	got := p.launch(2)
	other := c.open()
	for _, poolID := range []string{p.info.ID, ""} {
		var machines []driver.Resource
		c.listed(other, poolID, func(list []driver.Resource) error {
			machines = nil
			for _, r := range list {
				if r.Pool == p.info.ID && r.Kind == "machine" {
					machines = append(machines, r)
				}
			}
			if len(machines) != len(got) {
				return fmt.Errorf("%d machines are listed for pool %q, want the %d that were launched, by their tag", len(machines), poolID, len(got))
			}
			return nil
		})
		for _, r := range machines {
			i := slices.IndexFunc(got, func(in driver.Instance) bool { return in.ID == r.ID })
			if i < 0 || got[i].Name != r.Name {
				c.Errorf("Driver.List has ID %q and Name %q, and Launch returned %q", r.ID, r.Name, ids(got))
				continue
			}
			if !c.names(r.Provider) {
				c.Errorf("Resource.Provider is %q, want %q", r.Provider, c.name)
			}
			if p.caps.Tags && (r.Owner != p.info.Owner || r.Lease != p.info.Lease || !r.Expires.Equal(p.info.Expires)) {
				c.Errorf("Driver.List has %+v: pool, owner, lease and expiry are tags of the create call, here of %+v", r, p.info)
			}
			if _, known := r.HourlyUSD.USD(); known && r.HourlyUSD != got[i].Offer.HourlyUSD {
				c.Errorf("Resource.HourlyUSD is %v, and Launch returned %v", r.HourlyUSD, got[i].Offer.HourlyUSD)
			}
			if !r.Created.IsZero() && (r.Created.Before(before.Truncate(time.Second)) || r.Created.After(time.Now().Add(time.Second))) {
				c.Errorf("Resource.Created is %v; it was just made", r.Created)
			}
		}
	}
}
