//go:build unix

package crash

import (
	"context"
	"iter"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/driver"
)

// A frozen provider stops for ever at one point of a pool's life. It reports each point that it reaches.
type frozen struct {
	container.Config
	at string
}

func (f frozen) Open(ctx context.Context) (driver.Driver, error) {
	d, err := f.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return &frozenDriver{d, d.(driver.Dialer), d.(driver.Scripter), f.at}, nil
}

type frozenDriver struct {
	driver.Driver
	driver.Dialer
	driver.Scripter
	at string
}

func (d *frozenDriver) reach(point string) {
	e2etest.Say("at %s", point)
	if d.at == point {
		select {}
	}
}

func (d *frozenDriver) Offers(ctx context.Context, s driver.Query) iter.Seq2[gputrain.Offer, error] {
	d.reach("offers")
	return d.Driver.Offers(ctx, s)
}

func (d *frozenDriver) Prepare(ctx context.Context, p driver.PoolInfo) error {
	d.reach("prepare")
	err := d.Driver.Prepare(ctx, p)
	d.reach("prepared")
	return err
}

func (d *frozenDriver) Launch(ctx context.Context, req driver.Launch) ([]driver.Instance, error) {
	d.reach("launch")
	if d.at == "half launched" {
		half := req
		half.Nodes = req.Nodes[:1]
		d.Driver.Launch(ctx, half)
		d.reach("half launched")
	}
	got, err := d.Driver.Launch(ctx, req)
	d.reach("launched")
	return got, err
}

func (d *frozenDriver) Terminate(ctx context.Context, ids ...string) error {
	d.reach("terminate")
	if d.at == "half terminated" && len(ids) > 1 {
		d.Driver.Terminate(ctx, ids[0])
		d.reach("half terminated")
	}
	err := d.Driver.Terminate(ctx, ids...)
	d.reach("terminated")
	return err
}

func (d *frozenDriver) Release(ctx context.Context, p driver.PoolInfo) error {
	d.reach("release")
	err := d.Driver.Release(ctx, p)
	d.reach("released")
	return err
}
