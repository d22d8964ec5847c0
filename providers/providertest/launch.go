package providertest

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

func launchChecks() []check {
	return []check{
		{"launch of three", []string{"Account"}, launchThree},
		{"launch of what there is no room for", []string{"Account", "Room"}, launchNoRoom},
		{"launch of more than there is room for", []string{"Account", "Room"}, launchPartly},
		{"launch after the caller has given up", []string{"Account"}, launchTooLate},
		{"tags round trip", nil, launchTags},
	}
}

func launchThree(c *trial) {
	p := c.prepared()
	req := p.request(3)
	got, err := p.Launch(c.Context(), req)
	if err != nil || len(got) != 3 {
		c.Fatalf("Driver.Launch of three returns %d machines and %v: it starts one for each of req.Nodes", len(got), err)
	}
	p.holds("one for each of req.Nodes", ids(got)...)
	seen := map[string]bool{}
	for _, in := range got {
		i := slices.IndexFunc(req.Nodes, func(n gputrain.NodeRequest) bool { return n.Name == in.Name })
		if i < 0 || in.Rank != req.Nodes[i].Rank || in.ID == "" || seen[in.Name] || seen[in.ID] {
			c.Errorf("Driver.Launch returns ID %q, Name %q, Rank %d: Name and Rank are those of a NodeRequest, each once", in.ID, in.Name, in.Rank)
		}
		seen[in.Name], seen[in.ID] = true, true
		if in.State >= gputrain.InstancePreempted {
			c.Errorf("a machine that was just launched is %v: \"not there\" right after create is not \"gone\"", in.State)
		}
	}
	for i, in := range p.running(got) {
		asked := req.Nodes[slices.IndexFunc(req.Nodes, func(n gputrain.NodeRequest) bool { return n.Name == got[i].Name })]
		if in.Name != got[i].Name || in.Rank != got[i].Rank {
			c.Errorf("Driver.Describe says that %s has Name %q and Rank %d; Launch said %q and %d", in.ID, in.Name, in.Rank, got[i].Name, got[i].Rank)
		}
		if in.Offer.HourlyUSD != req.Offer.HourlyUSD || in.Offer.Provider != c.name {
			c.Errorf("Instance.Offer is %+v: it is what was rented, at the price that is really charged, here %v", in.Offer, req.Offer.HourlyUSD)
		}
		if _, _, err := net.SplitHostPort(in.SSH.Addr); err != nil || in.SSH.User == "" {
			c.Errorf("a machine that runs has Endpoint Addr %q and User %q: Addr is host:port", in.SSH.Addr, in.SSH.User)
		}
		c.hostKeys(p.caps.HostKeys, in.SSH, asked)
		if err := c.eventually(max(p.caps.ProvisionTimeout, patience), func() error { return p.reach(in) }); err != nil {
			c.Errorf("%s is not reached by its Endpoint: %v", in.ID, err)
		}
	}
}

func (c *trial) hostKeys(source gputrain.HostKeySource, e gputrain.Endpoint, asked gputrain.NodeRequest) {
	c.Helper()
	fields := func(key string) []string { f := strings.Fields(key); return f[:min(len(f), 2)] } // without the comment
	switch source {
	case gputrain.HostKeyInjected:
		if len(e.HostKeys) != 1 || !slices.Equal(fields(e.HostKeys[0]), fields(asked.HostKey.Public)) {
			c.Errorf("Endpoint.HostKeys is %q, and what was injected is %q", e.HostKeys, asked.HostKey.Public)
		}
	case gputrain.HostKeyPublished:
		if len(e.HostKeys) == 0 {
			c.Error("Capabilities.HostKeys is published: the driver reports them in Endpoint.HostKeys")
		}
	case gputrain.HostKeyConfigured:
		if len(e.HostKeys) == 0 && e.KnownHosts == "" {
			c.Error("Capabilities.HostKeys is configured: Endpoint has HostKeys or KnownHosts")
		}
	}
}

func launchNoRoom(c *trial) {
	p := c.prepared()
	req := p.request(1)
	c.h.Room(0)
	got, err := p.Launch(c.Context(), req)
	c.failure("Driver.Launch without room", err, gputrain.ErrNoCapacity, gputrain.ErrQuota)
	p.holds("there is no room for any", ids(got)...)
	if len(got) > 0 {
		c.Errorf("Driver.Launch returns %q where there is no room", ids(got))
	}
}

func launchPartly(c *trial) {
	p := c.prepared()
	req := p.request(3)
	c.h.Room(2)
	got, err := p.Launch(c.Context(), req)
	c.failure("Driver.Launch of three machines where there is room for two", err, gputrain.ErrNoCapacity, gputrain.ErrQuota)
	p.holds("Launch may return machines and an error, and those machines exist", ids(got)...)
	if !p.caps.Adopts {
		return
	}
	if len(got) != 2 {
		c.Errorf("Driver.Launch adopts %d machines where two are free", len(got))
	}
}

func launchTooLate(c *trial) {
	p := c.prepared()
	req := p.request(1)
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	got, err := p.Launch(ctx, req)
	if err == nil {
		c.Error("Driver.Launch under a context that has ended is a success")
	}
	p.holds("the context had ended before", ids(got)...)
}

// What another program finds by its own driver is what the tags say, or, where
// machines have none (Capabilities.Tags), at least their pool, by their names.
func launchTags(c *trial) {
	before := time.Now().Add(-time.Second)
	p := c.prepared()
	got := p.launch(2)
	other := c.open()
	for _, poolID := range []string{p.info.ID, ""} {
		var machines []gputrain.Resource
		c.listed(other, poolID, func(list []gputrain.Resource) error {
			machines = nil
			for _, r := range list {
				if r.Pool == p.info.ID && r.Kind == "machine" {
					machines = append(machines, r)
				}
			}
			if len(machines) != 2 {
				return fmt.Errorf("%d machines are listed for pool %q, want the two that were launched, by their tag", len(machines), poolID)
			}
			return nil
		})
		for _, r := range machines {
			i := slices.IndexFunc(got, func(in gputrain.Instance) bool { return in.ID == r.ID })
			if i < 0 || got[i].Name != r.Name {
				c.Errorf("Driver.List has ID %q and Name %q, and Launch returned %q", r.ID, r.Name, ids(got))
				continue
			}
			if r.Provider != c.name {
				c.Errorf("Resource.Provider is %q, want %q", r.Provider, c.name)
			}
			if p.caps.Tags && (r.Owner != p.info.Owner || r.Lease != p.info.Lease || !r.Expires.Equal(p.info.Expires)) {
				c.Errorf("Driver.List has %+v: pool, owner, lease and expiry are tags of the create call, here of %+v", r, p.info)
			}
			if _, known := r.HourlyUSD.USD(); known && r.HourlyUSD != got[i].Offer.HourlyUSD {
				c.Errorf("Resource.HourlyUSD is %v, and Launch said %v", r.HourlyUSD, got[i].Offer.HourlyUSD)
			}
			if !r.Created.IsZero() && (r.Created.Before(before.Truncate(time.Second)) || r.Created.After(time.Now().Add(time.Second))) {
				c.Errorf("Resource.Created is %v; it was just made", r.Created)
			}
		}
	}
}
