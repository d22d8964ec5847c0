package providertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/gputrain/gputrain"
)

// An idle driver ends nothing, and reports everything that it was to end as gone.
type idle struct {
	driver
	mu    sync.Mutex
	ended []string
}

func (d *idle) over(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.ended, id)
}

func (d *idle) Terminate(_ context.Context, ids ...string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.ended = append(d.ended, ids...)
	return nil
}

func (d *idle) Release(context.Context, gputrain.PoolInfo) error { return nil }

func (d *idle) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	got, err := d.driver.Describe(ctx, ids...)
	for i := range got {
		if d.over(got[i].ID) {
			got[i].State = gputrain.InstanceTerminated
		}
	}
	return got, err
}

func (d *idle) List(ctx context.Context, pool string) ([]gputrain.Resource, error) {
	got, err := d.driver.List(ctx, pool)
	return slices.DeleteFunc(got, func(r gputrain.Resource) bool { return r.Kind != "machine" || d.over(r.ID) }), err
}

// An inventor reports machines that it has not made.
type inventor struct {
	driver
	mu   sync.Mutex
	made []gputrain.Instance
}

func (d *inventor) Launch(_ context.Context, r gputrain.LaunchRequest) (got []gputrain.Instance, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range r.Nodes {
		in := gputrain.Instance{ID: fmt.Sprint("i-", n.Name), Name: n.Name, Rank: n.Rank, State: gputrain.InstanceRunning, Offer: r.Offer}
		in.SSH = gputrain.Endpoint{Addr: "198.18.0.1:22", User: "root"}
		got = append(got, in)
	}
	d.made = append(d.made, got...)
	return got, nil
}

func (d *inventor) Describe(_ context.Context, ids ...string) (got []gputrain.Instance, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		i := slices.IndexFunc(d.made, func(in gputrain.Instance) bool { return in.ID == id })
		got = append(got, d.made[i])
	}
	return got, nil
}

func (d *inventor) Terminate(context.Context, ...string) error { return nil }

func (d *inventor) Dial(context.Context, gputrain.Instance) (net.Conn, error) {
	return nil, errors.New("connection refused")
}
