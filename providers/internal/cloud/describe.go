package cloud

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain"
)

// Describe reports the named machines, several by one list where Options do not say
// otherwise. That a list lacks one does not say that it is gone: it is asked for by itself.
// Beside an error are those that it is not about.
func (d *Driver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
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
	instances := make([]gputrain.Instance, len(ids))
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
		known := slices.DeleteFunc(instances, func(in gputrain.Instance) bool { return in.ID == "" })
		return known, d.fail("describe", err)
	}
	return instances, nil
}

// listAll returns all machines of the account that are of pools.
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

// instance is what the cloud tells of a machine, and what is known of it here.
func (d *Driver) instance(m Machine) gputrain.Instance {
	known := d.known(m.ID)
	in := m.Instance
	in.Name, in.Rank = m.Tag.Name, m.Tag.Rank
	if known.node.Name != "" {
		in.Name, in.Rank = known.node.Name, known.node.Rank
	}
	if known.offer.InstanceType != "" {
		told := in.Offer
		in.Offer = known.offer
		if usd, known := told.HourlyUSD.USD(); known && usd > 0 {
			in.Offer.HourlyUSD = told.HourlyUSD
		}
		in.Offer.Region = cmp.Or(told.Region, known.offer.Region) // of an offer for anywhere
	}
	in.Offer.Provider = d.provider
	if known.absent && IsOver(in.State) && !d.isNew(known) {
		in.State, in.StateReason = gputrain.InstanceTerminated, NothingToEnd(in.StateReason)
	}
	if in.SSH.Addr == "" || in.State != gputrain.InstanceRunning {
		in.SSH = gputrain.Endpoint{}
	} else if key := publicKey(known.node.HostKey.Public); len(in.SSH.HostKeys) == 0 && d.injects() {
		if key == "" {
			key = m.Tag.HostKey
		}
		if key != "" {
			in.SSH.HostKeys = []string{key}
		}
	}
	return in
}

func (d *Driver) injects() bool { return d.api.Capabilities().HostKeys == gputrain.HostKeyInjected }

// missing is what a machine is taken for that the cloud does not know: gone, unless it may
// be too new to be known.
func (d *Driver) missing(id string) gputrain.Instance {
	d.mu.Lock()
	known, mine := d.made[id]
	d.mu.Unlock()
	in := gputrain.Instance{
		ID: id, Name: known.node.Name, Rank: known.node.Rank, Offer: known.offer,
		State: gputrain.InstanceTerminated, StateReason: "the cloud does not know it",
	}
	in.Offer.Provider = d.provider
	if mine && known.ended || !d.isNew(known) {
		if d.opts.SpotVanishes && known.offer.Spot && !known.asked {
			in.State, in.StateReason = gputrain.InstancePreempted, "it has vanished, as spot machines do that are taken back"
		}
		return in
	}
	in.State, in.StateReason = gputrain.InstanceUnknown, "the cloud does not know it, or not yet"
	if !known.at.IsZero() {
		in.State = gputrain.InstancePending
	}
	return in
}

// isNew is whether a machine may be too new for all of the cloud's answers to know it: it was
// made a moment ago, by this driver or by one of a program that has just died.
func (d *Driver) isNew(known made) bool {
	since := d.opened
	if !known.at.IsZero() {
		since = known.at
	}
	return time.Since(since) < d.api.Capabilities().ListLag
}

// IsOver is whether a machine in such a state cannot come back. If the cloud, asked to end one,
// answers that there is no such machine, it is gone, though lists may show it for a while.
func IsOver(s gputrain.InstanceState) bool {
	return s == gputrain.InstancePreempted || s == gputrain.InstanceFailed
}

// NothingToEnd is the StateReason of a machine that is gone by [IsOver], made of the one that
// the cloud tells.
func NothingToEnd(reason string) string { return reason + "; the cloud finds nothing there to end" }
