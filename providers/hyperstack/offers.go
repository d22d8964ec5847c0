package hyperstack

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const spotSuffix = "-spot"

// Offers yields the flavours in stock, region by region. Flavours without GPU are yielded only
// if the spec asks for none.
func (p *provider) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		m, err := p.market(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, region := range p.regionsToList() {
			flavors, err := p.api.flavors(ctx, region)
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, f := range flavors {
				if o, ok := p.offer(f, m, spec); ok && !yield(o, nil) {
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
	prices map[string]number // by the name of the GPU
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
		ID: f.Region + "/" + f.Name, InstanceType: f.Name, Region: f.Region, Accelerator: cloud.Accelerator(providerName, f.GPU, f.GPUCount, 0, spec.Accelerator), Arch: "amd64",
		VCPUs: f.CPU, MemoryGiB: f.RAM, DiskGiB: f.Disk, Spot: f.isSpot(), BillingUnit: billingUnit,
	}
	if strings.HasPrefix(f.GPU, "GH200") {
		o.Arch = "arm64"
	}
	left, known := m.stock(f)
	switch {
	case len(spec.Regions) > 0 && !slices.Contains(upper(spec.Regions), strings.ToUpper(f.Region)):
		return o, false
	case f.Region == "", f.InStock != nil && !*f.InStock, known && left <= 0:
		return o, false
	case spec.Accelerator.IsZero() != (f.GPU == ""), !spec.Accelerator.Matches(o.Accelerator):
		return o, false
	case o.Spot && spec.Allocation == driver.OnDemand, !o.Spot && spec.Allocation == driver.Spot:
		return o, false
	case p.cfg.NetworkOptimised && f.Optimised.Network != nil && !*f.Optimised.Network:
		return o, false
	}
	o.Available = left
	name := strings.ToLower(strings.TrimSuffix(f.GPU, spotSuffix))
	if o.Spot {
		name += spotSuffix
	}
	if v := m.prices[name]; name != "" && v.known && v.value > 0 {
		o.HourlyUSD = driver.USD(v.value * float64(f.GPUCount))
	}
	return o, true
}

// isSpot reports whether a flavour is a spot one, which only its name or its GPU's name shows.
func (f flavor) isSpot() bool {
	return strings.HasSuffix(f.Name, spotSuffix) || strings.HasSuffix(f.GPU, spotSuffix)
}
