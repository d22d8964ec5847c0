package vastai

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gputrain/gputrain"
)

// MarkLease notes in the labels of instances how long their pool's program is known to
// live. To a driver that has launched none of them it tells whose they are.
func (d *driver) MarkLease(ctx context.Context, pool gputrain.PoolInfo, until time.Time, ids ...string) error {
	instances, err := d.listAll(ctx)
	if err != nil {
		return fail("mark the lease", err)
	}
	var errs []error
	for _, id := range ids {
		for _, in := range instances {
			if strconv.FormatInt(in.ID, 10) != id {
				continue
			}
			t, ok := labelOf(in)
			if !ok || t.pool != pool.ID {
				continue // its label was edited: it is not ours to change again
			}
			d.takeUp(pool.ID, id, in.MachineID)
			t.owner, t.lease, t.expires, t.until = pool.Owner, pool.Lease, pool.Expires, until
			if err := d.api.setLabel(ctx, id, t.String()); err != nil && !isGone(err) {
				errs = append(errs, fail("mark the lease", fmt.Errorf("instance %s: %w", id, err)))
			}
		}
	}
	return errors.Join(errs...)
}

// takeUp remembers an instance that another program has launched, as its nodes must not be
// on one machine, nor in two clusters.
func (d *driver) takeUp(poolID, id string, on int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pool = poolID
	if d.made[id] == nil {
		d.made[id] = &machine{machine: on, at: d.opened}
	}
}
