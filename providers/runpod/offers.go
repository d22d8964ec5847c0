package runpod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/bits"
	"slices"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// unusable are countries that GraphQL lists and does not take.
var unusable = []string{"AR"}

// Offers yields types of GPU, or for a spec without accelerator flavours of CPU, by
// cloud and region. RunPod has stock levels, no numbers.
func (d *driver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if err := d.possible(spec); err != nil {
			yield(gputrain.Offer{}, fail("offers", err))
			return
		}
		for _, cloud := range d.cfg.clouds() {
			if d.cfg.Cloud == AllClouds && cloud == Community && len(spec.Mounts) > 0 {
				continue // network volumes are in RunPod's own data centres
			}
			regions, err := d.regions(ctx, spec, cloud)
			if err != nil {
				yield(gputrain.Offer{}, fail("offers", err))
				return
			}
			offers := d.gpuOffers(ctx, spec, cloud, regions)
			if spec.Accelerator.IsZero() {
				offers = d.cpuOffers(ctx, spec, cloud, regions)
			}
			for offer, err := range offers {
				if err != nil {
					yield(gputrain.Offer{}, fail("offers", err))
					return
				}
				if !yield(offer, nil) {
					return
				}
			}
		}
	}
}

// possible refuses a spec that Config leaves nothing for.
func (d *driver) possible(spec gputrain.Spec) error {
	cpu := spec.Accelerator.IsZero()
	refuse := func(why string) error {
		return &gputrain.Error{Kind: gputrain.ErrNoOffers, Err: errors.New(why)}
	}
	switch {
	case d.cfg.ClusterMode == Instant && (cpu || max(spec.Nodes, spec.MaxNodes) < 2):
		return refuse("an instant cluster has GPUs and two nodes at least; set Spec.Accelerator and Nodes, or leave ClusterMode out")
	case d.cfg.ClusterMode == Instant && spec.Allocation == gputrain.Spot:
		return refuse("instant clusters are rented on demand; set another Allocation, or leave ClusterMode out")
	case d.cfg.GlobalNetworking == NetworkingOn && spec.Allocation == gputrain.Spot:
		return refuse("spot pods have no global networking; set another Allocation, or leave GlobalNetworking out")
	case cpu && spec.Allocation == gputrain.Spot:
		return refuse("pods without GPU are rented on demand; set Spec.Accelerator, or another Allocation")
	case cpu && (d.cfg.Cloud == Community || d.cfg.restricted() || d.cfg.GlobalNetworking == NetworkingOn):
		return refuse("pods without GPU are in the secure cloud, and know no countries, line speeds or global networking; set Spec.Accelerator, or leave those out")
	}
	return nil
}

// regions returns where pods may be: data centres, countries, or anywhere. What Config
// leaves open Spec.Regions may say: of the secure cloud by data centres ("US-TX-3") and the
// beginnings of their names ("US"), of the community cloud by countries.
func (d *driver) regions(ctx context.Context, spec gputrain.Spec, cloud Cloud) ([]string, error) {
	volume, err := d.volume(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case volume != nil && d.cfg.byCountry():
		return nil, fmt.Errorf("%w: the network volume %s is in %s; leave countries out", gputrain.ErrInvalid, volume.ID, volume.DataCenter)
	case volume != nil && len(d.cfg.DataCenterIDs) > 0 && !slices.Contains(d.cfg.DataCenterIDs, volume.DataCenter):
		return nil, fmt.Errorf("%w: the network volume %s is in %s, which DataCenterIDs does not have", gputrain.ErrInvalid, volume.ID, volume.DataCenter)
	case volume != nil:
		return []string{volume.DataCenter}, nil
	case len(d.cfg.DataCenterIDs) > 0:
		return unique(d.cfg.DataCenterIDs), nil
	case !d.cfg.byCountry() && len(spec.Regions) > 0 && cloud == Community:
		return unique(slices.DeleteFunc(upper(spec.Regions), func(code string) bool { return !countryForm.MatchString(code) })), nil
	case !d.cfg.byCountry() && len(spec.Regions) > 0:
		return d.centersIn(ctx, upper(spec.Regions))
	case !d.cfg.byCountry():
		return []string{anywhere}, nil
	}
	countries := d.cfg.CountryCodes
	if len(countries) == 0 {
		if countries, err = d.client.countries(ctx); err != nil {
			return nil, err
		}
	}
	countries = slices.DeleteFunc(slices.Clone(countries), func(code string) bool {
		return !countryForm.MatchString(code) || slices.Contains(unusable, code) || slices.Contains(d.cfg.ExcludeCountryCodes, code)
	})
	return unique(countries), nil
}

