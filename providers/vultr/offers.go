package vultr

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// maxHours is for how many hours of a month a machine is charged at most.
const maxHours = 672

// Offers yields the plans that are in stock, region by region.
func (a *api) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if spec.Allocation == gputrain.Spot {
			return // there is no call that asks for it
		}
		sold := map[string][]plan{}
		for p, err := range a.client.plans(ctx, a.cfg.Mode) {
			if err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			for _, region := range p.regions(spec) {
				sold[region] = append(sold[region], p)
			}
		}
		for _, region := range a.regions(spec, slices.Sorted(maps.Keys(sold))) {
			// Where a plan is sold is no sign that there is one left.
			stock, err := a.client.available(ctx, region)
			if err != nil {
				yield(gputrain.Offer{}, err)
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

// regions returns those where nodes may be, of those where something is sold.
func (a *api) regions(spec gputrain.Spec, sold []string) []string {
	wanted := spec.Regions
	switch {
	case a.cfg.Region == Anywhere:
		return sold // the pool goes by Spec.Regions itself
	case a.cfg.Region != "":
		wanted = []string{a.cfg.Region}
	case len(wanted) == 0:
		wanted = []string{DefaultRegion}
	}
	return slices.DeleteFunc(sold, func(region string) bool {
		return !slices.ContainsFunc(wanted, func(w string) bool { return strings.EqualFold(w, region) })
	})
}

// regions returns where a plan is sold on demand, if it can be what the spec asks for. Plans
// that are rented as preemptible only have a price, and often no region.
func (p plan) regions(spec gputrain.Spec) []string {
	wrong := p.OnDemand != nil && !*p.OnDemand || strings.HasSuffix(p.ID, "-v6") // without an IPv4 address
	if wrong || !spec.Accelerator.IsZero() && !spec.Accelerator.Matches(p.accelerator(spec.Accelerator)) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Locations), func(region string) bool { return region == "" })
}

func (p plan) offer(mode Mode, region string, spec gputrain.Spec) gputrain.Offer {
	const gib = 1 << 30
	return gputrain.Offer{
		ID: placement{mode, region, p.ID}.String(), InstanceType: p.ID, Region: region,
		Accelerator: p.accelerator(spec.Accelerator), Arch: p.arch(),
		VCPUs: float64(max(p.VCPUs, p.CPUThreads, p.CPUs)), MemoryGiB: float64(p.RAM) / 1024, DiskGiB: float64(p.Disk) * 1e9 / gib,
		HourlyUSD: p.price(region), BillingUnit: time.Hour,
	}
}

// price is what a plan costs in a region.
func (p plan) price(region string) gputrain.Price {
	c := p.cost
	if own := p.LocationCost[region]; own.Hourly > 0 || own.Monthly > 0 {
		c = own
	}
	switch {
	case c.Hourly > 0:
		return gputrain.USD(float64(c.Hourly))
	case c.Monthly > 0:
		return gputrain.USD(float64(c.Monthly) / maxHours)
	}
	return gputrain.Price{}
}

// accelerator is what a plan has. Its ID tells more than its fields, which some plans
// lack, and of shares of a GPU it alone tells the size. wanted may be one that
// only Vultr has a name for.
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

// counted is an accelerator with what a plan's fields say of whole GPUs.
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

// A placement is what an offer's ID says: what is rented, and where.
type placement struct {
	mode         Mode
	region, plan string
}

func (p placement) String() string { return string(p.mode) + "/" + p.region + "/" + p.plan }

func parsePlacement(offerID string) (placement, error) {
	parts := strings.Split(offerID, "/")
	if len(parts) != 3 || products[Mode(parts[0])].list == "" || parts[1] == "" || parts[2] == "" {
		return placement{}, fmt.Errorf("%w: %q is not the ID of an offer of Vultr's", gputrain.ErrInvalid, offerID)
	}
	return placement{Mode(parts[0]), parts[1], parts[2]}, nil
}
