package kubernetes

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// shapeOffers returns the offers of the configured Shapes.
func (a *catalogue) shapeOffers(k *cluster, q driver.Query) (offers []driver.Offer) {
	for i, s := range a.cfg.Shapes {
		device, err := accelerators.Parse(cmp.Or(s.GPU, "none"))
		if err != nil {
			continue // validate has refused it
		}
		own := shape{device: device, total: amounts{gpus: s.Count}}
		for _, n := range counts(q, own) {
			o := driver.Offer{
				ID: "shape-" + strconv.Itoa(i) + "/" + strconv.Itoa(n), InstanceType: "shape-" + strconv.Itoa(i), Region: k.name,
				VCPUs: s.VCPUs, MemoryGiB: s.MemoryGiB, Spot: s.Spot,
			}
			if n > 0 {
				o.Accelerator = times(device, n)
			}
			if n > 0 && !q.Accelerator.Matches(o.Accelerator) {
				continue
			}
			o.HourlyUSD = a.price(o.Accelerator, s.HourlyUSD, cmp.Or(float64(n)/float64(max(s.Count, 1)), 1))
			if a.cfg.Autoscaled {
				o.Warnings = append(o.Warnings, fmt.Sprintf("the autoscaler makes a machine for it, which takes minutes, and bills for minutes after it: %s", a.waits()))
			} else {
				o.Warnings = append(o.Warnings, "is offered as Config.Shapes has it: the right to list nodes is missing")
			}
			a.warn(&o)
			at := place{cluster: k, selector: s.NodeSelector}
			a.remember(o, at)
			offers = append(offers, o)
		}
	}
	return offers
}

// price returns the price of an offer for an hour: a part of the machine's, if that has one, or that
// of its GPUs.
func (a *catalogue) price(of accelerators.Accelerator, machineUSD, part float64) driver.Price {
	switch usd, known := a.cfg.priceOf(of); {
	case machineUSD > 0:
		return driver.USD(machineUSD * part)
	case a.cfg.free():
		return driver.USD(0)
	case known && !of.IsZero():
		return driver.USD(usd * float64(devices(of)))
	}
	return driver.Price{}
}
