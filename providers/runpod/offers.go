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

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// unusable are countries that GraphQL lists but does not accept.
var unusable = []string{"AR"}

// Offers yields types of GPU, or flavours of CPU for a spec without accelerator, by cloud and
// region. RunPod reports levels of stock, not numbers.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if err := a.cfg.possible(spec); err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, of := range a.cfg.clouds() {
			regions, err := a.regions(ctx, spec, of)
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			offers := []iter.Seq2[driver.Offer, error]{a.cpuOffers(ctx, spec, of, regions)}
			if !spec.Accelerator.IsZero() {
				offers = nil
				for _, count := range spec.Accelerator.Counts(maxGPUs) {
					offers = append(offers, a.gpuOffers(ctx, spec, of, regions, count))
				}
			}
			for _, some := range offers {
				for offer, err := range some {
					if err != nil {
						yield(driver.Offer{}, err)
						return
					}
					if !yield(offer, nil) {
						return
					}
				}
			}
		}
	}
}

// possible refuses a spec that Config excludes entirely.
func (c Config) possible(spec driver.Query) error {
	cpu := spec.Accelerator.IsZero()
	refuse := func(why string) error {
		return &driver.Error{Kind: driver.ErrNoOffers, Err: errors.New(why)}
	}
	switch {
	case c.ClusterMode == Instant && (cpu || spec.Nodes < 2):
		return refuse("an instant cluster has GPUs and two nodes at least; set Spec.Accelerator and Nodes, or leave ClusterMode out")
	case c.ClusterMode == Instant && spec.Allocation == driver.Spot:
		return refuse("instant clusters are rented on demand; set another Allocation, or leave ClusterMode out")
	case c.GlobalNetworking == NetworkingOn && spec.Allocation == driver.Spot:
		return refuse("spot pods have no global networking; set another Allocation, or leave GlobalNetworking out")
	case cpu && spec.Allocation == driver.Spot:
		return refuse("pods without GPU are rented on demand; set Spec.Accelerator, or another Allocation")
	case cpu && (c.Cloud == Community || c.restricted() || c.GlobalNetworking == NetworkingOn):
		return refuse("pods without GPU are in the secure cloud, and have no countries, line speeds or global networking; set Spec.Accelerator, or leave those out")
	}
	return nil
}

// regions returns the regions for pods: data centres, countries, or anywhere. If Config leaves
// them open, Spec.Regions and Spec.Countries choose: data centres ("US-TX-3"), prefixes of their
// names ("EU") and countries ("RO") for the secure cloud, countries for the community cloud.
func (a *api) regions(ctx context.Context, spec driver.Query, of Cloud) ([]string, error) {
	volume, err := a.lookups.volume(ctx, spec)
	open := len(spec.Regions)+len(spec.Countries) == 0
	switch {
	case err != nil:
		return nil, err
	case volume != nil && of == Community:
		return []string{anywhere}, nil // to be rejected
	case volume != nil && a.cfg.byCountry():
		return nil, fmt.Errorf("%w: the network volume %s is in %s; leave countries out", driver.ErrInvalid, volume.ID, volume.DataCenter)
	case volume != nil && len(a.cfg.DataCenterIDs) > 0 && !slices.Contains(a.cfg.DataCenterIDs, volume.DataCenter):
		return nil, fmt.Errorf("%w: the network volume %s is in %s, which DataCenterIDs does not have", driver.ErrInvalid, volume.ID, volume.DataCenter)
	case volume != nil:
		return []string{volume.DataCenter}, nil
	case len(a.cfg.DataCenterIDs) > 0:
		return unique(a.cfg.DataCenterIDs), nil
	case !a.cfg.byCountry() && open:
		return []string{anywhere}, nil
	case !a.cfg.byCountry() && of == Community:
		return unique(slices.DeleteFunc(upper(slices.Concat(spec.Regions, spec.Countries)), func(code string) bool { return !countryForm.MatchString(code) || !spec.Allows(code, code) })), nil
	case !a.cfg.byCountry():
		return a.lookups.centersIn(ctx, spec)
	}
	countries := a.cfg.CountryCodes
	if len(countries) == 0 {
		if countries, err = a.client.countries(ctx); err != nil {
			return nil, err
		}
	}
	countries = slices.DeleteFunc(slices.Clone(countries), func(code string) bool {
		return !countryForm.MatchString(code) || slices.Contains(unusable, code) || slices.Contains(a.cfg.ExcludeCountryCodes, code) || !spec.Allows(code, code)
	})
	return unique(countries), nil
}

func upper(list []string) []string {
	return strings.Split(strings.ToUpper(strings.Join(list, "\n")), "\n")
}

// unique removes repetitions from a list, and keeps its order.
func unique(list []string) []string {
	var once []string
	for _, s := range list {
		if !slices.Contains(once, s) {
			once = append(once, s)
		}
	}
	return once
}

// maxGPUs is the maximum of a pod's GPUs.
const maxGPUs = 10

