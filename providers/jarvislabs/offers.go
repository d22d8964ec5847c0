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
	"github.com/gputrain/gputrain/providers/internal/currency"
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
	groups, code, err := p.groups(ctx)
	if err != nil {
		return nil, err
	}
	paid := money(code)
	var found []driver.Offer
	for _, r := range p.places(groups) {
		name := r.name()
		if !spec.Allows(name, r.country()) {
			name = r.internal // the pool compares the same name
		}
		if !spec.Allows(name, r.country()) {
			continue
		}
		for _, spot := range p.markets(spec.Allocation, r) {
			for _, o := range p.offers(r, spot, groups, paid, spec) {
				o.Region = name
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// A payment converts prices to US dollars. A zero rate is unknown.
type payment struct {
	rate     float64
	warnings []string
}

// money returns the payment in a currency.
func money(code string) payment {
	rate, err := currency.Of(code, 0)
	switch {
	case err != nil:
		return payment{warnings: []string{fmt.Sprintf("its price is in %s: %v", code, err)}}
	case code == "USD":
		return payment{rate: 1}
	}
	return payment{rate: rate.USD, warnings: []string{rate.Warning()}}
}

// places returns the known regions, and those that only the API names.
func (p *provider) places(groups []group) []region {
	all := slices.Clone(p.api.regions)
	for _, g := range groups {
		if !slices.ContainsFunc(all, func(r region) bool { return r.internal == g.Region }) {
			all = append(all, region{internal: g.Region})
		}
	}
	return all
}

// reject returns why a group has no machine of n GPUs for this Config, or "".
func (p *provider) reject(r region, g group, n, free int) string {
	switch {
	case r.host == "":
		return "is in a region that gputrain does not know; Config.RegionEndpoints adds its address"
	case p.cfg.Region != "" && !r.is(p.cfg.Region):
		return fmt.Sprintf("is in %s; Config.Region is %s", r.name(), p.cfg.Region)
	case !p.takes(g) && p.cfg.Template == vmTemplate:
		return "has containers only; Config.Template is vm"
	case !p.takes(g):
		return fmt.Sprintf("has virtual machines only; Config.Template is %s", p.cfg.Template)
	case r.public == europe && n != 1 && n != maxGPUs:
		return fmt.Sprintf("%s has machines with one GPU or %d", europe, maxGPUs)
	case free <= 0:
		return "is sold out"
	case free < n:
		return fmt.Sprintf("has %d GPUs free; a machine takes %d", free, n)
	}
	return ""
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
// servers, and a machine is in one of them, so the sum of their free GPUs means nothing. A kind
// of GPU of which nothing can be had is rejected once, with the smallest number.
func (p *provider) offers(r region, spot bool, groups []group, paid payment, spec driver.Query) (found []driver.Offer) {
	kinds, sold := map[string]bool{}, map[string]bool{}
	for g, n := range sizes(groups, spec) {
		free := g.free(spot)
		a := accelerator(g, n, spec.Accelerator)
		if g.Region != r.internal || spot && g.SpotPrice == "" || !spec.Accelerator.Matches(a) {
			continue
		}
		o := driver.Offer{
			ID: placement{r.internal, g.GPU, n, spot}.String(), InstanceType: fmt.Sprintf("%dx %s", n, g.GPU), Region: r.name(), Country: r.country(), Accelerator: a,
			Arch: g.arch(), DiskGiB: float64(p.cfg.storage(spec, r)), Spot: spot, BillingUnit: billingUnit,
			Rejected: p.reject(r, g, n, free), Warnings: paid.warnings,
		}
		if o.Rejected == "" {
			o.Available = free / n
		}
		o = g.priced(o, paid, n, p.cfg.storage(spec, r))
		cpus, _ := g.CPUs.number()
		ram, _ := g.RAM.number()
		o.VCPUs, o.MemoryGiB = cpus*float64(n), ram*float64(n)
		known := kinds[g.GPU]
		kinds[g.GPU], sold[g.GPU] = true, sold[g.GPU] || o.Rejected == ""
		switch i := slices.IndexFunc(found, func(f driver.Offer) bool { return f.ID == o.ID }); {
		case i >= 0:
			found[i] = together(found[i], o)
		case o.Rejected == "" || !known:
			found = append(found, o)
		}
	}
	return slices.DeleteFunc(found, func(o driver.Offer) bool {
		at, err := parsePlacement(o.ID)
		return err == nil && o.Rejected != "" && sold[at.gpu]
	})
}

// together returns the offer of two groups. The machine's group is unknown, so the offer
// promises the smaller amounts at the higher price. A group that is rejected adds nothing to
// one that is not.
func together(a, b driver.Offer) driver.Offer {
	switch {
	case b.Rejected != "":
		return a
	case a.Rejected != "":
		return b
	}
	a.Available += b.Available
	a.VCPUs, a.MemoryGiB = min(a.VCPUs, b.VCPUs), min(a.MemoryGiB, b.MemoryGiB)
	x, known := a.HourlyUSD.USD()
	y, too := b.HourlyUSD.USD()
	if known && (!too || y > x) {
		a.HourlyUSD, a.Parts = b.HourlyUSD, b.Parts
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
func sizes(groups []group, spec driver.Query) iter.Seq2[group, int] {
	return func(yield func(group, int) bool) {
		for _, g := range groups {
			least := g.least(spec)
			counts := spec.Accelerator.Counts(maxGPUs)
			if spec.Accelerator.IsZero() {
				counts = (accelerators.Accelerator{Count: float64(least), MaxCount: accelerators.Unlimited}).Counts(maxGPUs)
			}
			for _, n := range counts {
				if n < least {
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
	return int(n)
}

// priced returns an offer of a group at the price of its GPUs and its disk. The API's price is of one GPU.
func (g group) priced(o driver.Offer, paid payment, gpus, storage int) driver.Offer {
	w := g.Price
	if o.Spot {
		w = g.SpotPrice
	}
	each, known := w.number()
	if !known || each <= 0 || paid.rate == 0 {
		return o
	}
	return cloud.Priced(o, driver.PricePart{Name: "machine", HourlyUSD: each * paid.rate * float64(gpus)}, driver.PricePart{Name: "disk", HourlyUSD: storageUSD * float64(storage)})
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
