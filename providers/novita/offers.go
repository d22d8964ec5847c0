package novita

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	gib      = 1 << 30
	perUSD   = 100_000 // what prices are told in
	maxGPUs  = 8
	onDemand = "onDemand"
	spot     = "spot"
	// diskUSDPerDay is what a GB over freeDiskGB costs.
	diskUSDPerDay = 0.005
)

// A place is what an offer's ID says: how a product is rented, how many GPUs of it, and in
// which cluster, where that matters.
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
	return place{}, &gputrain.Error{Kind: gputrain.ErrInvalid, Err: fmt.Errorf("%q is no offer of this provider", id),
		Hint: "an offer is launched as Offers has yielded it: its ID says how it is rented, how many GPUs, a cluster and a product"}
}

// diskGB is the size of a node's disk.
func (a *api) diskGB(spec gputrain.Spec) (int, error) {
	gb := a.cfg.RootFSSize
	if spec.DiskGiB > 0 {
		gb = int(math.Ceil(min(spec.DiskGiB, 1e6) * gib / 1e9))
	}
	if gb > maxDiskGB {
		return 0, &gputrain.Error{Kind: gputrain.ErrInvalid, Err: fmt.Errorf("a disk of %d GB; the most is %d", gb, maxDiskGB), Hint: "ask for less by Spec.DiskGiB"}
	}
	return max(gb, minDiskGB), nil
}

// Offers yields the products of which there are machines, on demand and on spot as the spec
// has it, of as many GPUs as it asks for.
func (a *api) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if !a.cfg.AllowPasswordAtFirstContact {
			yield(gputrain.Offer{}, errPassword)
			return
		}
		gpus := int(math.Ceil(max(spec.Accelerator.Count, 1)))
		disk, err := a.diskGB(spec)
		if err == nil && gpus > maxGPUs {
			return
		}
		var clusters []string
		if err == nil {
			clusters, err = a.clusters(ctx, spec.Regions)
		}
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		for _, cluster := range clusters {
			products, err := a.client.products(ctx, cluster, gpus, disk)
			if err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			for _, p := range products {
				for _, mode := range modes(spec.Allocation) {
					if p.has(mode, disk) && !yield(a.offer(place{mode, gpus, cluster, p.ID}, p, disk, spec.Accelerator), nil) {
						return
					}
				}
			}
		}
	}
}

// clusters are those to ask about, by their IDs: "" stands for any. What products say of
// their regions are names for people, which no call takes.
func (a *api) clusters(ctx context.Context, regions []string) ([]string, error) {
	within := func(id string) bool {
		return len(regions) == 0 || slices.ContainsFunc(regions, func(r string) bool { return id == r || strings.HasPrefix(id, r+"-") })
	}
	switch {
	case a.cfg.ClusterID != "" && within(a.cfg.ClusterID), len(regions) == 0:
		return []string{a.cfg.ClusterID}, nil
	case a.cfg.ClusterID != "":
		return nil, nil
	}
	all, err := a.client.clusters(ctx)
	var ids []string
	for _, c := range all {
		if c.ID != "" && within(c.ID) {
			ids = append(ids, c.ID)
		}
	}
	return ids, err
}

// modes are the ways to rent that an allocation can mean.
func modes(a gputrain.Allocation) []string {
	switch a {
	case gputrain.OnDemand:
		return []string{onDemand}
	case gputrain.Spot:
		return []string{spot}
	}
	return []string{onDemand, spot}
}

// has is whether a product can be rented so now, with a disk of that size.
func (p product) has(mode string, diskGB int) bool {
	if p.ID == "" || !p.AvailableDeploy || p.CanBuy != nil && !*p.CanBuy || p.InventoryState == "none" || p.MaxRootFS > 0 && diskGB > p.MaxRootFS {
		return false
	}
	if mode == spot {
		return p.SpotPrice > 0 && slices.Contains(p.BillingMethods, spot)
	}
	return len(p.BillingMethods) == 0 || slices.Contains(p.BillingMethods, onDemand)
}

func (a *api) offer(at place, p product, diskGB int, asked accelerators.Accelerator) gputrain.Offer {
	n := float64(at.gpus)
	o := gputrain.Offer{
		ID: at.String(), InstanceType: p.Name, Region: at.cluster, Spot: at.mode == spot,
		Accelerator: cloud.Accelerator(providerName, p.Name, at.gpus, 0, asked), VCPUs: p.CPUPerGPU * n, MemoryGiB: p.MemoryPerGPU * n, DiskGiB: float64(diskGB) * 1e9 / gib,
	}
	price := p.Price
	if o.Spot {
		price = p.SpotPrice
	}
	if price > 0 {
		o.HourlyUSD = gputrain.USD(float64(price)*n/perUSD + float64(max(diskGB-freeDiskGB, 0))*diskUSDPerDay/24)
	}
	return o
}
