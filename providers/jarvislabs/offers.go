package jarvislabs

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	maxGPUs     = 8
	billingUnit = time.Minute
	// storageUSD is an observed price of a disk, per GB and hour.
	storageUSD = 0.00014
)

// Offers yields kinds of GPU by region, with the number of GPUs that the spec asks for.
func (p *provider) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		found, err := p.find(ctx, spec)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, o := range found {
			if !yield(o, nil) {
				return
			}
		}
	}
}

func (p *provider) find(ctx context.Context, spec driver.Query) ([]driver.Offer, error) {
	if spec.DiskGiB > maxStorage {
		return nil, &driver.Error{Kind: driver.ErrNoOffers, Err: fmt.Errorf("no disk has %v GiB", spec.DiskGiB), Hint: "the maximum of Spec.DiskGiB is 2000"}
	}
	known, err := p.api.templates(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(known, p.cfg.Template) {
		return nil, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("no template %q", p.cfg.Template),
			Hint: "set Config.Template to one of " + strings.Join(known, ", ")}
	}
	groups, err := p.api.groups(ctx)
	if err != nil {
		return nil, err
	}
	var found []driver.Offer
	for _, r := range p.api.regions {
		if p.cfg.Region != "" && !r.is(p.cfg.Region) || len(spec.Regions) > 0 && !slices.ContainsFunc(spec.Regions, r.is) {
			continue
		}
		for _, spot := range p.markets(spec.Allocation, r) {
			found = append(found, p.offers(r, spot, groups, spec)...)
		}
	}
	return found, nil
}

// markets returns the markets that the allocation allows and the region has: true is spot.
func (p *provider) markets(a driver.Allocation, r region) (all []bool) {
	if a != driver.OnDemand && r.public != europe && p.cfg.Template != vmTemplate {
		all = append(all, true)
	}
	if a != driver.Spot {
		all = append(all, false)
	}
	return all
}

// offers returns the offers of one region and market. Each kind of GPU has several groups of
// servers, and a machine is in one of them, so the sum of their free GPUs means nothing.
func (p *provider) offers(r region, spot bool, groups []group, spec driver.Query) (found []driver.Offer) {
	for g, n := range sizes(groups, spec, r) {
		free := g.free(spot)
		if g.Region != r.internal || !p.takes(g) || free < n {
			continue
		}
		a := accelerator(g, n, spec.Accelerator)
		if !spec.Accelerator.Matches(a) {
			continue
		}
		o := driver.Offer{
			ID: placement{r.internal, g.GPU, n, spot}.String(), InstanceType: fmt.Sprintf("%dx %s", n, g.GPU), Region: r.name(), Accelerator: a,
			Arch: g.arch(), DiskGiB: float64(p.cfg.storage(spec, r)), Spot: spot, BillingUnit: billingUnit, Available: free / n,
			HourlyUSD: g.price(spot, n, p.cfg.storage(spec, r)),
		}
		cpus, _ := g.CPUs.number()
		ram, _ := g.RAM.number()
		o.VCPUs, o.MemoryGiB = cpus*float64(n), ram*float64(n)
		if i := slices.IndexFunc(found, func(f driver.Offer) bool { return f.ID == o.ID }); i >= 0 {
			found[i] = together(found[i], o)
			continue
		}
		found = append(found, o)
	}
	return found
}

// together returns the offer of two groups. The machine's group is unknown, so the offer
// promises the smaller amounts at the higher price.
func together(a, b driver.Offer) driver.Offer {
	a.Available += b.Available
	a.VCPUs, a.MemoryGiB = min(a.VCPUs, b.VCPUs), min(a.MemoryGiB, b.MemoryGiB)
	x, known := a.HourlyUSD.USD()
	y, too := b.HourlyUSD.USD()
	if !known || too && y > x {
		a.HourlyUSD = b.HourlyUSD
	}
	if !too {
		a.HourlyUSD = driver.Price{}
	}
	return a
}

// takes reports whether a group has the template's kind of node: a container or a machine. Null
// means both.
func (p *provider) takes(g group) bool {
	return g.Workload == "" || (g.Workload == "vm") == (p.cfg.Template == vmTemplate)
}

// sizes yields each group with the numbers of a node's GPUs: as many as the spec allows, and as
// its processors and memory come with. A spec without accelerator gets the smallest number.
// Europe has one or eight.
func sizes(groups []group, spec driver.Query, r region) iter.Seq2[group, int] {
	return func(yield func(group, int) bool) {
		for _, g := range groups {
			least := g.least(spec)
			counts := spec.Accelerator.Counts(maxGPUs)
			if spec.Accelerator.IsZero() {
				counts = (accelerators.Accelerator{Count: float64(least), MaxCount: accelerators.Unlimited}).Counts(maxGPUs)
			}
			for _, n := range counts {
				if n < least || r.public == europe && n != 1 && n != maxGPUs {
					continue
				}
				if !yield(g, n) {
					return
				}
				if spec.Accelerator.IsZero() {
					break
				}
			}
		}
	}
}

// least returns the number of GPUs that the spec's processors and memory come with.
func (g group) least(spec driver.Query) int {
	n := 1.0
	if cpus, ok := g.CPUs.number(); ok && cpus > 0 {
		n = max(n, math.Ceil(spec.VCPUs/cpus))
	}
	if ram, ok := g.RAM.number(); ok && ram > 0 {
		n = max(n, math.Ceil(spec.MemoryGiB/ram))
	}
	return int(min(n, maxGPUs+1))
}

// free returns the free GPUs of a market. On demand not all free ones count.
func (g group) free(spot bool) int {
	n, known := g.EffectiveFree.number()
	if spot || !known {
		n, _ = g.Free.number()
	}
	if spot && g.SpotPrice == "" {
		n = 0
	}
	return int(n)
}

// price returns the price of a node with its disk. In another currency than USD it is unknown.
func (g group) price(spot bool, gpus, storage int) driver.Price {
	w := g.Price
	if spot {
		w = g.SpotPrice
	}
	usd, known := w.number()
	if !known || usd <= 0 || g.foreign {
		return driver.Price{}
	}
	return driver.USD(usd*float64(gpus) + storageUSD*float64(storage))
}

func (g group) arch() string {
	if strings.HasPrefix(strings.ToLower(string(g.Arch)), "arm") || strings.HasPrefix(g.GPU, "GH200") {
		return "arm64"
	}
	return "amd64"
}

// accelerator returns a group's accelerator. It reports the memory only if no table has the
// name.
func accelerator(g group, n int, asked accelerators.Accelerator) accelerators.Accelerator {
	a := cloud.Accelerator(providerName, g.GPU, n, 0, asked)
	if gib, ok := g.VRAM.number(); ok && a.Exact {
		a.MemoryGiB = gib
	}
	return a
}

// A placement is the content of an offer's ID: "india-noida-01/L4/2/spot".
type placement struct {
	region, gpu string
	count       int
	spot        bool
}

func (p placement) String() string {
	market := "on-demand"
	if p.spot {
		market = "spot"
	}
	return fmt.Sprintf("%s/%s/%d/%s", p.region, p.gpu, p.count, market)
}

func parsePlacement(id string) (placement, error) {
	if f := strings.Split(id, "/"); len(f) == 4 {
		n, _ := strconv.Atoi(f[2])
		if p := (placement{f[0], f[1], n, f[3] == "spot"}); p.String() == id && n > 0 && p.region != "" && p.gpu != "" {
			return p, nil
		}
	}
	return placement{}, fmt.Errorf("%w: offer %q is not like india-noida-01/L4/1/on-demand", driver.ErrInvalid, id)
}
