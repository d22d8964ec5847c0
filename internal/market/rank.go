package market

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// An order compares offers in the order in which they are tried.
type order struct {
	wants   Wants
	spotCap driver.Price // what on demand costs: a spot offer that costs more is not preferred
}

// orderOf returns the order of the offers that satisfy the wants.
func (w Wants) orderOf(offers []weighedOffer) order {
	by := order{wants: w}
	for _, o := range offers {
		if o.why.reasons == nil && !o.offer.Spot && comparePrices(w.rankPrice(o.offer), by.spotCap) < 0 {
			by.spotCap = w.rankPrice(o.offer)
		}
	}
	return by
}

// compare orders offers by tier, with spot first if the wants prefer it, and by price.
func (by order) compare(a, b weighedOffer) int {
	return cmp.Or(
		cmp.Compare(a.offer.Tier, b.offer.Tier),
		one(by.prefers(b.offer))-one(by.prefers(a.offer)),
		comparePrices(by.wants.rankPrice(a.offer), by.wants.rankPrice(b.offer)),
	)
}

// prefers reports whether an offer comes before those on demand whatever these cost.
func (by order) prefers(o driver.Offer) bool {
	return o.Spot && by.wants.Allocation == driver.SpotIfAvailable && comparePrices(by.wants.rankPrice(o), by.spotCap) <= 0
}

// A weighedOffer is an offer with why it is rejected, if it is.
type weighedOffer struct {
	offer  driver.Offer
	why    rejection
	failed string        // why its machine failed lately; empty if none has
	boot   time.Duration // how long the last machine took to come up; 0 if unknown
}

// sort orders offers that satisfy the wants before the others, and these the nearest first.
func (w Wants) sort(all []weighedOffer) {
	by := w.orderOf(all)
	slices.SortStableFunc(all, func(a, b weighedOffer) int {
		return cmp.Or(
			one(a.why.reasons != nil)-one(b.why.reasons != nil), a.why.compare(b.why),
			one(a.failed != "")-one(b.failed != ""), by.compare(a, b),
		)
	})
}

// hourly returns what an hour costs with the traffic that is expected.
func (w Wants) hourly(o driver.Offer) driver.Price {
	usd, known := o.HourlyUSD.USD()
	if !known {
		return driver.Price{}
	}
	return driver.USD(usd + w.IngressGiB*o.IngressUSD + w.EgressGiB*o.EgressUSD)
}

// workUSD returns what a unit of work costs, by Speed. It is unknown if the price or the speed is.
func (w Wants) workUSD(o driver.Offer) driver.Price {
	usd, known := w.hourly(o).USD()
	speed := w.speedOf(o.Accelerator)
	if !known || speed <= 0 {
		return driver.Price{}
	}
	return driver.USD(usd / speed)
}

// speedOf returns the work that a machine's accelerators do in an hour. A key of Speed that has more conditions is
// preferred: "A100-80GB" to "A100".
func (w Wants) speedOf(has accelerators.Accelerator) float64 {
	speed, longest := 0.0, ""
	for name, s := range w.Speed {
		a, err := accelerators.Parse(name)
		a.Count = cmp.Or(a.Count, has.Count)
		if err == nil && !has.IsZero() && a.OrMore().Matches(has) && (len(name) > len(longest) || len(name) == len(longest) && name < longest) {
			speed, longest = s, name
		}
	}
	return speed * cmp.Or(has.Count, 1)
}

// rankPrice returns the price by which offers are compared: of the work if the wants have speeds, and otherwise of an hour.
func (w Wants) rankPrice(o driver.Offer) driver.Price {
	if len(w.Speed) > 0 {
		return w.workUSD(o)
	}
	return w.hourly(o)
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
