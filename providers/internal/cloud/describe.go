package cloud

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Describe reports the named machines, several by one list unless Options say otherwise. It
// asks for a machine that the list lacks by its ID, as a list may lag. Beside an error it
// returns the machines that the error is not about.
func (d *Driver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	listed := map[string]Machine{}
	if len(ids) > 1 && !d.opts.ByID || len(ids) > 0 && d.opts.ByList {
		all, err := d.listAll(ctx)
		if err != nil {
			return nil, d.fail("describe", err)
		}
		for _, m := range all {
			listed[m.ID] = m
		}
	}
	instances := make([]driver.Instance, len(ids))
	var g errgroup.Group
	g.SetLimit(d.opts.AtOnce)
	for i, id := range ids {
		if m, ok := listed[id]; ok {
			instances[i] = d.shown(m)
			continue
		}
		g.Go(func() error {
			m, err := d.api.Machine(ctx, id)
			switch {
			case err == nil:
				instances[i] = d.shown(m)
			case d.isGone(err):
				instances[i] = d.missing(id)
			default:
				return err
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		known := slices.DeleteFunc(instances, func(in driver.Instance) bool { return in.ID == "" })
		return known, d.fail("describe", err)
	}
	return instances, nil
}

// listAll returns all machines of the account that belong to pools.
func (d *Driver) listAll(ctx context.Context) ([]Machine, error) {
	done := d.lists.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(d.life, time.Minute)
		defer cancel()
		return d.api.Machines(ctx, "")
	})
	select {
	case r := <-done:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.([]Machine), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// instance combines the cloud's report of a machine with what the driver remembers of it.
func (d *Driver) instance(m Machine) driver.Instance {
	known := d.known(m.ID)
	in := m.Instance
	in.Name, in.Rank = m.Tag.Name, m.Tag.Rank
	if known.node.Name != "" {
		in.Name, in.Rank = known.node.Name, known.node.Rank
	}
	if known.offer.InstanceType != "" {
		told := in.Offer
		in.Offer = charged(known.offer, told)
		in.Offer.Region = cmp.Or(told.Region, known.offer.Region) // if the offer is for any region
		in.Offer.Country = cmp.Or(told.Country, known.offer.Country)
		in.Offer.VCPUs = cmp.Or(known.offer.VCPUs, told.VCPUs)
		in.Offer.MemoryGiB = cmp.Or(known.offer.MemoryGiB, told.MemoryGiB)
	}
	in.Offer.Provider = d.provider
	if known.absent && IsOver(in.State) && !d.isNew(known) {
		in.State, in.StateReason = driver.InstanceTerminated, NothingToEnd(in.StateReason)
	}
	if in.SSH.Addr == "" || in.State != driver.InstanceRunning {
		in.SSH = driver.Endpoint{}
	} else if key := pooltag.PublicKey(known.node.HostKey.Public); len(in.SSH.HostKeys) == 0 && d.injects() {
		if key == "" {
			key = m.Tag.HostKey
		}
		if key != "" {
			in.SSH.HostKeys = []string{key}
		}
	}
	return in
}

func (d *Driver) injects() bool { return d.api.Capabilities().HostKeys == driver.HostKeyInjected }

// shown is instance for a machine that the cloud has just shown.
func (d *Driver) shown(m Machine) driver.Instance {
	in := d.instance(m)
	d.know(m.ID, func(known *made) { known.sight.Seen(in.State) })
	return in
}

// missing describes a machine that the cloud does not know: terminated, unless it may still come. See [Sight].
func (d *Driver) missing(id string) driver.Instance {
	gone, known := false, made{}
	d.know(id, func(m *made) {
		gone, known = m.sight.IsGone(d.api.Capabilities(), d.opened), *m
	})
	in := driver.Instance{
		ID: id, Name: known.node.Name, Rank: known.node.Rank, Offer: known.offer,
		State: driver.InstanceTerminated, StateReason: "the cloud does not know it",
	}
	in.Offer.Provider = d.provider
	switch {
	case !gone:
		in.State, in.StateReason = known.sight.Missing(), "the cloud does not know it, or not yet"
	case d.opts.SpotVanishes && known.offer.Spot && !known.asked:
		in.State, in.StateReason = driver.InstancePreempted, "it has vanished, as preempted spot machines do here"
	}
	return in
}

// isNew reports whether a machine may be too new for the cloud's answers.
func (d *Driver) isNew(known made) bool { return known.sight.IsNew(d.api.Capabilities(), d.opened) }

// IsOver reports whether a machine in this state cannot come back. If the cloud answers a call
// to end such a machine with "no such machine", it is gone, though lists may show it for a
// while.
func IsOver(s driver.InstanceState) bool {
	return s == driver.InstancePreempted || s == driver.InstanceFailed
}

// NothingToEnd returns the StateReason of a machine that is gone by [IsOver], from the reason
// that the cloud reports.
func NothingToEnd(reason string) string { return reason + "; the cloud finds nothing there to end" }
