package vastai

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

const (
	// cleanupTimeout bounds what must be done though the caller has given up.
	cleanupTimeout = time.Minute
	// refusalPause is how long an account that may not rent is not asked again: the
	// next hundred offers would be refused as well, at 4.5 seconds each.
	refusalPause = time.Minute
)

// A refusal is what the API has said of the account, not of an offer.
type refusal struct {
	err error
	at  time.Time
}

// Launch accepts the offer. It is one machine: of several nodes the first gets it, and
// the others are told that there is no more. A create that is given up in its midst is
// looked for, and returned beside why, where it is there.
func (d *driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if len(req.Nodes) == 0 {
		return nil, nil
	}
	if err := d.refused(); err != nil {
		return nil, fail("launch", err)
	}
	got, err := d.launch(ctx, req, req.Nodes[0])
	if err != nil {
		if kindOf(err) == gputrain.ErrQuota {
			d.mu.Lock()
			d.refusal = refusal{err, time.Now()}
			d.mu.Unlock()
		}
		return got, fail("launch", fmt.Errorf("%s: %w", req.Nodes[0].Name, err))
	}
	if more := len(req.Nodes) - 1; more > 0 {
		return got, &gputrain.Error{Provider: providerName, Op: "launch", Kind: gputrain.ErrNoCapacity,
			Err: fmt.Errorf("an offer is one machine, and %d more were asked for", more)}
	}
	return got, nil
}

func (d *driver) refused() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.refusal.err == nil || time.Since(d.refusal.at) > refusalPause {
		return nil
	}
	return d.refusal.err
}

func (d *driver) launch(ctx context.Context, req gputrain.LaunchRequest, node gputrain.NodeRequest) ([]gputrain.Instance, error) {
	if err := checkPool(req.Pool.ID); err != nil {
		return nil, err
	}
	f, err := d.findOf(req)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	t := tagOf(req.Pool, now)
	t.name, t.rank = node.Name, node.Rank
	in := createRequest{
		ClientID: "me", Image: d.cfg.Image, Disk: f.diskGB, Label: t.String(),
		RunType: "ssh_direct", TargetState: "running", CancelUnavail: true,
	}
	if in.OnStart, err = d.onStart(req.Pool, node.Name, now); err != nil {
		return nil, err
	}
	if f.offer.Spot {
		in.Price = &f.bid
	}
	if d.cfg.UseOverlay && d.nodes(req.Spec) > 1 {
		name, err := d.makeNetwork(ctx, req.Pool, f.cluster)
		if err != nil {
			return nil, err
		}
		in.Env = map[string]string{"-n " + name: "1"}
	}
	id, err := d.api.create(ctx, f.ask, in)
	if left, ok := leftover(err); ok {
		return d.endLeftover(ctx, left, f, node, err)
	}
	if err != nil && isAmbiguous(err) {
		id, err = d.settle(ctx, req.Pool, node.Name, in.Label, err)
	}
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.made[id] = &machine{offer: f.offer, machine: f.machine, at: time.Now()}
	delete(d.found, f.offer.ID) // it is taken
	d.mu.Unlock()
	return []gputrain.Instance{d.charged(ctx, id, f, node)}, context.Cause(ctx)
}

// charged returns what was launched, with the price that the API tells, or, should it not
// tell that yet, the one that was offered.
func (d *driver) charged(ctx context.Context, id string, f find, node gputrain.NodeRequest) gputrain.Instance {
	launched := gputrain.Instance{State: gputrain.InstancePending, Offer: f.offer}
	if in, err := d.api.instance(ctx, id); err == nil && in != nil {
		launched = d.describe(*in)
	}
	launched.ID, launched.Name, launched.Rank = id, node.Name, node.Rank
	return launched
}

// endLeftover destroys what a failed create has made. Should that fail, it is returned
// with the error: it exists, and its disk is billed.
func (d *driver) endLeftover(ctx context.Context, id string, f find, node gputrain.NodeRequest, why error) ([]gputrain.Instance, error) {
	if kindOf(why) == nil {
		why = &gputrain.Error{Kind: gputrain.ErrNoCapacity, Err: why} // somebody bids more
	}
	d.mu.Lock()
	d.made[id] = &machine{offer: f.offer, machine: f.machine, at: time.Now()}
	d.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	err := d.destroyed(ctx, id)
	if err == nil {
		return nil, why
	}
	return []gputrain.Instance{{
		ID: id, Name: node.Name, Rank: node.Rank, Offer: f.offer,
		State: gputrain.InstanceFailed, StateReason: "made stopped by a failed rental",
	}}, fmt.Errorf("%w; and it left instance %s, which could not be destroyed: %v", why, id, err)
}

// leftoverTries is how often an instance is asked to end that is still there.
const leftoverTries = 3

// destroyed destroys an instance, and returns why it is not known to be gone. That the API says
// yes does not say so: as long as the instance is there, it is asked again.
func (d *driver) destroyed(ctx context.Context, id string) error {
	for tries := 1; ; tries++ {
		if err := d.destroy(ctx, id); err != nil {
			return err
		}
		in, err := d.api.instance(ctx, id)
		switch ended := d.hasEnded(id); {
		case ended && (isGone(err) || err == nil && in == nil):
			return nil
		case tries < leftoverTries && launches.Pause(ctx, second):
		case err != nil && !isGone(err):
			return err
		case ended:
			return errors.New("the API says yes, and it is still there")
		default:
			return errors.New("the API does not know it yet")
		}
	}
}

// settle looks for the instance that a create may have made whose answer was lost, by its
// label, until the list is whole, or once where nobody waits for it any more. Nothing is
// created again.
func (d *driver) settle(caller context.Context, pool gputrain.PoolInfo, name, label string, why error) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), createLag()+cleanupTimeout)
	defer cancel()
	unsettled := &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: why, Hint: "an instance may have been made all the same: List has it"}
	until := time.Now().Add(createLag())
	pool.Settling(fmt.Errorf("%s may have been made: %w", name, why), until)
	for {
		asked := time.Now()
		found, err := d.api.list(ctx, map[string]any{"label": map[string]any{"in": []string{label}}})
		for _, in := range found {
			if in.Label != nil && *in.Label == label {
				return fmt.Sprint(in.ID), nil
			}
		}
		if err == nil && asked.After(until) || !launches.Pause(caller, second) || ctx.Err() != nil {
			return "", unsettled
		}
	}
}
