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
// live.
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
			t.owner, t.lease, t.expires, t.until = pool.Owner, pool.Lease, pool.Expires, until
			if err := d.api.setLabel(ctx, id, t.String()); err != nil && !isGone(err) {
				errs = append(errs, fail("mark the lease", fmt.Errorf("instance %s: %w", id, err)))
			}
		}
	}
	return errors.Join(errs...)
}
