package scaleway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// markVolumes gives a server's volumes its tags, which they do not inherit, and its ID: a
// volume outlives its server, and must be found without it.
func (a *api) markVolumes(ctx context.Context, zone string, s server) error {
	tags := slices.DeleteFunc(slices.Clone(s.Tags), func(word string) bool { return strings.HasPrefix(word, keyTag) })
	for _, id := range s.ownVolumes() {
		if err := a.client.tagVolume(ctx, zone, id, append(tags, serverTag+s.ID)); err != nil && !isGone(err) {
			return fmt.Errorf("mark volume %s: %w", id, err)
		}
	}
	return nil
}

// Shared returns the volumes, which are billed with and without their servers.
func (a *api) Shared(ctx context.Context, poolID string) ([]driver.Resource, error) {
	return inZones(ctx, a.zones, func(ctx context.Context, zone string) (all []driver.Resource, err error) {
		volumes, err := a.client.volumes(ctx, zone, tagOf(poolID))
		for _, v := range volumes {
			if tag := pooltag.FromWords(v.Tags); tag.Pool != "" {
				r := tag.Resource(providerName, "volume", zone+"/"+v.ID)
				r.Region = zone
				all = append(all, r)
			}
		}
		return all, err
	})
}

// Release deletes the volumes that a pool's servers have left behind. End deletes those of
// existing servers.
func (a *api) Release(ctx context.Context, pool driver.PoolInfo) error {
	_, err := inZones(ctx, a.zones, func(ctx context.Context, zone string) ([]struct{}, error) {
		volumes, err := a.client.volumes(ctx, zone, tagOf(pool.ID))
		if err != nil || len(volumes) == 0 {
			return nil, err
		}
		servers, err := a.client.servers(ctx, zone, tagOf(pool.ID))
		if err != nil {
			return nil, err
		}
		var ids []string
		for _, v := range volumes {
			if !slices.ContainsFunc(servers, func(s server) bool { return slices.Contains(v.Tags, serverTag+s.ID) }) {
				ids = append(ids, v.ID)
			}
		}
		return nil, a.deleteVolumes(ctx, zone, ids)
	})
	return err
}

// deleteVolumes deletes volumes. Each may take a minute or more to be detached.
func (a *api) deleteVolumes(ctx context.Context, zone string, ids []string) error {
	var errs []error
	for _, id := range ids {
		if err := a.deleteVolume(ctx, zone, id); err != nil && !isGone(err) {
			errs = append(errs, fmt.Errorf("volume %s remains and is billed: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

func (a *api) deleteVolume(ctx context.Context, zone, id string) error {
	wait := 2 * cloud.Second
	for until := time.Now().Add(cloud.Limit(94)); time.Now().Before(until); {
		if err := a.client.deleteVolume(ctx, zone, id); !isBusy(err) || !retry.Sleep(ctx, wait) {
			return err
		}
		wait = min(2*wait, 16*cloud.Second)
	}
	return a.client.deleteVolume(ctx, zone, id)
}
