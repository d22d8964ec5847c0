package kubernetes

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// endSeconds is the time that a pod has to end once its machine is terminated.
	endSeconds = 2
	// lostFor is how long a cluster node must not have answered before a pod that does not end there
	// is forgotten.
	lostFor = 5 * time.Minute
)

// End deletes a machine's Job, and with it its pod and its Secret.
func (a *api) End(ctx context.Context, id string) error {
	k, name, err := a.locate(id)
	if err != nil {
		return err
	}
	if !dnsLabel.MatchString(name) {
		return notThere(name)
	}
	return a.end(ctx, k, name)
}

// end deletes a pod and its Job. The pod comes first: the cluster's collector would leave it the
// time that a preempted one has. A machine without a Job exists as long as its pod.
func (a *api) end(ctx context.Context, k *cluster, name string) error {
	defer a.changed()
	pods, now, err := k.podsOf(ctx, name)
	if err != nil {
		return err
	}
	pods = slices.DeleteFunc(pods, func(p pod) bool { return p.over() || tagOf(p.Metadata).Pool == "" })
	for _, p := range pods {
		if err := a.endPod(ctx, k, p, now); err != nil && !isMissing(err) && !isStale(err) && !isRefused(err) {
			return err
		}
	}
	err = k.deleteJob(ctx, name)
	switch {
	case !isMissing(err):
		return err
	case len(pods) == 0:
		return &driver.Error{Kind: driver.ErrNotFound, Err: odd("the Job %s does not exist", name)}
	}
	if _, _, err := k.getJob(ctx, name); !isMissing(err) {
		return cmp.Or(err, odd("the Job %s is there, and was not found to delete", name))
	}
	return nil // its pod has outlived it
}

// endPod deletes a pod. One that does not end, because its cluster node is lost, is forgotten once
// nothing else can be done about it.
func (a *api) endPod(ctx context.Context, k *cluster, p pod, now time.Time) error {
	since := p.Metadata.DeletionTimestamp
	if since.IsZero() || now.Sub(since) < readyFor {
		return k.deletePod(ctx, p, endSeconds)
	}
	nodes, now, err := k.listNodes(ctx, p.Spec.NodeName)
	if err != nil {
		return err // without the right to list nodes, the cluster's owner must do it
	}
	if len(nodes) > 0 {
		ready := find(nodes[0].Status.Conditions, "Ready")
		if ready.Status == "True" || now.Sub(ready.LastTransitionTime) < lostFor {
			return nil
		}
	}
	return k.deletePod(ctx, p, 0)
}
