package scaleway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A driver can also note how long the program of a pool is known to live.
type driver struct {
	*cloud.Driver
	client *client
}

var _ gputrain.LeaseMarker = (*driver)(nil)

// MarkLease writes that into the tags of the servers.
func (d *driver) MarkLease(ctx context.Context, pool gputrain.PoolInfo, until time.Time, ids ...string) error {
	var errs []error
	for _, id := range ids {
		if err := d.mark(ctx, pool.ID, until, id); err != nil && !isGone(err) {
			errs = append(errs, cloud.Fail(providerName, "mark lease", fmt.Errorf("%s: %w", id, err), classify))
		}
	}
	return errors.Join(errs...)
}

func (d *driver) mark(ctx context.Context, poolID string, until time.Time, id string) error {
	zone, uuid, err := split(id)
	if err != nil {
		return err
	}
	s, err := d.client.server(ctx, zone, uuid)
	if err != nil {
		return err
	}
	tag := cloud.FromWords(s.Tags)
	if tag.Pool != poolID { // its tags were edited: it is not ours to change again
		return nil
	}
	tag.Until = until
	others := slices.DeleteFunc(slices.Clone(s.Tags), func(word string) bool { return word == anyTag || strings.HasPrefix(word, cloud.Prefix) })
	return d.client.setTags(ctx, zone, uuid, append(tag.Words(), others...))
}
