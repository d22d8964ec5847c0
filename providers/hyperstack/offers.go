package hyperstack

import (
	"context"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const spotSuffix = "-spot"

// Offers yields the flavours that are in stock, region by region: those without GPU where
// the spec asks for none.
func (p *provider) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		m, err := p.market(ctx)
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		for _, region := range p.asked() {
			flavors, err := p.api.flavors(ctx, region)
			if err != nil {
				yield(gputrain.Offer{}, err)
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

// asked returns the regions to ask for: "" stands for all of them.
func (p *provider) asked() []string {
	switch {
	case len(p.cfg.Regions) > 0:
		return p.cfg.Regions
	case p.cfg.NetworkOptimised:
		return p.cfg.NetworkOptimisedRegions
	}
	return []string{""}
}

// A market is what counts for all regions.
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

// left is how many machines of a flavour can be had, and whether that is told.
func (m market) left(f flavor) (n int, told bool) {
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

func (p *provider) offer(f flavor, m market, spec gputrain.Spec) (gputrain.Offer, bool) {
	o := gputrain.Offer{
		ID: f.Region + "/" + f.Name, InstanceType: f.Name, Region: f.Region, Accelerator: cloud.Accelerator(providerName, f.GPU, f.GPUCount, 0, spec.Accelerator), Arch: "amd64",
		VCPUs: f.CPU, MemoryGiB: f.RAM, DiskGiB: f.Disk, Spot: f.isSpot(), BillingUnit: billingUnit,
	}
	if strings.HasPrefix(f.GPU, "GH200") {
		o.Arch = "arm64"
	}
	left, told := m.left(f)
	switch {
	case len(spec.Regions) > 0 && !slices.Contains(upper(spec.Regions), strings.ToUpper(f.Region)):
		return o, false
	case f.Region == "", f.InStock != nil && !*f.InStock, told && left <= 0:
		return o, false
	case spec.Accelerator.IsZero() != (f.GPU == ""), !spec.Accelerator.Matches(o.Accelerator):
		return o, false
	case o.Spot && spec.Allocation == gputrain.OnDemand, !o.Spot && spec.Allocation == gputrain.Spot:
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
		o.HourlyUSD = gputrain.USD(v.value * float64(f.GPUCount))
	}
	return o, true
}

// isSpot is whether a flavour is a spot one, which is in its name alone, or in its GPU's.
func (f flavor) isSpot() bool {
	return strings.HasSuffix(f.Name, spotSuffix) || strings.HasSuffix(f.GPU, spotSuffix)
}