func upper(list []string) []string {
	return strings.Split(strings.ToUpper(strings.Join(list, "\n")), "\n")
}

// unique returns a list without repetitions, in its order.
func unique(list []string) []string {
	var once []string
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// gpuOffers yields the types of GPU that one cloud has. A stock is asked for by country
// but not by data centre, of which the answer has all.
func (d *driver) gpuOffers(ctx context.Context, spec gputrain.Spec, cloud Cloud, regions []string) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		base := placement{mode: cmp.Or(d.cfg.ClusterMode, Individual), cloud: cloud, count: max(1, int(math.Ceil(spec.Accelerator.Count)))}
		nvidia := wantsNVIDIA(spec.Accelerator)
		var types []gpuType
		for i, region := range regions {
			base.region = region
			if i == 0 || base.country() != "" {
				var err error
				if types, err = d.client.gpuTypes(ctx, product(base.mode), base.count, cloud, base.country(), d.cfg.minCUDA(nvidia)); err != nil {
					yield(gputrain.Offer{}, err)
					return
				}
			}
			prices, err := d.floors(ctx, spec, base, nvidia)
			if err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			for _, t := range types {
				joined, err := d.joinable(ctx, base, t)
				if err != nil {
					yield(gputrain.Offer{}, err)
					return
				}
				if !joined {
					continue
				}
				for _, offer := range offersOf(spec, base, t, prices, d.cfg.BidMultiplier) {
					if !yield(offer, nil) {
						return
					}
				}
			}
		}
	}
}

func product(mode ClusterMode) string {
	if mode == Instant {
		return "CLUSTER"
	}
	return "POD"
}

// wantsNVIDIA is whether only GPUs by NVIDIA can satisfy a spec: there CUDA counts.
func wantsNVIDIA(a accelerators.Accelerator) bool {
	model, known := accelerators.Lookup(a.Name)
	return !(known && model.Vendor == "AMD" || a.Exact && strings.HasPrefix(a.Name, "AMD"))
}

// floors returns what only GraphQL tells: the lowest bids, and what clusters cost.
// Where GraphQL is no more, or not for the key, there is no spot, and on-demand pods need
// none of it.
func (d *driver) floors(ctx context.Context, spec gputrain.Spec, base placement, nvidia bool) (map[string]lowestPrice, error) {
	spot := base.mode == Individual && spec.Allocation != gputrain.OnDemand && d.cfg.GlobalNetworking != NetworkingOn
	if !spot && base.mode != Instant {
		return nil, nil
	}
	prices, err := d.client.lowestPrices(ctx, priceQuery{
		GPUCount: base.count, SecureCloud: base.cloud == Secure, DataCenterID: base.dataCenter(), CountryCode: base.country(),
		MinCUDAVersion: d.cfg.minCUDA(nvidia), MinMemoryInGB: int(math.Ceil(spec.MemoryGiB)), MinVCPUCount: int(math.Ceil(spec.VCPUs)),
	})
	if isClosed(err) && spec.Allocation != gputrain.Spot {
		return nil, nil
	}
	return prices, err
}

// joinable is whether pods of a type can have the private network that Config asks for.
func (d *driver) joinable(ctx context.Context, base placement, t gpuType) (bool, error) {
	if d.cfg.GlobalNetworking != NetworkingOn {
		return true, nil
	}
	if !strings.EqualFold(t.Manufacturer, "NVIDIA") {
		return false, nil
	}
	if base.dataCenter() == "" {
		return true, nil
	}
	global, err := d.globalCenters(ctx)
	return global[base.region], err
}

