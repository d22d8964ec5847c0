package container

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// cleanupTimeout bounds calls that are made after a caller has given up.
	cleanupTimeout = 30 * time.Second
	// createTimeout bounds a create, which no caller can cancel: everything that the engine
	// makes must become known.
	createTimeout = 2 * time.Minute
	// settleInterval is the pause between two checks whether the engine is done.
	settleInterval = 100 * time.Millisecond
)

func networkName(poolID string) string { return "gputrain-" + poolID }

// Prepare makes the pool's network, unless Config.Network is set, and the ready image, at the
// same time.
func (d *containerDriver) Prepare(ctx context.Context, pool driver.PoolInfo) error {
	if err := errors.Join(checkPool(pool.ID), checkTags(pool)); err != nil {
		return fail("prepare", err)
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return d.makeNetwork(ctx, pool) })
	g.Go(func() error {
		_, _, err := d.images.readyImage(ctx)
		return err
	})
	return fail("prepare", g.Wait())
}

func (d *containerDriver) makeNetwork(ctx context.Context, pool driver.PoolInfo) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if d.cfg.Network != "" {
		return d.engine.checkNetwork(ctx, d.cfg.Network)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), createTimeout)
	defer cancel()
	network := driver.Resource{Kind: "network", Name: networkName(pool.ID), HourlyUSD: driver.USD(0)}
	if err := pool.Record(network); err != nil {
		return err
	}
	args := append([]string{"network", "create"}, d.labelArgs(pool, time.Now())...)
	_, err := d.engine.run(ctx, append(args, network.Name)...)
	if err == nil {
		network.ID = network.Name
		return pool.Record(network)
	}
	if !says(err, "already exists") {
		return err
	}
	names, err := d.engine.networks(ctx, pool.ID)
	if err != nil || len(names) > 0 {
		return err
	}
	return fmt.Errorf("%w: network %s exists already and is not this pool's", driver.ErrInvalid, networkName(pool.ID))
}

// checkNetwork checks that a network of the user's exists.
func (e *engine) checkNetwork(ctx context.Context, name string) error {
	if e.dialect == apple {
		return nil // the first container fails without it
	}
	found, err := e.inspectNetworks(ctx, []string{name})
	if err != nil || len(found) > 0 {
		return err
	}
	return &driver.Error{Kind: driver.ErrNotFound, Err: fmt.Errorf("the engine has no network %q", name),
		Hint: "make it by " + e.dialect.String() + " network create, or leave Network empty"}
}

// networks returns the names of the pool's networks, or of every pool's.
func (e *engine) networks(ctx context.Context, poolID string) ([]string, error) {
	if e.dialect == apple {
		out, err := e.run(ctx, "network", "list", "--format", "json")
		if err != nil {
			return nil, err
		}
		reports, err := parseAppleNetworks(out, poolID)
		var names []string
		for _, n := range reports {
			names = append(names, n.Name)
		}
		return names, err
	}
	out, err := e.run(ctx, "network", "ls", "--filter", labelFilter(poolID), "--format", "{{.Name}}")
	if err != nil {
		return nil, err
	}
	return strings.Fields(string(out)), nil
}

// Release removes the pool's unfinished image, and its network, which Config.Network never is. Ending nodes still use it for a moment, so Release
// repeats the call until the context, or cleanupTimeout, ends.
func (d *containerDriver) Release(ctx context.Context, pool driver.PoolInfo) error {
	if err := checkPool(pool.ID); err != nil {
		return fail("release", err)
	}
	ctx, cancel := context.WithTimeout(ctx, cleanupTimeout)
	defer cancel()
	images, err := d.bakery().unfinished(ctx, pool.ID)
	for _, r := range images {
		err = errors.Join(err, d.bakery().removeImage(ctx, r.ID))
	}
	if err != nil {
		return fail("release", err)
	}
	names, err := d.engine.networks(ctx, pool.ID)
	if err != nil {
		return fail("release", err)
	}
	for _, name := range names {
		for {
			_, err := d.engine.run(ctx, "network", "rm", name)
			if err == nil || says(err, "not found", "no such network") {
				break
			}
			if !says(err, "active endpoints", "in use", "being used", "has associated containers") || len(pool.Remaining) > 0 || !retry.Sleep(ctx, settleInterval) {
				return fail("release", err)
			}
		}
	}
	return nil
}
