package container

import (
	"context"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain"
)

const (
	labelPool    = labelPrefix + "pool"
	labelOwner   = labelPrefix + "owner"
	labelExpires = labelPrefix + "expires"
	labelRank    = labelPrefix + "rank"
	labelHostKey = labelPrefix + "hostkey"

	// cleanupTimeout bounds what is done after a caller has given up.
	cleanupTimeout = 30 * time.Second
	// createTimeout bounds a create, which no caller can cut short: whatever the
	// engine makes must come to be known.
	createTimeout = 2 * time.Minute
	// settleInterval is how often the engine is asked whether it is done.
	settleInterval = 100 * time.Millisecond
)

func networkName(poolID string) string { return "gputrain-" + poolID }

// labelArgs are the labels of everything that is made for a pool.
func (d *driver) labelArgs(pool gputrain.PoolInfo) []string {
	args := []string{"--label", labelPool + "=" + pool.ID, "--label", labelOwner + "=" + pool.Owner}
	if !pool.Expires.IsZero() {
		args = append(args, "--label", labelExpires+"="+pool.Expires.UTC().Format(time.RFC3339))
	}
	for _, k := range sortedKeys(d.cfg.Labels) {
		args = append(args, "--label", k+"="+d.cfg.Labels[k])
	}
	return args
}

// Prepare makes the pool's network, and the image ready, at the same time.
func (d *driver) Prepare(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("prepare", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.makeNetwork(ctx, pool) })
	g.Go(func() error {
		_, _, err := d.readyImage(ctx)
		return err
	})
	return fail("prepare", g.Wait())
}

func (d *driver) makeNetwork(ctx context.Context, pool gputrain.PoolInfo) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	args := append([]string{"network", "create"}, d.labelArgs(pool)...)
	_, err := d.engine.run(ctx, append(args, networkName(pool.ID))...)
	if !says(err, "already exists") {
		return err
	}
	names, err := d.networks(ctx, pool.ID)
	if err != nil || len(names) > 0 {
		return err
	}
	return fmt.Errorf("%w: there is a network %s already, and it is not this pool's", gputrain.ErrInvalid, networkName(pool.ID))
}

// networks returns the names of the pool's networks.
func (d *driver) networks(ctx context.Context, poolID string) ([]string, error) {
	if d.engine.dialect == apple {
		out, err := d.engine.run(ctx, "network", "list", "--format", "json")
		if err != nil {
			return nil, err
		}
		return parseAppleNetworks(out, poolID)
	}
	out, err := d.engine.run(ctx, "network", "ls", "--filter", "label="+labelPool+"="+poolID, "--format", "{{.Name}}")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// Release removes the pool's network. Nodes that are on their way out hold on to
// it for a moment, and so it is tried until the context, or cleanupTimeout, ends.
func (d *driver) Release(ctx context.Context, pool gputrain.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("release", err)
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	names, err := d.networks(ctx, pool.ID)
	if err != nil {
		return fail("release", err)
	}
	for _, name := range names {
		for {
			_, err := d.engine.run(ctx, "network", "rm", name)
			if err == nil || says(err, "not found", "no such network") {
				break
			}
			if !says(err, "active endpoints", "in use", "being used", "has associated containers") || !pause(ctx, settleInterval) {
				return fail("release", err)
			}
		}
	}
	return nil
}

// pause waits, and reports whether the context has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
