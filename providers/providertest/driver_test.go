package providertest

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/sim"
)

// A providertestDriver is the driver of a simulated cloud, with the cloud.
type providertestDriver struct {
	simDriver
	cloud *sim.Cloud
}

type simDriver interface {
	driver.Driver
	driver.Dialer
	driver.Scripter
	driver.LeaseMarker
	driver.Balancer
	driver.Quoter
}

// A provider is the simulated cloud's provider with a flaw.
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

func (p provider) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if p.flaw.opened != nil {
		err = p.flaw.opened(p, err)
	}
	if err != nil {
		return nil, err
	}
	if p.flaw.driver == nil {
		return providertestDriver{patient{d.(simDriver)}, p.Cloud}, nil
	}
	return p.flaw.driver(providertestDriver{patient{d.(simDriver)}, p.Cloud}), nil
}

// A patient driver repeats its reads, as drivers of real clouds do.
type patient struct{ simDriver }

func again[T any](read func() (T, error)) (got T, err error) {
	for range 4 {
		got, err = read()
		if err == nil || !errors.Is(err, driver.ErrUnavailable) && !errors.Is(err, driver.ErrRateLimited) || errors.Is(err, context.Canceled) {
			return got, err
		}
		time.Sleep(2 * time.Second)
	}
	return got, err
}

// hibernated is a state that the driver's table does not have.
const hibernated = "hibernated"

func (d patient) Describe(ctx context.Context, ids ...string) ([]driver.Instance, error) {
	got, err := again(func() ([]driver.Instance, error) { return d.simDriver.Describe(ctx, ids...) })
	for i := range got {
		if got[i].State == driver.InstanceStopped {
			got[i].State, got[i].StateReason = driver.InstanceUnknown, hibernated
		}
	}
	return got, err
}

func (d patient) List(ctx context.Context, pool string) ([]driver.Resource, error) {
	return again(func() ([]driver.Resource, error) { return d.simDriver.List(ctx, pool) })
}

// Offers reads the offers in pages of four.
func (d patient) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		for from := 0; ; from += 4 {
			page, err := again(func() (page []driver.Offer, err error) {
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
				yield(driver.Offer{}, err)
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

// A tells driver reports factor times the money of the account, and more machines than its quota.
type tells struct {
	providertestDriver
	factor float64
	more   int
}

func (d tells) Balance(ctx context.Context, o driver.Offer) (driver.Balance, error) {
	b, err := d.providertestDriver.Balance(ctx, o)
	b.USD *= d.factor
	return b, err
}

func (d tells) Quota(ctx context.Context, o driver.Offer) (driver.Quota, error) {
	q, err := d.providertestDriver.Quota(ctx, o)
	q.Machines += d.more
	return q, err
}

// A listed provider has a list for anyone.
type listed struct {
	driver.Provider
	list func(context.Context) (driver.Driver, error)
}

func (p listed) OpenPublic(ctx context.Context) (driver.Driver, error) { return p.list(ctx) }
