package hyperstack

import (
	"context"
	"iter"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const spotSuffix = "-spot"

// The pricebook's names of what a machine has beside GPUs, in lower case. A machine without GPUs
// is billed by its vCPUs and memory.
const (
	vcpuPrice    = "vcpu (cpu-only-flavors)"
	ramPrice     = "ram (cpu-only-flavors)" // a GB
	diskPrice    = "cloud-ssd"              // a GB
	addressPrice = "publicip"
)

// Offers yields the flavours region by region, those that cannot be rented with the reason.
// Flavours without GPU are yielded only if the spec asks for none.
func (p *provider) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		m, err := p.market(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		start := p.bakery().Offering(ctx, spec.Baked, base(p.cfg))
		for _, region := range p.regionsToList() {
			flavors, err := p.api.flavors(ctx, region)
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, f := range flavors {
				if o, ok := p.offer(f, m, spec); ok && !yield(start(o), nil) {
					return
				}
			}
		}
	}
}

// regionsToList returns the regions to list: "" means all of them.
func (p *provider) regionsToList() []string {
	switch {
	case len(p.cfg.Regions) > 0:
		return p.cfg.Regions
	case p.cfg.NetworkOptimised:
		return p.cfg.NetworkOptimisedRegions
	}
	return []string{""}
}

// A market holds the facts that apply to all regions.
type market struct {
	prices map[string]number // by the names of GPUs and other things, in lower case
	stocks []stock
}

func (p *provider) market(ctx context.Context) (market, error) {
	prices, err := p.api.prices(ctx)
	if err != nil {
		return market{}, err
	}
	m := market{prices: map[string]number{}}
	for _, price := range prices {
		m.prices[strings.ToLower(price.Name)] = price.Value
	}
	m.stocks, err = p.api.stocks(ctx)
	return m, err
}

// stock returns the stock of a flavour, and whether the API reports it.
func (m market) stock(f flavor) (n int, known bool) {
	for _, s := range m.stocks {
		if !strings.EqualFold(s.Region, f.Region) {
			continue
		}
		for _, model := range s.Models {
			if v := model.Configurations[strconv.Itoa(f.GPUCount)+"x"]; strings.EqualFold(model.Model, f.GPU) && v.known {
				return int(v.value), true
			}
		}
	}
	return 0, false
}

func (p *provider) offer(f flavor, m market, spec driver.Query) (driver.Offer, bool) {
	o := driver.Offer{
		ID: f.Region + "/" + f.Name, InstanceType: f.Name, Region: f.Region, Country: countryOf(f.Region), Accelerator: cloud.Accelerator(providerName, f.GPU, f.GPUCount, 0, spec.Accelerator), Arch: "amd64",
		VCPUs: f.CPU, MemoryGiB: f.RAM, DiskGiB: f.Disk, Spot: f.isSpot(), BillingUnit: billingUnit, Billing: billing,
	}
	if strings.HasPrefix(f.GPU, "GH200") {
		o.Arch = "arm64"
	}
	left, known := m.stock(f)
	switch {
	case f.Region == "" || !spec.Allows(f.Region, o.Country):
		return o, false
	case spec.Accelerator.IsZero() != (f.GPU == ""), !spec.Accelerator.Matches(o.Accelerator):
		return o, false
	case o.Spot && spec.Allocation == driver.OnDemand, !o.Spot && spec.Allocation == driver.Spot:
		return o, false
	case f.InStock != nil && !*f.InStock, known && left <= 0:
		o.Rejected = "is sold out"
	case p.cfg.NetworkOptimised && f.Optimised.Network != nil && !*f.Optimised.Network:
		o.Rejected = "has no optimised network; Config.NetworkOptimised asks for it"
	}
	o.Available = max(left, 0)
	m.price(&o, f)
	return o, true
}

// price sets the price of an offer, which is that of the machine, its root disk and its address.
func (m market) price(o *driver.Offer, f flavor) {
	machine, known := m.machine(f, o.Spot)
	if !known {
		return
	}
	parts := []driver.PricePart{{Name: "machine", HourlyUSD: machine}}
	for _, p := range []struct {
		name, entry string
		n           float64
	}{{"disk", diskPrice, f.Disk}, {"address", addressPrice, 1}} {
		v := m.prices[p.entry]
		if !v.known {
			o.Warnings = append(o.Warnings, "its price is without its "+p.name+", of which the pricebook has no price")
			continue
		}
		if v.value > 0 {
			parts = append(parts, driver.PricePart{Name: p.name, HourlyUSD: v.value * p.n})
		}
	}
	sum := 0.0
	for _, p := range parts {
		sum += p.HourlyUSD
	}
	o.HourlyUSD = driver.USD(sum)
	if len(parts) > 1 {
		o.Parts = parts
	}
}

// machine returns the price of a flavour without disk and address, if it is known.
func (m market) machine(f flavor, spot bool) (usd float64, known bool) {
	if f.GPU == "" {
		cpu, ram := m.prices[vcpuPrice], m.prices[ramPrice]
		usd = cpu.value*f.CPU + ram.value*f.RAM
		return usd, cpu.known && ram.known && usd > 0
	}
	name := strings.ToLower(strings.TrimSuffix(f.GPU, spotSuffix))
	if spot {
		name += spotSuffix
	}
	v := m.prices[name]
	return v.value * float64(f.GPUCount), v.known && v.value > 0
}

// countries are the countries of regions, by the names before their numbers.
var countries = map[string]string{"CANADA": "CA", "NORWAY": "NO", "US": "US"}

// countryOf returns the country of a region, or "" for one that is newer than this package.
func countryOf(region string) string {
	name, _, _ := strings.Cut(strings.ToUpper(region), "-")
	return countries[name]
}

// isSpot reports whether a flavour is a spot one, which only its name or its GPU's name shows.
func (f flavor) isSpot() bool {
	return strings.HasSuffix(f.Name, spotSuffix) || strings.HasSuffix(f.GPU, spotSuffix)
}
