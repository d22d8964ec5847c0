package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

const (
	// memberTime is how long RunPod may take to say which pods a cluster has.
	memberTime = 2 * time.Minute
	// mostMembers is where a create with all host keys becomes too large to be taken.
	mostMembers = 64
)

// A clusterDriver is a driver of Instant Clusters, whose members cannot end themselves: it is no
// SelfDestructor, by which the most that a pool may cost would be told too low.
type clusterDriver struct{ gputrain.Driver }

// launchCluster creates one cluster for all nodes. Nodes have the ranks that RunPod
// gives: the first member is the first of the request.
func (d *driver) launchCluster(ctx context.Context, o order) ([]gputrain.Instance, error) {
	nodes := o.req.Nodes
	if len(nodes) < 2 || len(nodes) > mostMembers {
		return nil, &gputrain.Error{Kind: gputrain.ErrUnsupported, Err: fmt.Errorf("an instant cluster of %d nodes; it has from 2 to %d", len(nodes), mostMembers),
			Hint: "a node that is lost cannot be replaced alone; open the pool again"}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	name := prefix + nodes[0].Name + ofCluster
	made, err := d.client.createCluster(ctx, createCluster{
		Name: name, Type: "TRAINING", Compute: compute{GPUTypeID: o.id, GPUCountPerPod: o.count, PodCount: len(nodes)},
		Image: d.cfg.image(o.nvidia()), Args: startCommand(), Disk: d.cfg.disk(false, o.req.Spec.DiskGiB), Mounts: o.mounts, Ports: d.cfg.ports(),
		Env: d.environment(o.req, nodes, time.Now()), DataCenterIDs: o.centers, StartSSH: true,
	})
	settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if err != nil && isAmbiguous(err) {
		all, lookErr := d.client.clusters(settling)
		if i := slices.IndexFunc(all, func(k cluster) bool { return k.Name == name }); i >= 0 {
			made, err = all[i], nil
		} else if lookErr != nil {
			err = errors.Join(err, fmt.Errorf("looking for what it made: %w", lookErr))
		}
	}
	if err != nil {
		return nil, err
	}
	got, err := d.members(ctx, made.ID, o)
	if err == nil {
		return got, nil
	}
	// Whose nodes its pods are cannot be told: none can be used.
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	if left := d.endCluster(ending, made.ID); left != nil {
		return nil, &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: fmt.Errorf("%v; ending cluster %s again: %v", err, made.ID, left)}
	}
	return nil, err
}

// endCluster ends a cluster whose members are not known, and returns why it is not known to be
// gone. As long as it is listed it is asked for again.
func (d *driver) endCluster(ctx context.Context, id string) error {
	for {
		if err := d.client.deleteCluster(ctx, id); err != nil && !isGone(err) {
			return err
		}
		all, err := d.client.clusters(ctx)
		if err == nil && !slices.ContainsFunc(all, func(k cluster) bool { return k.ID == id }) {
			return nil
		}
		if !launches.Pause(ctx, time.Second) {
			return cmp.Or(err, fmt.Errorf("it is still there: %w", context.Cause(ctx)))
		}
	}
}

// members waits until a cluster's pods have their ranks, and returns them as nodes.
func (d *driver) members(ctx context.Context, id string, o order) ([]gputrain.Instance, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, memberTime, errors.New("RunPod does not say which pods the cluster has"))
	defer cancel()
	for {
		pods, err := d.client.clusterPods(ctx, id)
		if err != nil && !isGone(err) {
			return nil, err
		}
		var got []gputrain.Instance
		seen := map[int]bool{}
		for _, p := range pods {
			if p.Cluster == nil || p.Cluster.Rank == nil || p.ID == "" {
				continue
			}
			if rank := *p.Cluster.Rank; rank >= 0 && rank < len(o.req.Nodes) && !seen[rank] {
				seen[rank] = true
				d.remember(p.ID, o.req.Nodes[rank], o.req.Offer)
				got = append(got, d.instance(p))
			}
		}
		if len(got) == len(o.req.Nodes) {
			slices.SortFunc(got, func(a, b gputrain.Instance) int { return a.Rank - b.Rank })
			return got, nil
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// terminateClusters ends the clusters of members that cannot be ended alone, where
// all of a cluster's members are to go.
func (d *driver) terminateClusters(ctx context.Context, members, ids []string) error {
	var errs []error
	ended := map[string]bool{}
	for _, id := range members {
		p, err := d.client.pod(ctx, id)
		switch {
		case isGone(err):
			continue
		case err != nil:
			errs = append(errs, err)
			continue
		case p.Cluster == nil:
			errs = append(errs, &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: fmt.Errorf("%s cannot be deleted while it is %s", id, p.Status)})
			continue
		case ended[p.Cluster.ID]:
			continue
		}
		ended[p.Cluster.ID] = true
		if err := d.terminateCluster(ctx, p.Cluster.ID, id, ids); err != nil && !isGone(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (d *driver) terminateCluster(ctx context.Context, id, member string, ids []string) error {
	pods, err := d.client.clusterPods(ctx, id)
	switch {
	case err != nil:
		return err
	case !slices.ContainsFunc(pods, func(p pod) bool { return p.ID == member }): // nor perhaps others, which are to stay
		return odd("the pods of cluster %s lack %s, which is one of them", id, member)
	}
	var stay []string
	for _, p := range pods {
		if p.Status != "TERMINATED" && !slices.Contains(ids, p.ID) {
			stay = append(stay, p.ID)
		}
	}
	if len(stay) > 0 {
		return &gputrain.Error{Kind: gputrain.ErrUnsupported, Err: fmt.Errorf("the members of cluster %s end together, and %s are to stay", id, strings.Join(stay, ", "))}
	}
	if err := d.client.deleteCluster(ctx, id); err != nil {
		return err
	}
	for _, p := range pods {
		d.ended(p.ID)
	}
	return nil
}

// terminate ends a pod, or a cluster that has none.
func (d *driver) terminate(ctx context.Context, id string) error {
	if k, is := strings.CutPrefix(id, clusterID); is {
		return d.client.deleteCluster(ctx, k)
	}
	return d.client.deletePod(ctx, id)
}

// describeCluster reports a cluster that List has found without members.
func (d *driver) describeCluster(ctx context.Context, id string) (gputrain.Instance, error) {
	in := gputrain.Instance{ID: clusterID + id, Rank: -1, State: gputrain.InstanceTerminated, StateReason: "RunPod knows no such cluster"}
	all, err := d.client.clusters(ctx)
	if i := slices.IndexFunc(all, func(k cluster) bool { return k.ID == id }); i >= 0 {
		in.Name, in.State, in.StateReason = strings.TrimPrefix(all[i].Name, prefix), gputrain.InstancePending, "a cluster without members"
	}
	return in, err
}
