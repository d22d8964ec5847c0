package verda

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A verdaDriver is the driver of a [verda], whose tags can be changed, and whose balance is
// known.
type verdaDriver struct {
	*cloud.Driver
	api *verda
}

var (
	_ driver.LeaseMarker = (*verdaDriver)(nil)
	_ driver.Balancer    = (*verdaDriver)(nil)
)

// Balance returns the project's prepaid money. A launch needs more than nothing.
func (d *verdaDriver) Balance(ctx context.Context, _ driver.Offer) (driver.Balance, error) {
	amount, code, err := d.api.client.balance(ctx)
	if err != nil {
		return driver.Balance{}, cloud.Fail(providerName, "balance", err, classify)
	}
	rate, err := rateOf(code)
	if err != nil {
		return driver.Balance{}, cloud.Fail(providerName, "balance", err, classify)
	}
	return driver.Balance{Known: true, USD: amount * rate.USD}, nil
}

// leaseKeys are tags with the same meaning; the later time counts. A tag cannot be changed,
// only removed and added. With one tag alone, a living pool would look dead for a moment.
var leaseKeys = []string{pooltag.Prefix + "until", pooltag.Prefix + "until-2"}

// readTags returns the owner of a thing by its tags.
func readTags(tags []tag) pooltag.Tag {
	pairs := map[string]string{}
	for _, t := range tags {
		pairs[t.Key] = t.Value
	}
	owner := pooltag.FromPairs(pairs)
	if until := latest(leases(tags)); until.Value != "" {
		pairs[leaseKeys[0]] = until.Value
		owner.Until = pooltag.FromPairs(pairs).Until
	}
	return owner
}

// leases returns the tags that hold the end of a lease.
func leases(tags []tag) []tag {
	return slices.DeleteFunc(slices.Clone(tags), func(t tag) bool { return !slices.Contains(leaseKeys, t.Key) })
}

// latest returns the tag with the latest time.
func latest(tags []tag) (last tag) {
	for _, t := range tags {
		if len(t.Value) > len(last.Value) || len(t.Value) == len(last.Value) && t.Value > last.Value {
			last = t
		}
	}
	return last
}

// MarkLease records in a tag of the machines until when the lease runs.
func (d *verdaDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
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
	for _, t := range old { // leftovers of an earlier markLease that was interrupted
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
