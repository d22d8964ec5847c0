package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"net"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// priced rents the machines of another provider, at a price: what a program's
// budget does can be tried before any money is spent.
type priced struct {
	gputrain.Provider
	hourlyUSD float64
}

func (p priced) Open(ctx context.Context) (gputrain.Driver, error) {
	d, err := p.Provider.Open(ctx)
	return pricedDriver{Driver: d, price: gputrain.USD(p.hourlyUSD)}, err
}

type pricedDriver struct {
	gputrain.Driver
	price gputrain.Price
}

func (d pricedDriver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for offer, err := range d.Driver.Offers(ctx, spec) {
			offer.HourlyUSD = d.price
			if !yield(offer, err) {
				return
			}
		}
	}
}

// Dial and SelfDestruct hand on what an embedded Driver does not show.
func (d pricedDriver) Dial(ctx context.Context, in gputrain.Instance) (net.Conn, error) {
	return d.Driver.(gputrain.Dialer).Dial(ctx, in)
}

func (d pricedDriver) SelfDestruct(in gputrain.Instance) string {
	return d.Driver.(gputrain.SelfDestructor).SelfDestruct(in)
}

// A Provider is a value with two methods; all else is its Driver.
func ExampleProvider() {
	cloud := priced{local.Config{}, 1.25}
	_, err := gputrain.Open(context.Background(), cloud, gputrain.Spec{MaxHourlyUSD: 1})
	fmt.Println(errors.Is(err, gputrain.ErrNoOffers)) // it costs more

	pool, err := gputrain.Open(context.Background(), cloud, gputrain.Spec{MaxHourlyUSD: 2})
	if err != nil {
		log.Fatal(err)
	}
	defer pool.Close()
	fmt.Println(pool.Nodes()[0].HourlyUSD)
	// Output:
	// true
	// $1.25
}
