package runpod

import (
	"math"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	gib = 1 << 30
	// Prices of a GB of a pod's disk and of its volume, in USD a month: RunPod's list of August 2026, as no
	// API tells them. A stopped pod has no disk, and its volume costs twice as much.
	storageUSD, stoppedUSD = 0.10, 0.20
	// A price of a month is divided by hoursPerMonth, of the shortest usual month, so that an hour costs
	// no more than that.
	hoursPerMonth = 720
)

// priced returns an offer at the price of its machine and of the storage that its pod gets, in GB.
func priced(o driver.Offer, machineUSD float64, diskGB, volumeGB int) driver.Offer {
	if !(machineUSD > 0) || math.IsInf(machineUSD, 0) {
		o.HourlyUSD, o.Parts = driver.Price{}, nil
		return o
	}
	return cloud.Priced(o, driver.PricePart{Name: "machine", HourlyUSD: machineUSD},
		driver.PricePart{Name: "disk", HourlyUSD: monthly(storageUSD, diskGB)}, driver.PricePart{Name: "volume", HourlyUSD: monthly(storageUSD, volumeGB)})
}

// monthly returns the price of so many GB for an hour.
func monthly(usd float64, gb int) float64 { return usd * float64(gb) / hoursPerMonth }

// machineUSD returns the price of an offer's machine alone, which a bid is for.
func machineUSD(o driver.Offer) (usd float64, known bool) {
	for _, p := range o.Parts {
		if p.Name == "machine" {
			return p.HourlyUSD, true
		}
	}
	return o.HourlyUSD.USD()
}

// charged returns an offer at the real price of its pod. RunPod reports the machine's, which is missing before the
// pod is up. It reports no price for a stopped pod, whose volume is billed.
func charged(o driver.Offer, p pod) driver.Offer {
	volume := 0
	if p.Mounts.Persistent != nil {
		volume = p.Mounts.Persistent.Size
	}
	if p.Status == "EXITED" && volume > 0 {
		o.HourlyUSD = driver.USD(monthly(stoppedUSD, volume))
		return o
	}
	return priced(o, p.Cost, p.Disk, volume)
}
