package gputrain_test

import (
	"context"
	"iter"
	"net"
	"sync"

	"github.com/gputrain/gputrain"
)

// A wrapped provider is a real one with some of its calls changed.
type wrapped struct {
	gputrain.Provider
	open   func(context.Context) error
	offers func(context.Context) error
	offer  func(*gputrain.Offer)
	prep   func(context.Context) error
	launch func(context.Context, gputrain.LaunchRequest, gputrain.Driver) ([]gputrain.Instance, error)
	desc   func([]gputrain.Instance) ([]gputrain.Instance, error)
	dial   func(context.Context, gputrain.Instance) (net.Conn, error)
	term   func(ids []string) error
	rel    func() error
	relOf  func(gputrain.PoolInfo)
	caps   func(*gputrain.Capabilities)

	mu     sync.Mutex
	driver *wrappedDriver
}

func (w *wrapped) Open(ctx context.Context) (gputrain.Driver, error) {
	if w.open != nil {
		if err := w.open(ctx); err != nil {
			return nil, err
		}
	}
	d, err := w.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.driver = &wrappedDriver{Driver: d, w: w}
	return w.driver, nil
}

type wrappedDriver struct {
	gputrain.Driver
	w *wrapped
}

func (d *wrappedDriver) Capabilities() gputrain.Capabilities {
	c := d.Driver.Capabilities()
	if d.w.caps != nil {
		d.w.caps(&c)
	}
	return c
}

func (d *wrappedDriver) Offers(ctx context.Context, s gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if d.w.offers != nil {
			if err := d.w.offers(ctx); err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
		}
		for o, err := range d.Driver.Offers(ctx, s) {
			if d.w.offer != nil {
				d.w.offer(&o)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (d *wrappedDriver) Prepare(ctx context.Context, p gputrain.PoolInfo) error {
	if d.w.prep != nil {
		if err := d.w.prep(ctx); err != nil {
			return err
		}
	}
	return d.Driver.Prepare(ctx, p)
}

func (d *wrappedDriver) Launch(ctx context.Context, r gputrain.LaunchRequest) ([]gputrain.Instance, error) {
	if d.w.launch != nil {
		return d.w.launch(ctx, r, d.Driver)
	}
	return d.Driver.Launch(ctx, r)
}

func (d *wrappedDriver) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	found, err := d.Driver.Describe(ctx, ids...)
	if err == nil && d.w.desc != nil {
		return d.w.desc(found)
	}
	return found, err
}

func (d *wrappedDriver) Terminate(ctx context.Context, ids ...string) error {
	if d.w.term != nil {
		if err := d.w.term(ids); err != nil {
			return err
		}
	}
	return d.Driver.Terminate(ctx, ids...)
}

func (d *wrappedDriver) Release(ctx context.Context, p gputrain.PoolInfo) error {
	if d.w.relOf != nil {
		d.w.relOf(p)
	}
	if d.w.rel != nil {
		if err := d.w.rel(); err != nil {
			return err
		}
	}
	return d.Driver.Release(ctx, p)
}

func (d *wrappedDriver) Dial(ctx context.Context, i gputrain.Instance) (net.Conn, error) {
	if d.w.dial != nil {
		return d.w.dial(ctx, i)
	}
	return d.Driver.(gputrain.Dialer).Dial(ctx, i)
}

func (d *wrappedDriver) SelfDestruct(i gputrain.Instance) string {
	return d.Driver.(gputrain.SelfDestructor).SelfDestruct(i)
}
