package aws

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/gputrain/gputrain/providers/driver"
)

const typesPerPage = 100

// A catalogue looks up the instance types that the region has for the nodes' subnets, with
// their zones and prices.
type catalogue struct {
	api              *client
	networks         *networks
	images           *images
	onDemand         *priceList
	spot             *spotPrices
	extras           extras
	reserved         reservation
	excludeBurstable bool

	mu    sync.Mutex
	zones map[string][]string // by instance type
}

// offers yields what the zones of the nodes' subnets have, page by page.
func (c *catalogue) offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		arch, err := c.images.ownArch(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		found, others := 0, map[string]bool{}
		for page, err := range c.typePages(ctx, spec) {
			if err != nil {
				yield(driver.Offer{}, err)
				return
			}
			var good []kind
			for _, t := range page {
				k, ok := kindOfType(t)
				switch {
				case !ok:
				case k.fits(spec):
					k.unfit = c.unfit(k, arch)
					good = append(good, k)
				case !spec.Accelerator.IsZero() && anyNumber(spec).Matches(k.accelerator):
					others[fmt.Sprintf("%v (%s)", k.accelerator, k.name)] = true
				}
			}
			slices.SortFunc(good, func(a, b kind) int { return cmp.Compare(a.name, b.name) })
			offers, err := c.priced(ctx, good, spec)
			if err != nil {
				yield(driver.Offer{}, err)
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
			yield(driver.Offer{}, &driver.Error{Kind: driver.ErrNoOffers,
				Err:  fmt.Errorf("EC2 has no machine with %v", spec.Accelerator),
				Hint: "ask for a Count that it has: " + strings.Join(slices.Sorted(maps.Keys(others)), ", ")})
		}
	}
}

// typePages yields the instance types of the region, page by page.
func (c *catalogue) typePages(ctx context.Context, spec driver.Query) iter.Seq2[[]types.InstanceTypeInfo, error] {
	return func(yield func([]types.InstanceTypeInfo, error) bool) {
		in := ec2.DescribeInstanceTypesInput{MaxResults: sdk.Int32(typesPerPage)}
		if spec.Accelerator.IsZero() {
			in.Filters = []types.Filter{filter("current-generation", "true")}
		} else {
			in.Filters = []types.Filter{filter("instance-type", acceleratedFamilies...)}
		}
		pages := ec2.NewDescribeInstanceTypesPaginator(c.api.ec2, &in)
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

// unfit returns why the configuration cannot use a type, or "".
func (c *catalogue) unfit(k kind, ownArch string) string {
	if c.excludeBurstable && k.burstable {
		return "has shared processors; Config.ExcludeBurstable is true"
	}
	return cmp.Or(c.reserved.unfit(k), c.images.unfit(k, ownArch))
}

// priced turns instance types into offers. Those that the configuration cannot use are rejected
// with the reason.
func (c *catalogue) priced(ctx context.Context, kinds []kind, spec driver.Query) ([]driver.Offer, error) {
	if err := c.examine(ctx, kinds); err != nil {
		return nil, err
	}
	var forSpot, onDemand []string
	for _, k := range kinds {
		if k.unfit != "" {
			continue
		}
		if k.spot && spec.Allocation != driver.OnDemand && c.reserved.id == "" {
			forSpot = append(forSpot, k.name)
		}
		if (k.onDemand || c.reserved.block) && spec.Allocation != driver.Spot {
			onDemand = append(onDemand, k.name)
		}
	}
	spot, err := c.spot.ask(ctx, forSpot)
	if err != nil {
		return nil, err
	}
	var prices map[string]float64
	if !c.reserved.block {
		if prices, err = c.onDemand.ask(ctx, onDemand); err != nil {
			return nil, err
		}
	}
	var egress float64
	if len(forSpot)+len(onDemand) > 0 {
		egress = c.onDemand.egress(ctx)
	}
	var offers []driver.Offer
	for _, k := range kinds {
		o := driver.Offer{
			Provider: providerName, InstanceType: k.name, Region: c.api.region, Country: countryOf(c.api.region), Accelerator: k.accelerator, Arch: k.arch,
			VCPUs: k.vcpus, MemoryGiB: k.memoryGiB, DiskGiB: float64(c.extras.diskGB(spec)), EgressUSD: egress, Rejected: k.unfit,
		}
		if k.unfit != "" {
			o.Spot, o.ID = spec.Allocation == driver.Spot, c.api.region+"/"+k.name
			offers = append(offers, o)
			continue
		}
		diskGB := c.extras.launchedGB(spec, k.image)
		network := c.extras.network(spec, k)
		if slices.Contains(forSpot, k.name) {
			o.Spot, o.ID = true, c.api.region+"/"+k.name+"/spot"
			o.Warnings = network
			setPrice(&o, knownUSD(least(spot[k.name], k.zones)), diskGB)
			offers = append(offers, o)
		}
		if slices.Contains(onDemand, k.name) {
			o.Spot, o.ID = false, c.api.region+"/"+k.name+"/on-demand"
			o.Warnings = slices.Concat(c.reserved.warnings(), network)
			setPrice(&o, c.reserved.price(prices[k.name]), diskGB)
			offers = append(offers, o)
		}
	}
	return offers, nil
}

// examine looks up the zones and the image of each type that the configuration can use. A type
// without them is unfit.
func (c *catalogue) examine(ctx context.Context, kinds []kind) error {
	var names []string
	for _, k := range kinds {
		if k.unfit == "" {
			names = append(names, k.name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	zones, err := c.zonesOf(ctx, names)
	if err != nil {
		return err
	}
	for i := range kinds {
		k := &kinds[i]
		if k.unfit != "" {
			continue
		}
		if k.zones = zones[k.name]; len(k.zones) == 0 {
			k.unfit = "is in no zone of the nodes' subnets"
			continue
		}
		s, _ := softwareFor(k.accelerator)
		k.image, err = c.images.forNode(ctx, k.arch, s)
		switch {
		case isGone(err):
			k.unfit = fmt.Sprintf("has no default image: %v; set Config.AMI", err)
		case err != nil:
			return err
		}
	}
	return nil
}

// least returns the lowest price in any of the zones, or 0.
func least(prices map[string]float64, zones []string) (usd float64) {
	for _, zone := range zones {
		if p := prices[zone]; p > 0 && (usd == 0 || p < usd) {
			usd = p
		}
	}
	return usd
}

// zonesOf returns the zones of the nodes' subnets that have each of the types.
func (c *catalogue) zonesOf(ctx context.Context, names []string) (map[string][]string, error) {
	net, err := c.networks.find(ctx)
	if err != nil {
		return nil, err
	}
	known := map[string][]string{}
	c.mu.Lock()
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		zones, ok := c.zones[name]
		known[name] = zones
		return ok
	})
	c.mu.Unlock()
	if len(missing) == 0 {
		return known, nil
	}
	for _, name := range missing {
		known[name] = nil
	}
	pages := ec2.NewDescribeInstanceTypeOfferingsPaginator(c.api.ec2, &ec2.DescribeInstanceTypeOfferingsInput{
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
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, name := range missing {
		slices.Sort(known[name])
		c.zones[name] = known[name]
	}
	return known, nil
}

var errNoZone = errors.New("no zone of the nodes' subnets has it")
