package scaleway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// A scalewayDriver can also record the end of a pool's lease, and ask for quotas.
type scalewayDriver struct {
	*cloud.Driver
	client *client
	quotas quotas
}

var (
	_ driver.LeaseMarker = (*scalewayDriver)(nil)
	_ driver.Quoter      = (*scalewayDriver)(nil)
)

// MarkLease writes it into the tags of the servers.
func (d *scalewayDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	var errs []error
	for _, id := range ids {
		if err := d.mark(ctx, pool.ID, until, id); err != nil && !isGone(err) {
			errs = append(errs, cloud.Fail(providerName, "mark lease", fmt.Errorf("%s: %w", id, err), classify))
		}
	}
	return errors.Join(errs...)
}

func (d *scalewayDriver) mark(ctx context.Context, poolID string, until time.Time, id string) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	s, err := d.client.server(ctx, zone, uuid)
	if err != nil {
		return err
	}
	tag := pooltag.FromWords(s.Tags)
	if tag.Pool != poolID { // its tags were edited: leave it alone
		return nil
	}
	tag.Until = until
	others := slices.DeleteFunc(slices.Clone(s.Tags), func(word string) bool { return word == anyTag || strings.HasPrefix(word, pooltag.Prefix) })
	return d.client.setTags(ctx, zone, uuid, append(tag.Words(), others...))
}
