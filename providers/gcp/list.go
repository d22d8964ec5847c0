package gcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/gputrain/gputrain"
)

// List reports machines, rules and leftover disks, of all zones.
func (d *driver) List(ctx context.Context, poolID string) ([]gputrain.Resource, error) {
	if poolID != "" {
		if err := checkPool(poolID); err != nil {
			return nil, fail("list", err)
		}
	}
	scopes, err := d.api.listInstances(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	var found []gputrain.Resource
	for _, in := range scopes {
		for _, machine := range in.items {
			r, ok := resourceOf(machine, in.name)
			if !ok || poolID != "" && r.Pool != poolID {
				continue
			}
			if d.note(r.ID, func(*node) {}).gone { // no end was found to be made: is it only still listed?
				now, err := d.describe(ctx, r.ID)
				if err != nil {
					return nil, fail("list", err)
				}
				if now.State == gputrain.InstanceTerminated {
					continue
				}
			}
			found = append(found, r)
		}
	}
	shared, err := d.listShared(ctx, poolID)
	if err != nil {
		return nil, fail("list", err)
	}
	return append(found, shared...), nil
}

// resourceOf reports whether an instance is gputrain's, and what is known of it.
func resourceOf(in *computepb.Instance, zone string) (gputrain.Resource, bool) {
	t := tagIn(in)
	if t.Pool == "" {
		return gputrain.Resource{}, false
	}
	r := t.resource("machine", instanceID(zone, in.GetName()), in.GetName(), zone)
	r.HourlyUSD = t.price()
	r.State, _ = stateOf(in.GetStatus(), "")
	r.LeaseUntil = labelTime(in.GetLabels(), labelUntil)
	if at := created(in.GetCreationTimestamp()); !at.IsZero() {
		r.Created = at
	}
	return r, true
}

// MarkLease notes in a label of the machines how long their pool's program is known to
// live.
func (d *driver) MarkLease(ctx context.Context, pool gputrain.PoolInfo, until time.Time, ids ...string) error {
	var errs []error
	for _, id := range ids {
		zone, name, ok := parseID(id)
		if !ok {
			continue
		}
		err := d.mark(ctx, pool.ID, zone, name, until)
		if kindOf(err) == gputrain.ErrUnsupported { // somebody changed a label at the same time
			err = d.mark(ctx, pool.ID, zone, name, until)
		}
		if err != nil && !isGone(err) {
			errs = append(errs, fail("mark the lease", fmt.Errorf("%s: %w", id, err)))
		}
	}
	return errors.Join(errs...)
}

func (d *driver) mark(ctx context.Context, poolID, zone, name string, until time.Time) error {
	in, err := d.api.instance(ctx, zone, name)
	if err != nil {
		return err
	}
	labels := in.GetLabels()
	if tagIn(in).Pool != poolID {
		return nil // its labels were edited: it is not ours to change again
	}
	labels[labelUntil] = fmt.Sprint(until.Unix())
	return d.api.setLabels(ctx, zone, name, in.GetLabelFingerprint(), labels)
}