// gpuOffers yields the types of GPU of one cloud, with a number of them. It asks for stock by country, but not by data
// centre, as the answer has all of those.
func (a *api) gpuOffers(ctx context.Context, spec driver.Query, of Cloud, regions []string, count int) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		caps := a.Capabilities()
		caps.PrivateNetwork = true
		network := &caps
		base := placement{mode: cmp.Or(a.cfg.ClusterMode, Individual), cloud: of, count: count}
		nvidia := wantsNVIDIA(spec.Accelerator)
		var types []gpuType
		for i, region := range regions {
			base.region = region
			if i == 0 || base.country() != "" {
				var err error
				if types, err = a.client.gpuTypes(ctx, product(base.mode), base.count, of, base.country(), a.cfg.with(spec).minCUDA(nvidia)); err != nil {
					yield(driver.Offer{}, err)
					return
				}
			}
			prices, err := a.floors(ctx, spec, base, nvidia)
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			for _, t := range types {
				joined, err := a.joinable(ctx, spec, base, t)
				if err != nil {
					yield(driver.Offer{}, err)
					return
				}
				for _, offer := range a.cfg.offersOf(spec, base, t, prices, joined) {
					if spec.Joined() && base.mode == Individual && offer.Rejected == "" {
						offer.Capabilities, offer.Warnings = network, append(offer.Warnings, slowNetwork)
					}
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

// wantsNVIDIA reports whether only NVIDIA's GPUs can satisfy a spec: then CUDA matters.
func wantsNVIDIA(a accelerators.Accelerator) bool {
	model, known := accelerators.Lookup(a.Name)
	return !(a.Name == "" && a.Vendor != "" && !strings.EqualFold(a.Vendor, "NVIDIA") || known && model.Vendor == "AMD" || a.Exact && strings.HasPrefix(a.Name, "AMD"))
}

// floors returns the values that only GraphQL reports: the lowest bids, and the prices of
// clusters. If GraphQL has ended or is closed to the key, there is no spot; on-demand pods do
// not need it.
func (a *api) floors(ctx context.Context, spec driver.Query, base placement, nvidia bool) (map[string]lowestPrice, error) {
	spot := base.mode == Individual && spec.Allocation != driver.OnDemand && a.cfg.GlobalNetworking != NetworkingOn
	if !spot && base.mode != Instant {
		return nil, nil
	}
	prices, err := a.client.lowestPrices(ctx, priceQuery{
		GPUCount: base.count, SecureCloud: base.cloud == Secure, DataCenterID: base.dataCenter(), CountryCode: base.country(),
		MinCUDAVersion: a.cfg.with(spec).minCUDA(nvidia), MinMemoryInGB: int(math.Ceil(spec.MemoryGiB)), MinVCPUCount: int(math.Ceil(spec.VCPUs)),
	})
	if isClosed(err) && spec.Allocation != driver.Spot {
		return nil, nil
	}
	return prices, err
}

// slowNetwork is a warning of offers that global networking joins.
const slowNetwork = "global networking, which joins its nodes, has about 100 Mbit/s: enough to meet, not to train; Config.ClusterMode of Instant has 1600 Gbit/s and more"

// joinable reports whether pods of a type can have the private network that Config or the spec asks for.
func (a *api) joinable(ctx context.Context, spec driver.Query, base placement, t gpuType) (bool, error) {
	if base.mode != Individual || a.cfg.GlobalNetworking != NetworkingOn && !spec.Joined() {
		return true, nil
	}
	if !strings.EqualFold(t.Manufacturer, "NVIDIA") {
		return false, nil
	}
	if base.dataCenter() == "" {
		return true, nil
	}
	global, err := a.lookups.globalCenters(ctx)
	return global[base.region], err
}

// offersOf returns a type of GPU on demand and as spot, as far as it is wanted. What is not available is
// rejected, if the spec asks for its accelerator, and left out otherwise.
func (c Config) offersOf(spec driver.Query, at placement, t gpuType, prices map[string]lowestPrice, joined bool) []driver.Offer {
	has, price, most := t.Secure, t.Price.Secure, t.MaxCount.Secure
	if at.cloud == Community {
		has, price, most = t.Community, t.Price.Community, t.MaxCount.Community
	}
	at.id = t.ID
	disk, volume := c.disk(false, spec.DiskGiB), c.volume(at, spec)
	offer := driver.Offer{
		ID: at.String(), InstanceType: t.ID, Region: at.region, Country: countryOf(at.region), DiskGiB: float64(disk) * 1e9 / gib,
		Accelerator: cloud.Accelerator(providerName, t.ID, at.count, t.Memory, spec.Accelerator),
	}
	var offers []driver.Offer
	add := func(o driver.Offer, perGPU float64, rejected string) {
		if o.Rejected = rejected; rejected == "" || spec.Accelerator.Matches(o.Accelerator) {
			offers = append(offers, priced(o, perGPU*float64(at.count), disk, volume))
		}
	}
	why := ""
	switch {
	case !has:
		why = fmt.Sprintf("is not in RunPod's %s cloud", at.cloud)
	case at.count > most:
		why = fmt.Sprintf("is not rented with %d GPUs in RunPod's %s cloud, but with %d at most", at.count, at.cloud, most)
	case at.cloud == Community && len(spec.Mounts) > 0:
		why = "is in RunPod's community cloud, which has no network volumes"
	case !joined && c.GlobalNetworking == NetworkingOn:
		why = "cannot be joined by global networking, which Config.GlobalNetworking asks for"
	case spec.Joined() && at.mode == Individual:
		why = c.unjoined(spec, at, joined)
	}
	told := prices[t.ID]
	if spec.Allocation != driver.Spot {
		if at.mode == Instant {
			price = 0
			if told.ClusterPrice != nil {
				price = *told.ClusterPrice
			}
		}
		sold := ""
		if !inStock(at, t.Availability, t.DataCenters) {
			sold = "is sold out" + c.place(at)
		}
		add(offer, price, cmp.Or(why, sold))
	}
	low, floor := told.LowestPrice, 0.0
	if low != nil && low.MinimumBidPrice != nil && low.StockStatus != nil && *low.StockStatus != "None" {
		floor = bid(*low.MinimumBidPrice, c.BidMultiplier)
	}
	at.spot = true
	offer.ID, offer.Spot = at.String(), true
	switch {
	case at.mode != Individual:
	case floor > 0 && spec.Joined():
		add(offer, floor, cmp.Or(why, "is spot, which global networking does not join; the spec's Network is private"))
	case floor > 0:
		add(offer, floor, why)
	case spec.Allocation == driver.Spot:
		add(offer, 0, cmp.Or(why, "is sold out as spot"+c.place(at)))
	}
	return offers
}

// unjoined returns why pods on demand have no network that joins them, as the spec asks, or "" if global networking does.
// joined tells that of their type and data centre.
func (c Config) unjoined(spec driver.Query, at placement, joined bool) string {
	switch {
	case c.GlobalNetworking == NetworkingOff:
		return "has no private network, as Config.GlobalNetworking is off; the spec's Network is private"
	case at.cloud == Community:
		return "is in RunPod's community cloud, which has no global networking; the spec's Network is private"
	case !joined:
		return "cannot be joined by global networking: it is not NVIDIA's, or its data centre has none; the spec's Network is private"
	case c.restricted() || at.country() != "" || c.TerminateAfter && spec.TTL > 0:
		return "is rented by countries, line speeds or TerminateAfter, which exclude global networking; the spec's Network is private"
	}
	return ""
}

// place describes, after "sold out", the hosts that were asked about.
func (c Config) place(at placement) string {
	where := ""
	if at.region != anywhere {
		where = " in " + at.region
	}
	if cuda := c.minCUDA(at.nvidia()); cuda != "" {
		where += " on hosts whose driver supports CUDA " + cuda
	}
	return where
}

// bid returns the bid for one GPU, rounded to a hundredth of a cent, and never below the floor.
func bid(floor, multiplier float64) float64 {
	return math.Ceil(floor*cmp.Or(multiplier, 1)*1e4-1e-6) / 1e4
}

// inStock reports whether there is stock. A missing level counts as stock.
func inStock(at placement, overall string, centers []stock) bool {
	if at.dataCenter() == "" {
		return overall != "NONE"
	}
	return slices.ContainsFunc(centers, func(s stock) bool { return s.ID == at.region && s.Availability != "NONE" })
}

// cpuOffers yields the flavour of Config.CPUClock, in the smallest size that fits. Only
// RunPod's own data centres have it.
func (a *api) cpuOffers(ctx context.Context, spec driver.Query, of Cloud, regions []string) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		if of != Secure {
			return
		}
		types, err := a.client.cpuTypes(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, region := range regions {
			for _, t := range types {
				at := placement{mode: Individual, cloud: of, region: region, count: cpuSize(spec, t), id: t.ID}
				if t.ID != a.cfg.cpuFlavour() || at.count == 0 {
					continue
				}
				disk := a.cfg.disk(true, spec.DiskGiB)
				offer := driver.Offer{
					ID: at.String(), InstanceType: t.ID, Region: region, Country: countryOf(region),
					VCPUs: float64(at.count), MemoryGiB: float64(at.count) * t.RAMGBPerVCPU, DiskGiB: float64(disk) * 1e9 / gib,
				}
				if spec.Joined() {
					offer.Rejected = "has no GPU, so global networking cannot join it; the spec's Network is private"
				} else if !inStock(at, t.Availability, t.DataCenters) {
					offer.Rejected = "is sold out" + a.cfg.place(at)
				}
				if !yield(priced(offer, t.Price.SecurePerVCPU*float64(at.count), disk, 0), nil) {
					return
				}
			}
		}
	}
}

// cpuSize returns the smallest power of two of vCPUs that satisfies the spec, or the largest
// size.
func cpuSize(spec driver.Query, t cpuType) int {
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
