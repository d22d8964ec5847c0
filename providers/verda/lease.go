package verda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A driver is the driver of a [verda], whose tags can be changed.
type driver struct {
	*cloud.Driver
	api *verda
}

var _ gputrain.LeaseMarker = (*driver)(nil)

// leaseKeys are tags of one meaning, of which the later counts. A tag cannot be changed, only
// removed and added: with one alone there would be a moment without, in which the pool of a
// living program looks like one of a dead.
var leaseKeys = []string{cloud.Prefix + "until", cloud.Prefix + "until-2"}

// readTags says whose a thing is by its tags.
func readTags(tags []tag) cloud.Tag {
	pairs := map[string]string{}
	for _, t := range tags {
		pairs[t.Key] = t.Value
	}
	owner := cloud.FromPairs(pairs)
	if until := latest(leases(tags)); until.Value != "" {
		pairs[leaseKeys[0]] = until.Value
		owner.Until = cloud.FromPairs(pairs).Until
	}
	return owner
}

// leases returns the tags that say how long a pool's program is known to live.
func leases(tags []tag) []tag {
	return slices.DeleteFunc(slices.Clone(tags), func(t tag) bool { return !slices.Contains(leaseKeys, t.Key) })
}

// latest is the tag of the latest time.
func latest(tags []tag) (last tag) {
	for _, t := range tags {
		if len(t.Value) > len(last.Value) || len(t.Value) == len(last.Value) && t.Value > last.Value {
			last = t
		}
	}
	return last
}

// MarkLease notes in a tag of the machines how long their pool's program is known to live.
func (d *driver) MarkLease(ctx context.Context, pool gputrain.PoolInfo, until time.Time, ids ...string) error {
	const op = "mark the lease"
	all, err := d.api.client.instances(ctx)
	if err != nil {
		return cloud.Fail(providerName, op, err, classify)
	}
	var errs []error
	for _, in := range all {
		if !slices.Contains(ids, in.ID) || ownerOf(in).Pool != pool.ID {
			continue
		}
		if err := d.api.markLease(ctx, in, until); err != nil && !isGone(err) {
			errs = append(errs, cloud.Fail(providerName, op, fmt.Errorf("%s: %w", in.ID, err), classify))
		}
	}
	return errors.Join(errs...)
}

// markLease adds the new tag before it removes the old one.
func (v *verda) markLease(ctx context.Context, in instance, until time.Time) error {
	old := leases(in.Tags)
	last := latest(old)
	for _, t := range old { // of a time before the last, which did not come to this
		if t != last {
			if err := v.client.deleteTag(ctx, in.ID, t.ID); err != nil && !isGone(err) {
				return err
			}
		}
	}
	key := leaseKeys[0]
	if last.Key == key {
		key = leaseKeys[1]
	}
	if err := v.client.addTag(ctx, in.ID, key, strconv.FormatInt(until.Unix(), 10)); err != nil || last.ID == "" {
		return err
	}
	if err := v.client.deleteTag(ctx, in.ID, last.ID); err != nil && !isGone(err) {
		return err
	}
	return nil
}
