package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log"
	"net"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/local"
)

// priced rents the machines of another provider at a made-up price, to try a program's budget
// before any money is spent.
type priced struct {
	gputrain.Provider
	hourlyUSD float64
}

func (p priced) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Provider.Open(ctx)
	return pricedDriver{Driver: d, price: driver.USD(p.hourlyUSD)}, err
}

type pricedDriver struct {
	driver.Driver
	price gputrain.Price
}

func (d pricedDriver) Offers(ctx context.Context, spec driver.Query) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for offer, err := range d.Driver.Offers(ctx, spec) {
			offer.HourlyUSD = d.price
			if !yield(offer, err) {
				return
			}
		}
	}
}

// Dial and Scripts pass on methods that an embedded Driver hides.
func (d pricedDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return d.Driver.(driver.Dialer).Dial(ctx, in)
}

func (d pricedDriver) Scripts(in driver.Instance) driver.Scripts {
	return d.Driver.(driver.Scripter).Scripts(in)
}

// A Provider is a value with two methods; everything else is its Driver's.
func ExampleProvider() {
	cloud := priced{local.Config{}, 1.25}
	_, err := gputrain.Open(context.Background(), cloud, gputrain.Spec{MaxHourlyUSD: 1})
	fmt.Println(errors.Is(err, gputrain.ErrNoOffers)) // the machine costs more

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
