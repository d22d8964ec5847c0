package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/launches"
)

// cleanupTimeout bounds what must be done though the caller has given up.
const cleanupTimeout = time.Minute

// Launch rents one machine for each node.
func (d *Driver) Launch(ctx context.Context, req gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if err := d.check(req); err != nil {
		return nil, d.fail("launch", err)
	}
	got, err := launches.Each(req.Nodes, d.opts.AtOnce, func(n gputrain.NodeRequest) ([]gputrain.Instance, error) {
		in, err := d.launch(ctx, req, n)
		if err != nil {
			err = d.fail("launch", about(n.Name, err))
		}
		if in.ID == "" {
			return nil, err
		}
		return []gputrain.Instance{in}, err
	}, isOpen)
	return sorted(got), err
}

// isOpen is whether a failed launch leaves open what it has made: the cloud has not said no.
func isOpen(err error) bool {
	e, ok := errors.AsType[*gputrain.Error](err)
	return !ok || e.Kind == nil || e.Kind == gputrain.ErrUnavailable
}

func (d *Driver) launch(ctx context.Context, req gputrain.LaunchRequest, n gputrain.NodeRequest) (gputrain.Instance, error) {
	if ctx.Err() != nil {
		return gputrain.Instance{}, context.Cause(ctx)
	}
	order := Order{Pool: req.Pool, Offer: req.Offer, Spec: req.Spec, Node: n, Tag: tagOf(req.Pool, n, time.Now())}
	id, err := d.api.Create(ctx, order)
	if id == "" && err == nil {
		err = errors.New("the cloud has named no machine")
	}
	if id == "" && isOpen(d.fail("launch", err)) {
		id, err = d.settle(ctx, req.Pool, n.Name, err)
	}
	if id == "" {
		return gputrain.Instance{}, err
	}
	n.HostKey.Private = ""
	d.know(id, func(m *made) { *m = made{node: n, offer: req.Offer, at: time.Now()} })
	in := gputrain.Instance{ID: id, Name: n.Name, Rank: n.Rank, State: gputrain.InstancePending, Offer: req.Offer}
	if starter, ok := d.api.(Starter); ok && err == nil {
		if err = starter.Start(ctx, id, order); err != nil {
			left := d.undo(ctx, id)
			if left == nil {
				return gputrain.Instance{}, err
			}
			in.State, in.StateReason = gputrain.InstanceFailed, fmt.Sprintf("it was made and not started, and is not known to be ended: %v", left)
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return in, err
}

// undo ends a machine that was made and not started, though the caller may have given up, and
// returns why it is not known to be gone. That the end was granted does not say so: as long as the
// machine is there, it is asked for again.
func (d *Driver) undo(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		if err := d.Terminate(ctx, id); err != nil {
			return err
		}
		if !d.known(id).ended {
			return errors.New("the cloud does not know it, or not yet")
		}
		now, err := d.Describe(ctx, id)
		if err == nil && now[0].State == gputrain.InstanceTerminated {
			return nil
		}
		if !launches.Pause(ctx, Second) {
			return cmp.Or(err, fmt.Errorf("it is still there: %w", context.Cause(ctx)))
		}
	}
}

// settle looks for the machine that a create may have made whose answer was lost, until
// the list is whole, or once where nobody waits for it any more. Nothing is created again.
func (d *Driver) settle(caller context.Context, pool gputrain.PoolInfo, name string, why error) (string, error) {
	lag := d.api.Capabilities().ListLag
	ctx, cancel := context.WithTimeout(context.WithoutCancel(caller), lag+cleanupTimeout)
	defer cancel()
	until := time.Now().Add(lag)
	pool.Settling(fmt.Errorf("%s may have been made: %w", name, why), until)
	for {
		asked := time.Now()
		all, err := d.api.Machines(ctx, pool.ID)
		for _, m := range all {
			if m.Tag.Pool == pool.ID && m.Tag.Name == name && m.State != gputrain.InstanceTerminated {
				return m.ID, nil
			}
		}
		if err == nil && asked.After(until) || !launches.Pause(caller, Second) || ctx.Err() != nil {
			return "", &gputrain.Error{Kind: gputrain.ErrUnavailable, Err: why, Hint: "a machine may have been made all the same: List has it"}
		}
	}
}
