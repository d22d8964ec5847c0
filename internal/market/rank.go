package market

import (
	"cmp"

	"github.com/gputrain/gputrain/providers/driver"
)

// compare orders offers as they are tried: by tier, spot first if the wants prefer it, and by
// price.
func (m *Market) compare(a, b driver.Offer) int {
	prefersSpot := m.wants.Allocation == driver.SpotIfAvailable
	return cmp.Or(
		cmp.Compare(a.Tier, b.Tier),
		one(prefersSpot && b.Spot)-one(prefersSpot && a.Spot),
		comparePrices(m.wants.hourly(a), m.wants.hourly(b)),
	)
}

// A weighedOffer is an offer with why it is rejected, if it is.
type weighedOffer struct {
	offer driver.Offer
	why   rejection
}

// compareWeighed orders offers that satisfy the wants before the others, and these the nearest
// first.
func (m *Market) compareWeighed(a, b weighedOffer) int {
	return cmp.Or(one(a.why.reasons != nil)-one(b.why.reasons != nil), a.why.compare(b.why), m.compare(a.offer, b.offer))
}

// hourly returns what an hour costs with the traffic that is expected.
func (w Wants) hourly(o driver.Offer) driver.Price {
	usd, known := o.HourlyUSD.USD()
	if !known {
		return driver.Price{}
	}
	return driver.USD(usd + w.IngressGiB*o.IngressUSD + w.EgressGiB*o.EgressUSD)
}

// comparePrices orders prices, unknown ones last.
func comparePrices(a, b driver.Price) int {
	x, knownX := a.USD()
	y, knownY := b.USD()
	switch {
	case !knownX || !knownY:
		return one(!knownX) - one(!knownY)
	case x < y:
		return -1
	case y < x:
		return 1
	}
	return 0
}

// one returns 1 if it is true, and 0 otherwise.
func one(is bool) int {
	if is {
		return 1
	}
	return 0
}
