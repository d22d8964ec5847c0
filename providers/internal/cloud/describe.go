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
			instances[i] = d.instance(m)
			continue
		}
		g.Go(func() error {
			m, err := d.api.Machine(ctx, id)
			switch {
			case err == nil:
				instances[i] = d.instance(m)
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

// missing describes a machine that the cloud does not know: terminated, unless it may be too
// new for the cloud's answers.
func (d *Driver) missing(id string) driver.Instance {
	d.mu.Lock()
	known, mine := d.made[id]
	d.mu.Unlock()
	in := driver.Instance{
		ID: id, Name: known.node.Name, Rank: known.node.Rank, Offer: known.offer,
		State: driver.InstanceTerminated, StateReason: "the cloud does not know it",
	}
	in.Offer.Provider = d.provider
	if mine && known.ended || !d.isNew(known) {
		if d.opts.SpotVanishes && known.offer.Spot && !known.asked {
			in.State, in.StateReason = driver.InstancePreempted, "it has vanished, as preempted spot machines do here"
		}
		return in
	}
	in.State, in.StateReason = driver.InstanceUnknown, "the cloud does not know it, or not yet"
	if !known.created.IsZero() {
		in.State = driver.InstancePending
	}
	return in
}

// isNew reports whether a machine may be too new for the cloud's answers: made just now, by
// this driver or by a program that has just died.
func (d *Driver) isNew(known made) bool {
	since := d.opened
	if !known.created.IsZero() {
		since = known.created
	}
	return time.Since(since) < d.api.Capabilities().ListLag
}

// IsOver reports whether a machine in this state cannot come back. If the cloud answers a call
// to end such a machine with "no such machine", it is gone, though lists may show it for a
// while.
func IsOver(s driver.InstanceState) bool {
	return s == driver.InstancePreempted || s == driver.InstanceFailed
}

// NothingToEnd returns the StateReason of a machine that is gone by [IsOver], from the reason
// that the cloud reports.
func NothingToEnd(reason string) string { return reason + "; the cloud finds nothing there to end" }
