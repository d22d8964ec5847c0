package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Create makes the Job of a node. The call can be repeated, as a Job's name is unique: if there is
// one of the name, it is that of an earlier attempt, or not the pool's.
func (a *api) Create(ctx context.Context, order cloud.Order) (string, error) {
	if err := checkTags(order.Pool.Tags); err != nil {
		return "", err
	}
	if !dnsLabel.MatchString(order.Node.Name) {
		return "", fmt.Errorf("%w: %q cannot be the name of a Job", driver.ErrInvalid, order.Node.Name)
	}
	at, err := a.offers.placeOf(ctx, order.Offer, order.Spec)
	if err != nil {
		return "", err
	}
	wanted, err := recipe{a.cfg}.jobOf(order, at, time.Now())
	if err != nil {
		return "", err
	}
	made, err := at.cluster.makeJob(ctx, wanted)
	if isTaken(err) {
		made, err = a.adopt(ctx, at.cluster, order)
	}
	if err != nil {
		return "", err
	}
	id := a.id(at.cluster, made.Metadata.Name)
	a.mu.Lock()
	a.uids[id], a.mine[id] = made.Metadata.UID, true
	a.mu.Unlock()
	a.changed()
	return id, nil
}

// adopt returns the Job of the node's name if it was made for this very node.
func (a *api) adopt(ctx context.Context, k *cluster, order cloud.Order) (job, error) {
	j, _, err := k.getJob(ctx, order.Node.Name)
	if err != nil {
		return job{}, err
	}
	if t := tagOf(j.Metadata); t.Pool != order.Pool.ID || t.HostKey != pooltag.PublicKey(order.Node.HostKey.Public) {
		return job{}, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("the namespace %s has another Job %s", k.namespace, order.Node.Name),
			Hint: "delete it, if it is of no use"}
	}
	return j, nil
}

// Start makes the Secret of a Job, for which its pod waits, and then has the Job live as long as the order says.
func (a *api) Start(ctx context.Context, id string, order cloud.Order) error {
	k, name, err := a.locate(id)
	if err != nil {
		return err
	}
	a.mu.Lock()
	uid := a.uids[id]
	a.mine[id] = true
	a.mu.Unlock()
	if uid == "" { // it was found after the answer was lost
		j, _, err := k.getJob(ctx, name)
		if err != nil {
			return err
		}
		uid = j.Metadata.UID
	}
	if err := k.makeSecret(ctx, recipe{a.cfg}.secretOf(order, uid)); err != nil && !isTaken(err) {
		return err
	}
	if life := deadline(order, time.Now()); life > int64(secretWait.Seconds()) {
		return k.change(ctx, name, jobPatch{Spec: &deadlinePatch{life}})
	}
	return nil
}
