package novita

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	gib      = 1 << 30
	perUSD   = 100_000 // the unit of prices
	maxGPUs  = 8
	onDemand = "onDemand"
	spot     = "spot"
	// diskUSDPerDay is the price of a GB over freeDiskGB.
	diskUSDPerDay = 0.005
)

// A place is the content of an offer's ID: the market of a product, the number of GPUs, and the
// cluster, if it matters.
type place struct {
	mode    string
	gpus    int
	cluster string
	product string
}

func (p place) String() string {
	return fmt.Sprintf("%s/%d/%s/%s", p.mode, p.gpus, p.cluster, p.product)
}

func readPlace(id string) (place, error) {
	parts := strings.SplitN(id, "/", 4)
	if len(parts) == 4 && (parts[0] == onDemand || parts[0] == spot) && parts[3] != "" {
		if n, err := strconv.Atoi(parts[1]); err == nil && n >= 1 && n <= maxGPUs {
			return place{parts[0], n, parts[2], parts[3]}, nil
		}
	}
	return place{}, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("%q is not an offer of this provider", id),
		Hint: "launch an offer as Offers yielded it: its ID is a market, a number of GPUs, a cluster and a product"}
}

// diskGB returns the size of a node's disk.
func (a *api) diskGB(spec driver.Query) (int, error) {
	gb := a.cfg.RootFSSize
	if spec.DiskGiB > 0 {
		gb = int(math.Ceil(min(spec.DiskGiB, 1e6) * gib / 1e9))
	}
	if gb > maxDiskGB {
		return 0, &driver.Error{Kind: driver.ErrInvalid, Err: fmt.Errorf("a disk of %d GB; the maximum is %d", gb, maxDiskGB), Hint: "ask for less by Spec.DiskGiB"}
	}
	return max(gb, minDiskGB), nil
}

// Offers yields the products, on demand and on spot as the spec wants, with each number of GPUs
// that it allows. Those that cannot be rented now have the reason.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if !a.cfg.AllowPasswordAtFirstContact {
			yield(driver.Offer{}, errPassword)
			return
		}
		disk, err := a.diskGB(spec)
		var clusters []string
		if err == nil {
			clusters, err = a.clusters(ctx, spec)
		}
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		anywhere := map[place]bool{} // these are in an allowed country, whatever the cluster
		for _, cluster := range clusters {
			for _, gpus := range spec.Accelerator.Counts(maxGPUs) {
				products, err := a.client.products(ctx, cluster, gpus, disk)
				if err != nil {
					yield(driver.Offer{}, err)
					return
				}
				for _, p := range products {
					for _, mode := range p.modes(spec.Allocation) {
						at := place{mode: mode, gpus: gpus, product: p.ID}
						if cluster == "" && !spec.Allows("", p.country()) || anywhere[at] {
							continue
						}
						anywhere[at] = cluster == ""
						at.cluster = cluster
						if p.ID != "" && !yield(a.offer(at, p, disk, spec.Accelerator), nil) {
							return
						}
					}
				}
			}
		}
	}
}

// clusters returns the IDs of the clusters to ask about: "" means any. Products report their
// regions only as names for people, which no call accepts. So a query for regions or countries asks
// about any cluster first, for products that are in one country, and then about each that it allows.
func (a *api) clusters(ctx context.Context, spec driver.Query) ([]string, error) {
	switch {
	case a.cfg.ClusterID != "" && clusterAllowed(spec, a.cfg.ClusterID):
		return []string{a.cfg.ClusterID}, nil
	case a.cfg.ClusterID != "":
		return nil, nil
	case len(spec.Regions) == 0 && len(spec.Countries) == 0:
		return []string{""}, nil
	}
	all, err := a.client.clusters(ctx)
	ids := []string{""}
	for _, c := range all {
		if c.ID != "" && clusterAllowed(spec, c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids, err
}

// modes returns the ways to rent a product that an allocation allows. It leaves spot out if the
// product has none, unless the allocation is spot alone.
func (p product) modes(a driver.Allocation) []string {
	switch {
	case a == driver.Spot:
		return []string{spot}
	case a == driver.OnDemand || !p.hasSpot():
		return []string{onDemand}
	}
	return []string{onDemand, spot}
}

func (p product) hasSpot() bool { return p.SpotPrice > 0 && slices.Contains(p.BillingMethods, spot) }

// reject returns why a product cannot be rented now in that mode, with a disk of that size, or "".
func (p product) reject(mode string, diskGB int) string {
	switch {
	case mode == spot && !p.hasSpot():
		return "has no spot"
	case mode == onDemand && len(p.BillingMethods) > 0 && !slices.Contains(p.BillingMethods, onDemand):
		return "is not rented on demand, but " + strings.Join(p.BillingMethods, " or ")
	case !p.AvailableDeploy, p.CanBuy != nil && !*p.CanBuy, p.InventoryState == "none":
		return "is sold out"
	case p.MaxRootFS > 0 && diskGB > p.MaxRootFS:
		return fmt.Sprintf("has a disk of at most %d GB; %d are asked for", p.MaxRootFS, diskGB)
	}
	return ""
}

func (a *api) offer(at place, p product, diskGB int, asked accelerators.Accelerator) driver.Offer {
	n := float64(at.gpus)
	o := driver.Offer{
		ID: at.String(), InstanceType: p.Name, Region: at.cluster, Country: cmp.Or(countryOf(at.cluster), p.country()), Spot: at.mode == spot,
		Accelerator: cloud.Accelerator(providerName, p.Name, at.gpus, 0, asked), VCPUs: p.CPUPerGPU * n, MemoryGiB: p.MemoryPerGPU * n, DiskGiB: float64(diskGB) * 1e9 / gib,
		Rejected: p.reject(at.mode, diskGB), Billing: billing,
	}
	price := p.Price
	if o.Spot {
		price = p.SpotPrice
	}
	if price > 0 {
		return cloud.Priced(o, driver.PricePart{Name: "machine", HourlyUSD: float64(price) * n / perUSD},
			driver.PricePart{Name: "disk", HourlyUSD: float64(max(diskGB-freeDiskGB, 0)) * diskUSDPerDay / 24})
	}
	return o
}
