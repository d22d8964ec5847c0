package vastai

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// addressScript prints a node's address on its network.
//
//go:embed address.sh
var addressScript string

// A network is the overlay network of a driver's pool, with what is known of other pools'
// networks.
type network struct {
	client  *client
	wanted  bool          // by Config.UseOverlay
	timeout time.Duration // for making it

	making sync.Mutex // held to make it

	mu      sync.Mutex
	seen    map[string]bool // pools that had one
	begun   map[string]bool // pools that this driver has prepared: those that are not seen have none
	cluster int64           // of the pool's network; zero if there is none or it is unknown
	pool    string          // opened by another program; MarkLease was called for it
}

func newNetwork(client *client, cfg Config) *network {
	return &network{client: client, wanted: cfg.UseOverlay, timeout: cfg.OverlayTimeout, seen: map[string]bool{}, begun: map[string]bool{}}
}

// mayExist reports whether the API must be asked for a pool's network, and whether it is certain that there is one: few pools
// have one, and a key may lack only this permission.
func (n *network) mayExist(poolID string) (may, certain bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	certain = n.wanted || n.seen[poolID]
	return certain || !n.begun[poolID], certain
}

// begin records that this driver prepares a pool.
func (n *network) begin(pool driver.PoolInfo) {
	n.recall(pool)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.begun[pool.ID] = true
}

// inUse reports whether nodes may be on a network.
func (n *network) inUse() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.wanted || len(n.seen) > 0
}

// recall records that a pool has a network if its ledger says so: its Config may not have asked for it.
func (n *network) recall(pool driver.PoolInfo) {
	if !slices.ContainsFunc(pool.Made, func(r driver.Resource) bool { return r.Kind == "network" }) {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[pool.ID] = true
}

// resources returns the networks of a pool, or of all.
func (n *network) resources(ctx context.Context, poolID string) ([]driver.Resource, error) {
	all, err := n.client.overlays(ctx)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	var found []driver.Resource
	for _, o := range all {
		if pool, ours := pooltag.PoolOf(o.Name); ours && (poolID == "" || pool == poolID) {
			n.seen[pool] = true
			found = append(found, driver.Resource{Kind: "network", ID: strconv.FormatInt(o.ID, 10), Name: o.Name, Pool: pool, HourlyUSD: driver.USD(0)})
		}
	}
	return found, nil
}

// inCluster returns the cluster of the pool's network, or zero.
func (n *network) inCluster() int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cluster
}

func (n *network) setCluster(cluster int64) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.cluster = cluster
}

// takeUp records the pool that another program has opened.
func (n *network) takeUp(poolID string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pool = poolID
}

// make makes the pool's overlay network, unless there is one, and returns its name. The first
// launch calls it, not Prepare: the network's cluster is the offer's.
func (n *network) make(ctx context.Context, pool driver.PoolInfo, cluster int64) (string, error) {
	n.making.Lock()
	defer n.making.Unlock()
	name := pooltag.SharedName(pool.ID)
	in := n.inCluster()
	switch {
	case cluster == 0:
		return "", &driver.Error{Kind: driver.ErrNoCapacity, Err: errors.New("the machine is not in a cluster, so it cannot be on an overlay network")}
	case in == cluster:
		return name, nil
	case in != 0:
		return "", &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("the machine is in cluster %d, the pool's network in %d", cluster, in)}
	}
	ctx, cancel := context.WithTimeout(ctx, n.timeout)
	defer cancel()
	o, err := n.named(ctx, name)
	if err != nil {
		return "", notMade(name, err)
	}
	r := driver.Resource{Kind: "network", Name: name, HourlyUSD: driver.USD(0)}
	if o == nil {
		if err := pool.Record(r); err != nil {
			return "", err
		}
		n.mu.Lock()
		n.seen[pool.ID] = true
		n.mu.Unlock()
		if o, err = n.create(ctx, cluster, name); err != nil {
			return "", notMade(name, err)
		}
	}
	if o.ClusterID != cluster {
		return "", &driver.Error{Kind: driver.ErrNoCapacity, Err: fmt.Errorf("the machine is in cluster %d, network %s in %d", cluster, name, o.ClusterID)}
	}
	r.ID = strconv.FormatInt(o.ID, 10)
	if err := pool.Record(r); err != nil {
		return "", err
	}
	n.setCluster(cluster)
	return name, nil
}

// create makes a network. Only the list proves that it exists, as the answer may be lost.
func (n *network) create(ctx context.Context, cluster int64, name string) (*overlay, error) {
	makeErr := n.client.makeOverlay(ctx, cluster, name)
	for {
		o, err := n.named(ctx, name)
		if o != nil {
			return o, nil
		}
		if makeErr != nil && err == nil || !retry.Sleep(ctx, cloud.Second) {
			return nil, errors.Join(makeErr, err, ctx.Err())
		}
	}
}

// notMade returns the error of a missing network, because of which no machine was rented
// either. A key that may not make one may not do so for the next offer.
func notMade(name string, err error) error {
	kind := driver.ErrNoCapacity
	if kindOf(err) == driver.ErrAuth {
		kind = driver.ErrAuth
	}
	return &driver.Error{Kind: kind, Err: fmt.Errorf("overlay network %s: %w; no machine was rented", name, err),
		Hint: "do without UseOverlay and NetworkPrivate, or set a longer OverlayTimeout"}
}

func (n *network) named(ctx context.Context, name string) (*overlay, error) {
	all, err := n.client.overlays(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range all {
		if o.Name == name {
			return &o, nil
		}
	}
	return nil, nil
}

// find looks up the cluster of a network that another program has made: only from there a node
// can be replaced.
func (n *network) find(ctx context.Context) error {
	n.mu.Lock()
	poolID, known := n.pool, n.cluster != 0
	n.mu.Unlock()
	if poolID == "" || known {
		return nil
	}
	o, err := n.named(ctx, pooltag.SharedName(poolID))
	if err != nil || o == nil {
		return err
	}
	n.setCluster(o.ClusterID)
	return nil
}

// remove removes the network of a pool if nothing is left in it: the API would end the
// instances in it, whatever their pool.
func (n *network) remove(ctx context.Context, poolID string) error {
	name := pooltag.SharedName(poolID)
	o, err := n.named(ctx, name)
	if err != nil || o == nil {
		return err
	}
	if left := max(o.InstanceCount, len(o.Instances)); left > 0 {
		return fmt.Errorf("overlay network %s still has %d instances %v, which would end with it", name, left, o.Instances)
	}
	if err := n.client.deleteOverlay(ctx, o.ID); err != nil && !isGone(err) {
		return fmt.Errorf("overlay network %s: %w", name, err)
	}
	n.setCluster(0)
	return nil
}
