package ssh

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// An sshDriver hands out hosts to the nodes of one pool.
type sshDriver struct {
	keepCache bool

	mu    sync.Mutex
	hosts []*host
}

// A host is a machine, or one of several places on it.
type host struct {
	id, addr string            // addr is host:port as the user writes it
	endpoint driver.Endpoint   //secretvet:ignore a host has no password
	jumps    []driver.Endpoint //secretvet:ignore nor have those on the way
	labels   map[string]string
	warnings []string // of its offer

	state driver.InstanceState // unknown until adopted
	uses  int
	node  driver.NodeRequest //secretvet:ignore the driver holds hosts by pointers, which fmt does not follow
}

// newHost returns a free host. The nth place on one address, counted from 1, has an ID of its
// own. IDs are the same in every program with the same Config, so that another program can take
// over the pool.
func newHost(r route, labels map[string]string, nth int) *host {
	id := r.name
	if nth > 1 {
		id = fmt.Sprintf("%s#%d", id, nth)
	}
	last := len(r.hops) - 1
	return &host{id: id, addr: r.name, endpoint: r.hops[last], jumps: r.hops[:last], labels: maps.Clone(labels), warnings: r.warnings}
}

func (d *sshDriver) Capabilities() driver.Capabilities {
	return driver.Capabilities{
		Adopts:           true,
		KeepCache:        d.keepCache,
		Free:             true,
		HostKeys:         driver.HostKeyConfigured,
		ProvisionTimeout: time.Minute, // a host is either up or not
	}
}

// Offers yields the free hosts.
func (d *sshDriver) Offers(ctx context.Context, _ driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		d.mu.Lock()
		free := d.free("")
		d.mu.Unlock()
		for _, h := range free {
			if err := ctx.Err(); err != nil {
				yield(driver.Offer{}, err)
				return
			}
			if !yield(h.offer(), nil) {
				return
			}
		}
	}
}

// Prepare does nothing: hosts share nothing.
func (d *sshDriver) Prepare(context.Context, driver.PoolInfo) error { return nil }

// Release does nothing, as Prepare made nothing.
func (d *sshDriver) Release(context.Context, driver.PoolInfo) error { return nil }

// Launch adopts a host for each node, the offer's first. If there are too few, the first nodes
// get them.
func (d *sshDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	free := d.free(req.Offer.ID)
	var got []driver.Instance
	for i, node := range req.Nodes[:min(len(req.Nodes), len(free))] {
		h := free[i]
		h.state, h.node = driver.InstanceRunning, node
		h.uses++
		got = append(got, h.instance())
	}
	if len(got) < len(req.Nodes) {
		return got, &driver.Error{
			Provider: provider, Op: "launch", Kind: driver.ErrNoCapacity,
			Err:  fmt.Errorf("the pool asks for %d nodes; %d of %d hosts are free", len(req.Nodes), len(free), len(d.hosts)),
			Hint: "add to Hosts (a host that is listed twice carries two nodes), or ask for fewer nodes",
		}
	}
	return got, nil
}

// Describe reports an adopted host as running: the pool checks its state over SSH. A host that
// this driver has not handed out belongs to a pool that another program opened with it, and is
// taken over.
func (d *sshDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var got []driver.Instance
	for _, id := range ids {
		i := slices.IndexFunc(d.hosts, func(h *host) bool { return h.id == id })
		if i < 0 {
			got = append(got, driver.Instance{ID: id, State: driver.InstanceTerminated, StateReason: "not in Hosts"})
			continue
		}
		h := d.hosts[i]
		if h.state == driver.InstanceUnknown {
			h.state = driver.InstanceRunning
			h.uses++
		}
		got = append(got, h.instance())
	}
	return got, nil
}

// List reports nothing: a host neither costs anything nor is left over.
func (d *sshDriver) List(ctx context.Context, _ string) ([]driver.Resource, error) {
	return nil, ctx.Err()
}

// Terminate releases hosts and touches none of them.
func (d *sshDriver) Terminate(_ context.Context, ids ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hosts {
		if slices.Contains(ids, h.id) {
			h.state = driver.InstanceTerminated
		}
	}
	return nil
}

// Close does nothing: the driver holds nothing.
func (d *sshDriver) Close() error { return nil }

// free returns the free hosts in the order of their use: the wanted one first, then those used
// least, so that a lost node is replaced elsewhere if possible.
func (d *sshDriver) free(wanted string) []*host {
	var free []*host
	for _, h := range d.hosts {
		if h.state != driver.InstanceRunning {
			free = append(free, h)
		}
	}
	slices.SortStableFunc(free, func(a, b *host) int {
		switch wanted {
		case a.id:
			return -1
		case b.id:
			return 1
		}
		return cmp.Compare(a.uses, b.uses)
	})
	return free
}

func (h *host) name() string {
	name, _, _ := net.SplitHostPort(h.endpoint.Addr) // address has made it
	return name
}

func (h *host) offer() driver.Offer {
	return driver.Offer{
		Provider:     provider,
		ID:           h.id,
		InstanceType: "host",
		Region:       h.addr,
		Host:         h.addr, // also of its other places
		HourlyUSD:    driver.USD(0),
		Available:    1,
		Warnings:     slices.Clone(h.warnings),
	}
}

func (h *host) instance() driver.Instance {
	i := driver.Instance{
		ID:          h.id,
		Name:        h.node.Name,
		Rank:        h.node.Rank,
		State:       h.state,
		PublicAddr:  h.name(),
		PrivateAddr: h.name(),
		SSH:         h.endpoint,
		Offer:       h.offer(),
		Labels:      h.labels,
	}
	if h.state == driver.InstanceTerminated {
		i.StateReason = "given back"
	}
	return i
}