// offersOf returns a type of GPU on demand and as spot, as far as it is wanted and to be
// had.
func offersOf(spec gputrain.Spec, at placement, t gpuType, prices map[string]lowestPrice, multiplier float64) []gputrain.Offer {
	has, price, most := t.Secure, t.Price.Secure, t.MaxCount.Secure
	if at.cloud == Community {
		has, price, most = t.Community, t.Price.Community, t.MaxCount.Community
	}
	if !has || at.count > most {
		return nil
	}
	at.id = t.ID
	exact := spec.Accelerator.Exact && spec.Accelerator.Name == t.ID
	offer := gputrain.Offer{
		Provider: providerName, InstanceType: t.ID, Region: at.region, Accelerator: accelerator(t.ID, t.Memory, at.count, exact),
	}
	perNode := func(perGPU float64) gputrain.Price {
		if !(perGPU > 0) || math.IsInf(perGPU, 0) {
			return gputrain.Price{}
		}
		return gputrain.USD(perGPU * float64(at.count))
	}
	var offers []gputrain.Offer
	told := prices[t.ID]
	if spec.Allocation != gputrain.Spot && inStock(at, t.Availability, t.DataCenters) {
		onDemand := offer
		onDemand.ID, onDemand.HourlyUSD = at.String(), perNode(price)
		if at.mode == Instant {
			onDemand.HourlyUSD = gputrain.Price{}
			if told.ClusterPrice != nil {
				onDemand.HourlyUSD = perNode(*told.ClusterPrice)
			}
		}
		offers = append(offers, onDemand)
	}
	low := told.LowestPrice
	if at.mode != Individual || low == nil || low.MinimumBidPrice == nil || low.StockStatus == nil || *low.StockStatus == "None" {
		return offers
	}
	if bid := bid(*low.MinimumBidPrice, multiplier); bid > 0 {
		spot := offer
		at.spot = true
		spot.ID, spot.Spot, spot.HourlyUSD = at.String(), true, perNode(bid)
		offers = append(offers, spot)
	}
	return offers
}

// bid returns what is bid for one GPU, to the hundredth of a cent, and never less than
// the floor.
func bid(floor, multiplier float64) float64 {
	return math.Ceil(floor*cmp.Or(multiplier, 1)*1e4-1e-6) / 1e4
}

// inStock is whether a level of stock is more than none. One that is not told may be.
func inStock(at placement, overall string, centers []stock) bool {
	if at.dataCenter() == "" {
		return overall != "NONE"
	}
	return slices.ContainsFunc(centers, func(s stock) bool { return s.ID == at.region && s.Availability != "NONE" })
}

// cpuOffers yields the flavour of Config.CPUClock, in the smallest size that will do.
// It is RunPod's own data centres' alone.
func (d *driver) cpuOffers(ctx context.Context, spec gputrain.Spec, cloud Cloud, regions []string) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		if cloud != Secure {
			return
		}
		types, err := d.client.cpuTypes(ctx)
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		for _, region := range regions {
			for _, t := range types {
				at := placement{mode: Individual, cloud: cloud, region: region, count: cpuSize(spec, t), id: t.ID}
				if t.ID != d.cfg.cpuFlavour() || at.count == 0 || !inStock(at, t.Availability, t.DataCenters) {
					continue
				}
				offer := gputrain.Offer{
					Provider: providerName, ID: at.String(), InstanceType: t.ID, Region: region,
					VCPUs: float64(at.count), MemoryGiB: float64(at.count) * t.RAMGBPerVCPU,
				}
				if t.Price.SecurePerVCPU > 0 {
					offer.HourlyUSD = gputrain.USD(t.Price.SecurePerVCPU * float64(at.count))
				}
				if !yield(offer, nil) {
					return
				}
			}
		}
	}
}

// cpuSize returns the smallest power of two of vCPUs that satisfies the spec, or the
// largest that there is.
func cpuSize(spec gputrain.Spec, t cpuType) int {
	need := max(2, float64(t.VCPU.Min), spec.VCPUs)
	if t.RAMGBPerVCPU > 0 {
		need = max(need, spec.MemoryGiB/t.RAMGBPerVCPU)
	}
	need = min(need, float64(max(t.VCPU.Max, 2)))
	size := 1 << bits.Len(uint(math.Ceil(need))-1)
	if size > t.VCPU.Max {
		size /= 2
	}
	if size < max(2, t.VCPU.Min) {
		return 0
	}
	return size
}
