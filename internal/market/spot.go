package market

import (
	"fmt"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// A machineKind is what the spot offer and the offer on demand of the same machine have in common.
type machineKind struct {
	provider, account, instanceType, host, region string
	accelerator                                   accelerators.Accelerator
}

func kindOf(o driver.Offer) machineKind {
	return machineKind{o.Provider, source(o), o.InstanceType, o.Host, o.Region, o.Accelerator}
}

// rejectDearSpot rejects a spot offer if the same machine costs less on demand, for wants that
// accept both.
func rejectDearSpot(w Wants, all []weighedOffer) {
	if w.Allocation != driver.SpotIfAvailable {
		return
	}
	onDemand := map[machineKind]driver.Price{}
	for _, o := range all {
		key := kindOf(o.offer)
		price, seen := onDemand[key]
		if o.why.reasons == nil && !o.offer.Spot && (!seen || comparePrices(w.hourly(o.offer), price) < 0) {
			onDemand[key] = w.hourly(o.offer)
		}
	}
	for i, o := range all {
		usd, known := onDemand[kindOf(o.offer)].USD()
		spot, priced := w.hourly(o.offer).USD()
		if o.why.reasons == nil && o.offer.Spot && known && priced && spot > usd {
			all[i].why.reasons = []string{fmt.Sprintf("costs %v an hour as spot, and %v on demand", driver.USD(spot), driver.USD(usd))}
		}
	}
}
