package cloud

import (
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
	if starter, ok := d.api.(Starter); ok && err == nil {
		if err = starter.Start(ctx, id, order); err != nil && d.undo(ctx, id) {
			return gputrain.Instance{}, err
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return gputrain.Instance{ID: id, Name: n.Name, Rank: n.Rank, State: gputrain.InstancePending, Offer: req.Offer}, err
}

// undo ends a machine that was made and not started, though the caller may have given up. That
// the cloud does not know it says nothing: it may be too new.
func (d *Driver) undo(ctx context.Context, id string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	if d.Terminate(ctx, id) != nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[id].ended
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
