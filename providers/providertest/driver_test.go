package providertest

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/sim"
)

// A driver is that of a simulated cloud, with the cloud.
type driver struct {
	simDriver
	cloud *sim.Cloud
}

type simDriver interface {
	gputrain.Driver
	gputrain.Dialer
	gputrain.SelfDestructor
	gputrain.LeaseMarker
}

// A provider is the simulated cloud's, with a flaw.
type provider struct {
	sim.Config
	Regions []string
	flaw    flaw
}

func (p provider) Name() string {
	if p.flaw.named != nil {
		p.flaw.named(p)
	}
	return p.Config.Name()
}

func (p provider) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := p.Config.Open(ctx)
	if p.flaw.opened != nil {
		err = p.flaw.opened(p, err)
	}
	if err != nil {
		return nil, err
	}
	if p.flaw.driver == nil {
		return driver{patient{d.(simDriver)}, p.Cloud}, nil
	}
	return p.flaw.driver(driver{patient{d.(simDriver)}, p.Cloud}), nil
}

// A patient driver repeats its reads, as those of real clouds do.
type patient struct{ simDriver }

func again[T any](read func() (T, error)) (got T, err error) {
	for range 4 {
		got, err = read()
		if err == nil || !errors.Is(err, gputrain.ErrUnavailable) && !errors.Is(err, gputrain.ErrRateLimited) || errors.Is(err, context.Canceled) {
			return got, err
		}
		time.Sleep(2 * time.Second)
	}
	return got, err
}

// hibernated is a state that the driver's table does not have.
const hibernated = "hibernated"

func (d patient) Describe(ctx context.Context, ids ...string) ([]gputrain.Instance, error) {
	got, err := again(func() ([]gputrain.Instance, error) { return d.simDriver.Describe(ctx, ids...) })
	for i := range got {
		if got[i].State == gputrain.InstanceStopped {
			got[i].State, got[i].StateReason = gputrain.InstanceUnknown, hibernated
		}
	}
	return got, err
}

func (d patient) List(ctx context.Context, pool string) ([]gputrain.Resource, error) {
	return again(func() ([]gputrain.Resource, error) { return d.simDriver.List(ctx, pool) })
}

// Offers come in pages of four.
func (d patient) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for from := 0; ; from += 4 {
			page, err := again(func() (page []gputrain.Offer, err error) {
				n := 0
				for o, err := range d.simDriver.Offers(ctx, spec) {
					if err != nil {
						return nil, err
					}
					if n++; n > from && n <= from+4 {
						page = append(page, o)
					}
				}
				return page, nil
			})
			if err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			for _, o := range page {
				if !yield(o, nil) {
					return
				}
			}
			if len(page) < 4 {
				return
			}
		}
	}
}
