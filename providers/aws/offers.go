package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain"
)

const typesPerPage = 100

// Offers yields the instance types that the zones of the nodes' subnets have: a page of
// types at a time, and of each an offer on spot and one on demand, as far as the spec
// wants them. A spot price is that of the cheapest zone.
func (d *driver) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		for o, err := range d.offers(ctx, spec) {
			if !yield(o, fail("offers", err)) {
				return
			}
		}
	}
}

func (d *driver) offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		arch, err := d.ownArch(ctx)
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		found, others := 0, map[string]bool{}
		for page, err := range d.typePages(ctx, spec) {
			if err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			var good []kind
			for _, t := range page {
				k, ok := kindOfType(t)
				switch {
				case !ok, d.cfg.ExcludeBurstable && k.burstable, !d.canRun(k, arch):
				case k.fits(spec):
					good = append(good, k)
				case !spec.Accelerator.IsZero() && spec.Accelerator.Matches(k.accelerator):
					others[fmt.Sprintf("%v (%s)", k.accelerator, k.name)] = true
				}
			}
			slices.SortFunc(good, func(a, b kind) int { return cmp.Compare(a.name, b.name) })
			offers, err := d.priced(ctx, good, spec)
			if err != nil {
				yield(gputrain.Offer{}, err)
				return
			}
			for _, o := range offers {
				found++
				if !yield(o, nil) {
					return
				}
			}
		}
		if found == 0 && len(others) > 0 {
			yield(gputrain.Offer{}, &gputrain.Error{Kind: gputrain.ErrNoOffers,
				Err:  fmt.Errorf("EC2 has no machine with just %v", spec.Accelerator),
				Hint: "ask for the Count of one that it has: " + strings.Join(slices.Sorted(maps.Keys(others)), ", ")})
		}
	}
}

// typePages yields the instance types of the region, page by page.
func (d *driver) typePages(ctx context.Context, spec gputrain.Spec) iter.Seq2[[]types.InstanceTypeInfo, error] {
	return func(yield func([]types.InstanceTypeInfo, error) bool) {
		in := ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(typesPerPage)}
		if spec.Accelerator.IsZero() {
			in.Filters = []types.Filter{filter("current-generation", "true")}
		} else {
			in.Filters = []types.Filter{filter("instance-type", acceleratedFamilies...)}
		}
		pages := ec2.NewDescribeInstanceTypesPaginator(d.api.ec2, &in)
		for pages.HasMorePages() {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(page.InstanceTypes, nil) {
				return
			}
		}
	}
}

// ownArch returns the architecture of the user's own image, or "".
func (d *driver) ownArch(ctx context.Context) (string, error) {
	if d.cfg.AMI == "" {
		return "", nil
	}
	im, err := d.image(ctx, "", plain)
	return im.arch, err
}

// canRun reports whether there is an image for an instance type.
func (d *driver) canRun(k kind, ownArch string) bool {
	if d.cfg.AMI != "" {
		return ownArch == k.arch
	}
	s, ok := softwareFor(k.accelerator)
	return ok && (s == plain || d.cfg.UbuntuVersion != "20.04")
}

// priced makes offers of instance types.
func (d *driver) priced(ctx context.Context, kinds []kind, spec gputrain.Spec) ([]gputrain.Offer, error) {
	if len(kinds) == 0 {
		return nil, nil
	}
	var names, forSpot, onDemand []string
	for _, k := range kinds {
		names = append(names, k.name)
	}
	zones, err := d.zonesOf(ctx, names)
	if err != nil {
		return nil, err
	}
	kinds = slices.DeleteFunc(kinds, func(k kind) bool { return len(zones[k.name]) == 0 })
	for _, k := range kinds {
		if k.spot && spec.Allocation != gputrain.OnDemand {
			forSpot = append(forSpot, k.name)
		}
		if k.onDemand && spec.Allocation != gputrain.Spot {
			onDemand = append(onDemand, k.name)
		}
	}
	spot, err := d.spotPrices(ctx, forSpot)
	if err != nil {
		return nil, err
	}
	prices, err := d.onDemandPrices(ctx, onDemand)
	if err != nil {
		return nil, err
	}
	var offers []gputrain.Offer
	for _, k := range kinds {
		o := gputrain.Offer{
			Provider: providerName, InstanceType: k.name, Region: d.api.region, Accelerator: k.accelerator, Arch: k.arch,
			VCPUs: k.vcpus, MemoryGiB: k.memoryGiB, DiskGiB: float64(d.diskGB(spec)),
		}
		if slices.Contains(forSpot, k.name) {
			o.Spot, o.ID = true, d.api.region+"/"+k.name+"/spot"
			o.HourlyUSD = d.withExtras(least(spot[k.name], zones[k.name]), spec)
			offers = append(offers, o)
		}
		if slices.Contains(onDemand, k.name) {
			o.Spot, o.ID = false, d.api.region+"/"+k.name+"/on-demand"
			o.HourlyUSD = d.withExtras(prices[k.name], spec)
			offers = append(offers, o)
		}
	}
	return offers, nil
}

// least returns the least price that one of the zones has, or 0.
func least(prices map[string]float64, zones []string) (usd float64) {
	for _, zone := range zones {
		if p := prices[zone]; p > 0 && (usd == 0 || p < usd) {
			usd = p
		}
	}
	return usd
}

const (
	// diskUSD and addressUSD are what a GB of a gp3 disk and a public address cost for
	// an hour, to within a cent an hour in all regions.
	diskUSD, addressUSD = 0.08 / 730, 0.005
)

// withExtras is the price of a machine with its disk and its address. What is not known
// stays so.
func (d *driver) withExtras(usd float64, spec gputrain.Spec) gputrain.Price {
	if usd <= 0 {
		return gputrain.Price{}
	}
	return gputrain.USD(math.Round((usd+d.extras(spec))*1e6) / 1e6)
}

func (d *driver) extras(spec gputrain.Spec) float64 {
	return float64(d.diskGB(spec))*diskUSD + addressUSD
}

// diskGB is the size of the disk that a node gets. An image can need more.
func (d *driver) diskGB(spec gputrain.Spec) int {
	if spec.DiskGiB <= 0 {
		return d.cfg.DiskGB
	}
	return int(math.Ceil(spec.DiskGiB))
}

// zonesOf returns the zones of the nodes' subnets that have each of the types.
func (d *driver) zonesOf(ctx context.Context, names []string) (map[string][]string, error) {
	net, err := d.network(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string][]string{}
	d.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		zones, ok := d.zones[name]
		known[name] = zones
		return ok
	})
	d.mu.Unlock()
	if len(missing) == 0 {
		return known, nil
	}
	for _, name := range missing {
		known[name] = nil
	}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(d.api.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
		LocationType: types.LocationTypeAvailabilityZone, Filters: []types.Filter{filter("instance-type", missing...)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, o := range page.InstanceTypeOfferings {
			name, zone := string(o.InstanceType), sdk.ToString(o.Location)
			if net.subnetIn(zone) != "" && !slices.Contains(known[name], zone) {
				known[name] = append(known[name], zone)
			}
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, name := range missing {
		slices.Sort(known[name])
		d.zones[name] = known[name]
	}
	return known, nil
}

var errNoZone = errors.New("none of the zones that the nodes' subnets are in has it")
