package providertest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/providers/driver"
)

// An idle driver ends nothing, and reports everything that it was to end as gone.
type idle struct {
	providertestDriver
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

func (d *idle) Release(context.Context, driver.PoolInfo) error { return nil }

func (d *idle) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := d.providertestDriver.Describe(ctx, ids...)
	for i := range got {
		if d.over(got[i].ID) {
			got[i].State = driver.InstanceTerminated
		}
	}
	return got, err
}

func (d *idle) List(ctx context.Context, pool string) ([]driver.Resource, error) {
	got, err := d.providertestDriver.List(ctx, pool)
	return slices.DeleteFunc(got, func(r driver.Resource) bool { return r.Kind != "machine" || d.over(r.ID) }), err
}

// An inventor reports machines that it has not made.
type inventor struct {
	providertestDriver
	mu   sync.Mutex
	made []driver.Instance
}

func (d *inventor) Launch(_ context.Context, r driver.Launch) (got []driver.Instance, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, n := range r.Nodes {
		in := driver.Instance{ID: fmt.Sprint("i-", n.Name), Name: n.Name, Rank: n.Rank, State: driver.InstanceRunning, Offer: r.Offer}
		in.SSH = driver.Endpoint{Addr: "198.18.0.1:22", User: "root"}
		got = append(got, in)
	}
	d.made = append(d.made, got...)
	return got, nil
}

func (d *inventor) Describe(_ context.Context, ids ...string) (got []driver.Instance, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, id := range ids {
		i := slices.IndexFunc(d.made, func(in driver.Instance) bool { return in.ID == id })
		got = append(got, d.made[i])
	}
	return got, nil
}

func (d *inventor) Terminate(context.Context, ...string) error { return nil }

func (d *inventor) Dial(context.Context, driver.Instance) (net.Conn, error) {
	return nil, errors.New("connection refused")
}
