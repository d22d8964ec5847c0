package vastai

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A vastaiDriver is the driver of the account's instances. Their logs have their host keys, and
// their labels can be changed.
type vastaiDriver struct {
	*cloud.Driver
	p *provider
}

var (
	_ driver.Driver      = (*vastaiDriver)(nil)
	_ driver.Scripter    = (*vastaiDriver)(nil)
	_ driver.LeaseMarker = (*vastaiDriver)(nil)
	_ driver.Resumer     = (*vastaiDriver)(nil)
)

func newDriver(p *provider) *vastaiDriver {
	// A pool's nodes ask one by one, and the API allows a call each second or two.
	return &vastaiDriver{cloud.New(providerName, p, cloud.Options{ByList: true}), p}
}

// Launch accepts the offer, which is one machine. The first of several nodes gets it; for the
// others the error reports that there is no more.
func (d *vastaiDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	more := len(req.Nodes) - 1
	if more < 0 {
		return nil, nil
	}
	req.Nodes = req.Nodes[:1]
	got, err := d.Driver.Launch(ctx, req)
	for i := range got {
		d.p.pin(&got[i])
	}
	if err == nil && more > 0 {
		err = cloud.Fail(providerName, "launch", &driver.Error{Kind: driver.ErrNoCapacity,
			Err: fmt.Errorf("an offer is one machine; the launch asked for %d more", more)}, d.p.Classify)
	}
	return got, err
}

// Describe reports the named machines, with the host keys in their logs.
func (d *vastaiDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	found, err := d.Driver.Describe(ctx, ids...)
	if !d.p.cfg.TrustFirstContact {
		d.p.logs.learn(ctx, found)
	}
	for i := range found {
		d.p.pin(&found[i])
	}
	d.p.explain(ctx, found)
	return found, err
}

// Scripts returns a script with which a machine destroys its instance, by the key that Vast
// gives each container for that purpose alone. With an overlay it also returns a script that
// finds the machine's address there, which the API does not report.
func (d *vastaiDriver) Scripts(in driver.Instance) driver.Scripts {
	s := driver.Scripts{SelfDestruct: "vast_id=" + cloud.Quote(in.ID) + "\n" + d.p.cfg.destruct() + "vast_end\n"}
	if d.p.network.inUse() {
		s.FindAddress = cloud.Script(addressScript)
	}
	return s
}

// Resume learns from the ledger of another program's pool whether its machines are on an overlay network. It makes no call.
func (d *vastaiDriver) Resume(_ context.Context, pool driver.PoolInfo, _ ...string) error {
	d.p.network.recall(pool)
	return nil
}

// MarkLease records in the labels of instances until when the lease runs. A driver that has
// launched none of them learns their pool from the call.
func (d *vastaiDriver) MarkLease(ctx context.Context, pool driver.PoolInfo, until time.Time, ids ...string) error {
	fail := func(err error) error { return cloud.Fail(providerName, "mark the lease", err, d.p.Classify) }
	instances, err := d.p.client.list(ctx)
	if err != nil {
		return fail(err)
	}
	byID := map[string]instance{}
	for _, in := range instances {
		byID[strconv.FormatInt(in.ID, 10)] = in
	}
	var errs []error
	for _, id := range ids {
		t, ok := labelOf(byID[id])
		if !ok || t.Pool != pool.ID {
			continue // its label was edited: leave it alone
		}
		d.p.takeUp(pool.ID, id, byID[id].MachineID)
		t.Owner, t.Lease, t.Expires, t.Until = pool.Owner, pool.Lease, pool.Expires, until
		if err := d.p.client.setLabel(ctx, id, labels.String(t)); err != nil && !isGone(err) {
			errs = append(errs, fail(fmt.Errorf("instance %s: %w", id, err)))
		}
	}
	return errors.Join(errs...)
}
