package vastai

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// networkPrefix is what the overlay networks of pools are called before the pool's ID.
// The name is all that the API knows of what a network is for.
const networkPrefix = "gputrain-"

// addressScript prints a node's address on its network.
//
//go:embed address.sh
var addressScript string

// FindAddress has a node look for its address on its network, which the API does not tell.
func (d *driver) FindAddress(gputrain.Instance) string {
	if !d.cfg.UseOverlay {
		return ""
	}
	return cloud.Script(addressScript)
}

func networkName(poolID string) string { return networkPrefix + poolID }

// mayHaveNetwork reports whether it has to be asked whether a pool has a network: few
// have, and a key may be good for everything else.
func (d *driver) mayHaveNetwork(poolID string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.cfg.UseOverlay || d.networks[poolID]
}

func (d *driver) hasNetwork(poolID string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.networks[poolID] = true
}

// makeNetwork makes the pool's overlay network, unless there is one, and returns its
// name. It is made by the first launch, not by Prepare: its cluster is that of the offer.
func (d *driver) makeNetwork(ctx context.Context, pool gputrain.PoolInfo, cluster int64) (string, error) {
	d.network.Lock()
	defer d.network.Unlock()
	name := networkName(pool.ID)
	if cluster == 0 {
		return "", &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: errors.New("the machine is in no cluster, and cannot be on an overlay network")}
	}
	d.mu.Lock()
	in := d.cluster
	d.mu.Unlock()
	if in != 0 && in != cluster {
		return "", &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: fmt.Errorf("the machine is in cluster %d, and the pool's network in %d", cluster, in)}
	}
	if in == cluster {
		return name, nil
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.OverlayTimeout)
	defer cancel()
	o, err := d.networkNamed(ctx, name)
	if err != nil {
		return "", notMade(name, err)
	}
	r := gputrain.Resource{Kind: "network", Name: name, HourlyUSD: gputrain.USD(0)}
	if o == nil {
		if err := pool.Record(r); err != nil {
			return "", err
		}
		// As with the key, the list decides, not the answer.
		makeErr := d.api.makeOverlay(ctx, cluster, name)
		for {
			if o, err = d.networkNamed(ctx, name); o != nil {
				break
			}
			if makeErr != nil && err == nil || !launches.Pause(ctx, second) {
				return "", notMade(name, errors.Join(makeErr, err, ctx.Err()))
			}
		}
	}
	if o.ClusterID != cluster {
		return "", &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: fmt.Errorf("the machine is in cluster %d, and network %s in %d", cluster, name, o.ClusterID)}
	}
	r.ID = strconv.FormatInt(o.ID, 10)
	if err := pool.Record(r); err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cluster = cluster
	return name, nil
}

// notMade is the error of a network that is not there, so that no machine was asked for
// either. A key that may not make one may not for the next offer.
func notMade(name string, err error) error {
	kind := gputrain.ErrNoCapacity
	if kindOf(err) == gputrain.ErrAuth {
		kind = gputrain.ErrAuth
	}
	return &gputrain.Error{Kind: kind, Err: fmt.Errorf("overlay network %s: %w; no machine was rented", name, err),
		Hint: "do without UseOverlay, or set a longer OverlayTimeout"}
}

func (d *driver) networkNamed(ctx context.Context, name string) (*overlay, error) {
	all, err := d.api.overlays(ctx)
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

// findNetwork finds out in which cluster the network of a pool is that another program has
// opened: only from there can a node be replaced.
func (d *driver) findNetwork(ctx context.Context) error {
	d.mu.Lock()
	poolID, known := d.pool, d.cluster != 0
	d.mu.Unlock()
	if poolID == "" || known {
		return nil
	}
	o, err := d.networkNamed(ctx, networkName(poolID))
	if err != nil || o == nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cluster = o.ClusterID
	return nil
}

// removeNetwork removes a network that nothing is left in: the API would end the
// instances in it, too, whoever's they are.
func (d *driver) removeNetwork(ctx context.Context, name string) error {
	o, err := d.networkNamed(ctx, name)
	if err != nil || o == nil {
		return err
	}
	if n := max(o.InstanceCount, len(o.Instances)); n > 0 {
		return fmt.Errorf("overlay network %s still has %d instances %v, which would end with it", name, n, o.Instances)
	}
	if err := d.api.deleteOverlay(ctx, o.ID); err != nil && !isGone(err) {
		return fmt.Errorf("overlay network %s: %w", name, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cluster = 0
	return nil
}
