package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

const (
	// memberTime bounds the wait for RunPod to report a cluster's pods.
	memberTime = 2 * time.Minute
	// settleTime bounds the end of an unusable cluster.
	settleTime = 30 * time.Second
	// From mostMembers on, a create with all host keys would be too large for the API.
	mostMembers = 64
)

// clusters is RunPod's API for Instant Clusters: one call makes all nodes of a pool.
type clusters struct{ *api }

var _ cloud.Together = clusters{}

// CreateTogether creates one cluster for all nodes. Nodes have RunPod's ranks: the first member
// is the first of the orders.
func (c clusters) CreateTogether(ctx context.Context, orders []cloud.Order) ([]cloud.Machine, error) {
	if len(orders) < 2 || len(orders) > mostMembers {
		return nil, &driver.Error{Kind: driver.ErrUnsupported, Err: fmt.Errorf("an instant cluster of %d nodes; it has from 2 to %d", len(orders), mostMembers),
			Hint: "a node that is lost cannot be replaced alone; open the pool again"}
	}
	o, err := c.order(ctx, orders[0])
	if err != nil {
		return nil, err
	}
	nodes := cloud.Each(orders, func(o cloud.Order) driver.NodeRequest { return o.Node })
	name := pooltag.Prefix + nodes[0].Name + ofCluster
	made, err := c.client.createCluster(ctx, createCluster{
		Name: name, Type: "TRAINING", Compute: compute{GPUTypeID: o.id, GPUCountPerPod: o.count, PodCount: len(nodes)},
		Image: c.cfg.with(o.Spec).image(o.nvidia()), Args: startCommand(), Disk: c.cfg.disk(false, o.Spec.DiskGiB), Mounts: o.mounts, Ports: c.cfg.ports(),
		Env: c.environment(o.Pool, o.Offer.ID, nodes, time.Now()), DataCenterIDs: o.centers, StartSSH: true,
	})
	if err != nil && isAmbiguous(err) {
		made, err = c.settle(ctx, o.Pool, name, err)
	}
	if err != nil {
		return nil, err
	}
	got, err := c.members(ctx, made.ID, len(nodes))
	if err == nil {
		return got, nil
	}
	// RunPod does not report whose nodes its pods are, so none can be used.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if left := c.endUnused(ending, made.ID); left != nil {
		return nil, &driver.Error{Kind: driver.ErrUnavailable, Err: fmt.Errorf("%v; ending cluster %s again: %v", err, made.ID, left)}
	}
	return nil, err
}

// settle looks for the cluster of a create whose answer was lost.
func (c clusters) settle(ctx context.Context, pool driver.PoolInfo, name string, why error) (cluster, error) {
	return cloud.Search[cluster]{
		Pool: pool, Name: name, Why: why, Lag: c.lag, Pause: cloud.Second,
		Find: func(ctx context.Context) (cluster, bool, error) {
			all, err := c.client.clusters(ctx)
			if i := slices.IndexFunc(all, func(k cluster) bool { return k.Name == name }); i >= 0 {
				return all[i], true, nil
			}
			return cluster{}, false, err
		},
	}.Settle(ctx)
}

// endUnused ends a cluster without known members. It returns nil once the cluster is known to
// be gone, and repeats the call as long as the cluster is listed.
func (c clusters) endUnused(ctx context.Context, id string) error {
	for {
		if err := c.client.deleteCluster(ctx, id); err != nil && !isGone(err) {
			return err
		}
		all, err := c.client.clusters(ctx)
		if err == nil && !slices.ContainsFunc(all, func(k cluster) bool { return k.ID == id }) {
			return nil
		}
		if !retry.Sleep(ctx, cloud.Second) {
			return cmp.Or(err, fmt.Errorf("it is still there: %w", context.Cause(ctx)))
		}
	}
}

// members waits until a cluster's pods have their ranks, and returns them by rank.
func (c clusters) members(ctx context.Context, id string, nodes int) ([]cloud.Machine, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, memberTime, errors.New("RunPod does not report the cluster's pods"))
	defer cancel()
	for {
		pods, err := c.client.clusterPods(ctx, id)
		if err != nil && !isGone(err) {
			return nil, err
		}
		byRank := map[int]cloud.Machine{}
		for _, p := range pods {
			if p.Cluster == nil || p.Cluster.Rank == nil || p.ID == "" {
				continue
			}
			if rank := *p.Cluster.Rank; rank >= 0 && rank < nodes && byRank[rank].ID == "" {
				byRank[rank] = machine(p)
			}
		}
		if len(byRank) == nodes {
			got := make([]cloud.Machine, nodes)
			for rank, m := range byRank {
				got[rank] = m
			}
			return got, nil
		}
		if !retry.Sleep(ctx, cloud.Second) {
			return nil, context.Cause(ctx)
		}
	}
}
