package kubernetes

import (
	"context"
	"errors"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A kubernetesDriver is the driver of the clusters' Jobs.
type kubernetesDriver struct {
	*cloud.Driver
	api *api
}

var (
	_ driver.Driver      = (*kubernetesDriver)(nil)
	_ driver.Dialer      = (*kubernetesDriver)(nil)
	_ driver.Scripter    = (*kubernetesDriver)(nil)
	_ driver.LeaseMarker = (*kubernetesDriver)(nil)
)

func newDriver(a *api) *kubernetesDriver {
	return &kubernetesDriver{cloud.New(providerName, a, cloud.Options{AtOnce: launchesAtOnce, ByList: true}), a}
}

// List asks the clusters anew.
func (d *kubernetesDriver) List(ctx context.Context, poolID string) ([]driver.Resource, error) {
	d.api.changed()
	return d.Driver.List(ctx, poolID)
}

// Describe also tells why a machine that is gone was given up.
func (d *kubernetesDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	found, err := d.Driver.Describe(ctx, ids...)
	for i := range found {
		if v, ok := d.api.givenUp(found[i].ID); ok {
			found[i].StateReason, found[i].FailureKind = v.reason, v.kind
		}
	}
	return found, err
}

// MarkLease notes on the Jobs until when the lease runs, and which program has the pool now.
func (d *kubernetesDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	fail := func(err error) error { return cloud.Fail(providerName, "mark the lease", err, classify) }
	machines, err := d.api.Machines(ctx, pool.ID)
	if err != nil {
		return fail(err)
	}
	ours := map[string]bool{}
	for _, m := range machines {
		ours[m.ID] = m.Tag.Pool == pool.ID
	}
	var errs []error
	for _, id := range ids {
		if !ours[id] {
			continue // gone, or its label was edited
		}
		if err := d.api.markLease(ctx, id, leaseMarks(pool, until)); err != nil && !isMissing(err) {
			errs = append(errs, fail(err))
		}
	}
	return errors.Join(errs...)
}

func (a *api) markLease(ctx context.Context, id string, marks map[string]string) error {
	k, name, err := a.locate(id)
	if err != nil {
		return err
	}
	a.mu.Lock()
	a.mine[id] = true
	a.mu.Unlock()
	return k.annotate(ctx, name, marks)
}
