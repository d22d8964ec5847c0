package vultr

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// maxHours bounds the charged hours of a machine in a month.
const maxHours = 672

// Offers yields the plans that are in stock, region by region.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if spec.Allocation == driver.Spot {
			return // no call rents those
		}
		sold := map[string][]plan{}
		for p, err := range a.client.plans(ctx, a.cfg.Mode) {
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, region := range p.regions(spec) {
				sold[region] = append(sold[region], p)
			}
		}
		for _, region := range a.regions(spec, slices.Sorted(maps.Keys(sold))) {
			// A region that sells a plan may have none left.
			stock, err := a.client.available(ctx, region)
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, p := range sold[region] {
				if slices.Contains(stock, p.ID) && !yield(p.offer(a.cfg.Mode, region, spec), nil) {
					return
				}
			}
		}
	}
}

// regions returns the regions for nodes, among those that sell a plan.
func (a *api) regions(spec driver.Query, sold []string) []string {
	wanted := spec.Regions
	switch {
	case a.cfg.Region == Anywhere:
		return sold // the pool applies Spec.Regions itself
	case a.cfg.Region != "":
		wanted = []string{a.cfg.Region}
	case len(wanted) == 0:
		wanted = []string{DefaultRegion}
	}
	return slices.DeleteFunc(sold, func(region string) bool {
		return !slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, region) })
	})
}

// regions returns the regions that sell a plan on demand, if it may match the spec. Plans that
// are only rented as preemptible have a price, and often no region.
func (p plan) regions(spec driver.Query) []string {
	wrong := p.OnDemand != nil && !*p.OnDemand || strings.HasSuffix(p.ID, "-v6") // they have no IPv4 address
	if wrong || !spec.Accelerator.IsZero() && !spec.Accelerator.Matches(p.accelerator(spec.Accelerator)) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Locations), func(region string) bool { return region == "" })
}

func (p plan) offer(mode Mode, region string, spec driver.Query) driver.Offer {
	const gib = 1 << 30
	return driver.Offer{
		ID: placement{mode, region, p.ID}.String(), InstanceType: p.ID, Region: region,
		Accelerator: p.accelerator(spec.Accelerator), Arch: p.arch(),
		VCPUs: float64(max(p.VCPUs, p.CPUThreads, p.CPUs)), MemoryGiB: float64(p.RAM) / 1024, DiskGiB: float64(p.Disk) * 1e9 / gib,
		HourlyUSD: p.price(region), BillingUnit: time.Hour,
	}
}

// price returns the price of a plan in a region.
func (p plan) price(region string) driver.Price {
	c := p.cost
	if own := p.LocationCost[region]; own.Hourly > 0 || own.Monthly > 0 {
		c = own
	}
	switch {
	case c.Hourly > 0:
		return driver.USD(float64(c.Hourly))
	case c.Monthly > 0:
		return driver.USD(float64(c.Monthly) / maxHours)
	}
	return driver.Price{}
}

// accelerator returns a plan's accelerator. The plan's ID has more than its fields, which some
// plans lack; only the ID has the size of a share of a GPU. wanted may be a name that only
// Vultr uses.
func (p plan) accelerator(wanted accelerators.Accelerator) accelerators.Accelerator {
	if wanted.Exact && (wanted.Name == p.ID || wanted.Name == p.GPUType) {
		return p.counted(accelerators.Exact(wanted.Name))
	}
	if a, err := accelerators.ParseFrom(providerName, p.ID); err == nil {
		return p.counted(a)
	}
	if p.GPUType == "" {
		if p.GPUBrand == "" {
			return accelerators.Accelerator{}
		}
		return p.counted(accelerators.Exact(p.ID))
	}
	fields := strings.Split(p.GPUType, "_")
	if a, err := accelerators.ParseFrom(providerName, fields[len(fields)-1]); err == nil {
		return p.counted(a)
	}
	return p.counted(accelerators.Exact(p.GPUType))
}

// counted adds the number and the memory of a plan's full GPUs to an accelerator.
func (p plan) counted(a accelerators.Accelerator) accelerators.Accelerator {
	if p.GPUCount >= 1 && a.Count >= 1 {
		a.Count = float64(p.GPUCount)
		if p.GPUMemory > 0 {
			a.MemoryGiB = float64(p.GPUMemory / p.GPUCount)
		}
	}
	return a
}

func (p plan) arch() string {
	if strings.Contains(p.ID, "-gh200-") {
		return "arm64"
	}
	return "amd64"
}

// A placement is the content of an offer's ID: what is rented, and where.
type placement struct {
	mode         Mode
	region, plan string
}

func (p placement) String() string { return string(p.mode) + "/" + p.region + "/" + p.plan }

func parsePlacement(offerID string) (placement, error) {
	parts := strings.Split(offerID, "/")
	if len(parts) != 3 || products[Mode(parts[0])].list == "" || parts[1] == "" || parts[2] == "" {
		return placement{}, fmt.Errorf("%w: %q is not the ID of a Vultr offer", driver.ErrInvalid, offerID)
	}
	return placement{Mode(parts[0]), parts[1], parts[2]}, nil
}
