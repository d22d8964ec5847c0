package cloud

import (
	"context"
	"math"

	"github.com/gputrain/gputrain/providers/driver"
)

// Balance returns the money of the account, if the API is a driver.Balancer.
func (d *Driver) Balance(ctx context.Context, offer driver.Offer) (driver.Balance, error) {
	api, ok := d.api.(driver.Balancer)
	if !ok {
		return driver.Balance{}, nil
	}
	b, err := api.Balance(ctx, offer)
	return b, d.fail("balance", err)
}

// Quota returns what the account may have, if the API is a driver.Quoter.
func (d *Driver) Quota(ctx context.Context, offer driver.Offer) (driver.Quota, error) {
	api, ok := d.api.(driver.Quoter)
	if !ok {
		return driver.Quota{}, nil
	}
	q, err := api.Quota(ctx, offer)
	return q, d.fail("quota", err)
}

// Priced returns an offer at the sum of the prices of its parts. A part that costs nothing is left out, and a single part is
// no part but the price.
func Priced(o driver.Offer, parts ...driver.PricePart) driver.Offer {
	sum := 0.0
	o.Parts = nil
	for _, p := range parts {
		if sum += p.HourlyUSD; p.HourlyUSD > 0 {
			o.Parts = append(o.Parts, p)
		}
	}
	if len(o.Parts) < 2 {
		o.Parts = nil
	}
	o.HourlyUSD = driver.USD(sum)
	return o
}

// charged returns a known offer at the price that the cloud charges. The parts of the offer remain if the cloud names none
// and their sum is that price.
func charged(known, told driver.Offer) driver.Offer {
	usd, ok := told.HourlyUSD.USD()
	if !ok || usd <= 0 {
		return known
	}
	expected, ok := known.HourlyUSD.USD()
	if told.Parts != nil || !ok || math.Abs(usd-expected) > 1e-6 {
		known.HourlyUSD, known.Parts = told.HourlyUSD, told.Parts
	}
	return known
}
