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

	"github.com/gputrain/gputrain"
)

// A driver hands out hosts to the nodes of one pool.
type driver struct {
	keepCache bool

	mu    sync.Mutex
	hosts []*host
}

// A host is a machine, or one of several places on it.
type host struct {
	id       string
	endpoint gputrain.Endpoint //secretvet:ignore a host has no password
	labels   map[string]string

	state gputrain.InstanceState // unknown until it is adopted
	uses  int
	node  gputrain.NodeRequest //secretvet:ignore the driver holds hosts by pointers, which fmt does not follow
}

// newHost returns a host that is free. The nth place on one address, counted
// from 1, has an ID of its own; IDs are the same in every program that has the
// same Config, so that another one can take up the pool.
func newHost(endpoint gputrain.Endpoint, labels map[string]string, nth int) *host {
	id := endpoint.Addr
	if nth > 1 {
		id = fmt.Sprintf("%s#%d", id, nth)
	}
	return &host{id: id, endpoint: endpoint, labels: maps.Clone(labels)}
}

func (d *driver) Capabilities() gputrain.Capabilities {
	return gputrain.Capabilities{
		Adopts:           true,
		KeepCache:        d.keepCache,
		Free:             true,
		HostKeys:         gputrain.HostKeyConfigured,
		ProvisionTimeout: time.Minute, // a host is up, or it is not
	}
}

// Offers yields every host that no node has.
func (d *driver) Offers(ctx context.Context, _ gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		d.mu.Lock()
		free := d.free("")
		d.mu.Unlock()
		for _, h := range free {
			if err := ctx.Err(); err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			if !yield(h.offer(), nil) {
				return
			}
		}
	}
}

// Prepare does nothing: hosts share nothing.
func (d *driver) Prepare(context.Context, gputrain.PoolInfo) error { return nil }

// Release does nothing, as Prepare did.
func (d *driver) Release(context.Context, gputrain.PoolInfo) error { return nil }

// Launch adopts a host for each node, that of the offer first. Where there are
// fewer, the first nodes get one.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	free := d.free(req.Offer.ID)
	var got []gputrain.Instance
	for i, node := range req.Nodes[:min(len(req.Nodes), len(free))] {
		h := free[i]
		h.state, h.node = gputrain.InstanceRunning, node
		h.uses++
		got = append(got, h.instance())
	}
	if len(got) < len(req.Nodes) {
		return got, &gputrain.Error{
			Provider: provider, Op: "launch", Kind: gputrain.ErrNoCapacity,
			Err:  fmt.Errorf("%d nodes asked for, %d of %d hosts free", len(req.Nodes), len(free), len(d.hosts)),
			Hint: "add to Hosts (a host that is listed twice carries two nodes), or ask for fewer nodes",
		}
	}
	return got, nil
}

// Describe reports an adopted host as running: what it really does, the pool
// finds out over SSH. A host that this driver has not handed out belongs to a
// pool that another program opened with it, and is taken up.
func (d *driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var got []gputrain.Instance
	for _, id := range ids {
		i := slices.IndexFunc(d.hosts, func(h *host) bool { return h.id == id })
		if i < 0 {
			got = append(got, gputrain.Instance{ID: id, State: gputrain.InstanceTerminated, StateReason: "not in Hosts"})
			continue
		}
		h := d.hosts[i]
		if h.state == gputrain.InstanceUnknown {
			h.state = gputrain.InstanceRunning
			h.uses++
		}
		got = append(got, h.instance())
	}
	return got, nil
}

// List reports nothing: a host neither bills nor lingers.
func (d *driver) List(ctx context.Context, _ string) ([]gputrain.Resource, error) {
	return nil, ctx.Err()
}

// Terminate gives hosts back and touches none of them.
func (d *driver) Terminate(_ context.Context, ids ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.hosts {
		if slices.Contains(ids, h.id) {
			h.state = gputrain.InstanceTerminated
		}
	}
	return nil
}

// Close does nothing: the driver holds nothing.
func (d *driver) Close() error { return nil }

// free returns the hosts that no node has, in the order in which they are to
// be used: first the one that is wanted, then those used least, so that a node
// that was lost is replaced elsewhere if it can be.
func (d *driver) free(wanted string) []*host {
	var free []*host
	for _, h := range d.hosts {
		if h.state != gputrain.InstanceRunning {
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
	name, _, _ := net.SplitHostPort(h.endpoint.Addr) // address made it
	return name
}

func (h *host) offer() gputrain.Offer {
	return gputrain.Offer{
		Provider:     provider,
		ID:           h.id,
		InstanceType: "host",
		Region:       h.endpoint.Addr,
		HourlyUSD:    gputrain.USD(0),
		Available:    1,
	}
}

func (h *host) instance() gputrain.Instance {
	i := gputrain.Instance{
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
	if h.state == gputrain.InstanceTerminated {
		i.StateReason = "given back"
	}
	return i
}
