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

// Offers yields the plans that are sold, region by region. Those that are not in stock, or that Config
// excludes, have the reason.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if spec.Allocation == driver.Spot {
			return // no call rents those
		}
		countries, err := a.countries(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		start := a.bakery().Offering(ctx, spec.Baked, base(a.cfg))
		sold := map[string][]plan{}
		for p, err := range a.client.plans(ctx, a.cfg.Mode) {
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, region := range p.regions(spec) {
				if spec.Allows(region, countries[region]) {
					sold[region] = append(sold[region], p)
				}
			}
		}
		for _, region := range slices.Sorted(maps.Keys(sold)) {
			reject, err := a.reject(ctx, region, spec, sold[region])
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, p := range sold[region] {
				o := p.offer(a.cfg.Mode, region, spec)
				o.Country, o.Rejected = countries[region], reject(p)
				if !yield(start(o), nil) {
					return
				}
			}
		}
	}
}

// reject returns a func that returns why a plan cannot be rented in a region, or "". It asks for the region's stock only if
// that decides it: a region that sells a plan may have none left.
func (a *api) reject(ctx context.Context, region string, spec driver.Query, plans []plan) (func(plan) string, error) {
	if why := a.elsewhere(region, spec); why != "" {
		return func(plan) string { return why }, nil
	}
	if !slices.ContainsFunc(plans, func(p plan) bool { return p.unrentable() == "" }) {
		return plan.unrentable, nil
	}
	stock, err := a.client.available(ctx, region)
	if err != nil {
		return nil, err
	}
	return func(p plan) string {
		why := p.unrentable()
		if why == "" && !slices.Contains(stock, p.ID) {
			why = "is sold out"
		}
		return why
	}, nil
}

// elsewhere returns why Config excludes a region, or "".
func (a *api) elsewhere(region string, spec driver.Query) string {
	switch {
	case a.cfg.Region == Anywhere || a.cfg.Region == region:
		return ""
	case a.cfg.Region != "":
		return fmt.Sprintf("is in %s; Config.Region is %s", region, a.cfg.Region)
	case len(spec.Regions) == 0 && len(spec.Countries) == 0 && region != DefaultRegion:
		return fmt.Sprintf("is in %s; Config.Region and the spec name no region, which means %s: vultr.Anywhere takes all", region, DefaultRegion)
	}
	return ""
}

// countries returns the countries of all regions. It asks once.
func (a *api) countries(ctx context.Context) (map[string]string, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.countryOf != nil {
		return a.countryOf, nil
	}
	all := map[string]string{}
	for r, err := range a.client.regions(ctx) {
		if err != nil {
			return nil, err
		}
		if country := strings.ToUpper(r.Country); len(country) == 2 {
			all[r.ID] = country
		}
	}
	a.countryOf = all
	return all, nil
}

// regions returns the regions that sell a plan, if it may match the spec.
func (p plan) regions(spec driver.Query) []string {
	if !spec.Accelerator.IsZero() && !spec.Accelerator.Matches(p.accelerator(spec.Accelerator)) {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.Locations), func(region string) bool { return region == "" })
}

// unrentable returns why a plan cannot be rented anywhere, or "". Plans that are only rented as preemptible have a price,
// and often no region.
func (p plan) unrentable() string {
	switch {
	case p.OnDemand != nil && !*p.OnDemand:
		return "is only rented as preemptible, which gputrain cannot ask for"
	case strings.HasSuffix(p.ID, "-v6"):
		return "has no IPv4 address"
	}
	return ""
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
