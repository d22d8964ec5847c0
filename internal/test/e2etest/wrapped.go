package e2etest

import (
	"context"
	"iter"
	"net"
	"sync"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Wrapped provider is another provider with some of its calls changed.
type Wrapped struct {
	gputrain.Provider
	OnOpen         func(context.Context) error
	OnOffers       func(context.Context) error
	OnOffer        func(*gputrain.Offer)
	OnPrepare      func(context.Context) error
	OnLaunch       func(context.Context, driver.Launch, driver.Driver) ([]driver.Instance, error)
	OnDescribe     func([]driver.Instance) ([]driver.Instance, error)
	OnDial         func(context.Context, driver.Instance) (net.Conn, error)
	OnTerminate    func(ids []string) error
	rel            func() error
	OnReleaseOf    func(driver.PoolInfo)
	OnCapabilities func(*driver.Capabilities)

	Mu     sync.Mutex
	Opened *wrappedDriver
}

func (w *Wrapped) Open(ctx context.Context) (driver.Driver, error) {
	if w.OnOpen != nil {
		if err := w.OnOpen(ctx); err != nil {
			return nil, err
		}
	}
	d, err := w.Provider.Open(ctx)
	if err != nil {
		return nil, err
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Opened = &wrappedDriver{Driver: d, w: w}
	return w.Opened, nil
}

type wrappedDriver struct {
	driver.Driver
	w *Wrapped
}

func (d *wrappedDriver) Capabilities() driver.Capabilities {
	c := d.Driver.Capabilities()
	if d.w.OnCapabilities != nil {
		d.w.OnCapabilities(&c)
	}
	return c
}

func (d *wrappedDriver) Offers(ctx context.Context, s driver.Query) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if d.w.OnOffers != nil {
			if err := d.w.OnOffers(ctx); err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
		}
		for o, err := range d.Driver.Offers(ctx, s) {
			if d.w.OnOffer != nil {
				d.w.OnOffer(&o)
			}
			if !yield(o, err) {
				return
			}
		}
	}
}

func (d *wrappedDriver) Prepare(ctx context.Context, p driver.PoolInfo) error {
	if d.w.OnPrepare != nil {
		if err := d.w.OnPrepare(ctx); err != nil {
			return err
		}
	}
	return d.Driver.Prepare(ctx, p)
}

func (d *wrappedDriver) Launch(ctx context.Context, r driver.Launch) ([]driver.Instance, error) {
	if d.w.OnLaunch != nil {
		return d.w.OnLaunch(ctx, r, d.Driver)
	}
	return d.Driver.Launch(ctx, r)
}

func (d *wrappedDriver) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	found, err := d.Driver.Describe(ctx, ids...)
	if err == nil && d.w.OnDescribe != nil {
		return d.w.OnDescribe(found)
	}
	return found, err
}

func (d *wrappedDriver) Terminate(ctx context.Context, ids ...string) error {
	if d.w.OnTerminate != nil {
		if err := d.w.OnTerminate(ids); err != nil {
			return err
		}
	}
	return d.Driver.Terminate(ctx, ids...)
}

func (d *wrappedDriver) Release(ctx context.Context, p driver.PoolInfo) error {
	if d.w.OnReleaseOf != nil {
		d.w.OnReleaseOf(p)
	}
	if d.w.rel != nil {
		if err := d.w.rel(); err != nil {
			return err
		}
	}
	return d.Driver.Release(ctx, p)
}

func (d *wrappedDriver) Dial(ctx context.Context, i driver.Instance) (net.Conn, error) {
	if d.w.OnDial != nil {
		return d.w.OnDial(ctx, i)
	}
	return d.Driver.(driver.Dialer).Dial(ctx, i)
}

func (d *wrappedDriver) Scripts(i driver.Instance) driver.Scripts {
	return d.Driver.(driver.Scripter).Scripts(i)
}
