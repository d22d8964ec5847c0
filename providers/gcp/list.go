package gcp

import (
	"context"
	"errors"
	"fmt"
	"time"

	"cloud.google.com/go/compute/apiv1/computepb"

	"github.com/gputrain/gputrain/providers/driver"
)

// list reports the machines of a pool, or of all pools.
func (i *instances) list(ctx context.Context, poolID string) ([]driver.Resource, error) {
	scopes, err := i.api.listInstances(ctx, poolID)
	if err != nil {
		return nil, err
	}
	var found []driver.Resource
	for _, in := range scopes {
		for _, machine := range in.items {
			r, ok := resourceOf(machine, in.name)
			if !ok || poolID != "" && r.Pool != poolID {
				continue
			}
			if i.note(r.ID, func(*node) {}).gone { // no such instance was found to delete: lists may lag
				now, err := i.one(ctx, r.ID)
				if err != nil {
					return nil, err
				}
				if now.State == driver.InstanceTerminated {
					continue
				}
			}
			found = append(found, r)
		}
	}
	return found, nil
}

// resourceOf describes an instance. It returns false if gputrain did not make it.
func resourceOf(in *computepb.Instance, zone string) (driver.Resource, bool) {
	t := tagIn(in)
	if t.Pool == "" {
		return driver.Resource{}, false
	}
	r := t.resource("machine", instanceID(zone, in.GetName()), in.GetName(), zone)
	r.HourlyUSD = t.price()
	r.State, _ = stateOf(in.GetStatus(), "")
	r.LeaseUntil = labelForm.ReadMap(in.GetLabels()).Until
	made := created(in.GetCreationTimestamp())
	r.Doubt = t.doubt(in.GetName(), made)
	if !made.IsZero() {
		r.Created = made
	}
	return r, true
}

// markLease records in a label of the machines until when the lease runs.
func (i *instances) markLease(ctx context.Context, poolID string, until time.Time, ids []string) error {
	var errs []error
	for _, id := range ids {
		zone, name, ok := parseID(id)
		if !ok {
			continue
		}
		err := i.mark(ctx, poolID, zone, name, until)
		if kindOf(err) == driver.ErrUnsupported { // another program has changed a label at the same time
			err = i.mark(ctx, poolID, zone, name, until)
		}
		if err != nil && !isGone(err) {
			errs = append(errs, fail("mark the lease", fmt.Errorf("%s: %w", id, err)))
		}
	}
	return errors.Join(errs...)
}

func (i *instances) mark(ctx context.Context, poolID, zone, name string, until time.Time) error {
	in, err := i.api.instance(ctx, zone, name)
	if err != nil {
		return err
	}
	labels := in.GetLabels()
	if tagIn(in).Pool != poolID {
		return nil // its labels were edited: leave it alone
	}
	labels[labelUntil] = fmt.Sprint(until.Unix())
	return i.api.setLabels(ctx, zone, name, in.GetLabelFingerprint(), labels)
}
