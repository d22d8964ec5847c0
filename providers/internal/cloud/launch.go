package cloud

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/launches"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// Launch rents one machine for each node.
func (d *Driver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	if err := d.check(req); err != nil {
		return nil, d.fail("launch", err)
	}
	if api, ok := d.api.(Together); ok {
		got, err := d.launchTogether(ctx, api, req)
		return got, d.fail("launch", err)
	}
	got, err := launches.Each(req.Nodes, d.opts.AtOnce, func(n driver.NodeRequest) ([]driver.Instance, error) {
		in, err := d.launch(ctx, req, n)
		if err != nil {
			err = d.fail("launch", about(n.Name, err))
		}
		if in.ID == "" {
			return nil, err
		}
		return []driver.Instance{in}, err
	}, isOpen)
	return sorted(got), err
}

// isOpen reports whether a failed launch may have created something: the cloud has not refused
// it.
func isOpen(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return !ok || e.Kind == nil || e.Kind == driver.ErrUnavailable
}

func (d *Driver) launch(ctx context.Context, req driver.Launch, n driver.NodeRequest) (driver.Instance, error) {
	if ctx.Err() != nil {
		return driver.Instance{}, context.Cause(ctx)
	}
	order := orderOf(req, n, time.Now())
	id, err := d.api.Create(ctx, order)
	if id == "" && err == nil {
		err = errors.New("the cloud's answer names no machine")
	}
	settles := id == "" && isOpen(d.fail("launch", err))
	if settles {
		id, err = d.settle(ctx, order, err)
	}
	if id == "" {
		return driver.Instance{}, err
	}
	d.launched(id, n, req.Offer)
	if settles { // a list has shown it
		d.know(id, func(m *made) { m.sight.Seen(driver.InstancePending) })
	}
	in := driver.Instance{ID: id, Name: n.Name, Rank: n.Rank, State: driver.InstancePending, Offer: req.Offer}
	if starter, ok := d.api.(Starter); ok && err == nil {
		if err = starter.Start(ctx, id, order); err != nil {
			left := d.undo(ctx, id)
			if left == nil {
				return driver.Instance{}, err
			}
			in.State, in.StateReason = driver.InstanceFailed, fmt.Sprintf("it was made and not started, and is not known to be ended: %v", left)
			err = about(id+" is not known to be ended", err)
		}
	}
	if teller, ok := d.api.(Teller); ok && err == nil {
		if m, ok := teller.Told(ctx, id); ok {
			in = d.instance(m)
		}
	}
	if err == nil {
		err = context.Cause(ctx)
	}
	return in, err
}

func orderOf(req driver.Launch, n driver.NodeRequest, now time.Time) Order {
	return Order{Pool: req.Pool, Offer: req.Offer, Spec: req.Query, Node: n, Tag: pooltag.OfNode(req.Pool, n, now), Login: req.ImageLogin}
}

// launched records the machine of a node.
func (d *Driver) launched(id string, n driver.NodeRequest, offer driver.Offer) {
	n.HostKey.Private = ""
	d.know(id, func(m *made) { *m = made{node: n, offer: offer, sight: MadeAt(time.Now())} })
}

// launchTogether rents the machines of all nodes by one call.
func (d *Driver) launchTogether(ctx context.Context, api Together, req driver.Launch) ([]driver.Instance, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	now := time.Now()
	orders := Each(req.Nodes, func(n driver.NodeRequest) Order { return orderOf(req, n, now) })
	machines, err := api.CreateTogether(ctx, orders)
	if err != nil {
		return nil, err
	}
	var got []driver.Instance
	for i, m := range machines {
		d.launched(m.ID, req.Nodes[i], req.Offer)
		got = append(got, d.instance(m))
	}
	return sorted(got), nil
}

// undo ends a machine that was made and not started, even after the caller has given up. It
// returns nil once the machine is known to be gone. An accepted call does not prove that: undo
// repeats the call as long as the machine is there.
func (d *Driver) undo(ctx context.Context, id string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
	defer cancel()
	for {
		if err := d.Terminate(ctx, id); err != nil {
			return err
		}
		if known := d.known(id); !known.sight.Accepted() {
			return errors.New("the cloud does not know it, or not yet")
		}
		now, err := d.Describe(ctx, id)
		if err == nil && now[0].State == driver.InstanceTerminated {
			return nil
		}
		if !retry.Sleep(ctx, Second) {
			return cmp.Or(err, fmt.Errorf("it is still there: %w", context.Cause(ctx)))
		}
	}
}

// settle looks for the machine of an order by its tag.
func (d *Driver) settle(ctx context.Context, order Order, why error) (string, error) {
	return Search[string]{
		Pool: order.Pool, Name: order.Node.Name, Why: why, Lag: d.api.Capabilities().ListLag, Pause: Second,
		Find: func(ctx context.Context) (string, bool, error) {
			all, err := d.api.Machines(ctx, order.Pool.ID)
			for _, m := range all {
				if order.Tag.Is(m.Tag) && m.Doubt == "" && m.State != driver.InstanceTerminated {
					return m.ID, true, nil
				}
			}
			return "", false, err
		},
	}.Settle(ctx)
}
