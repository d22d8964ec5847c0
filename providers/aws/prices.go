package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"strconv"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	// A price on demand expires after priceAge, and the spot price of a machine after spotAge.
	priceAge, spotAge = 24 * time.Hour, 10 * time.Minute
	// At most pricesAtOnce prices are requested at the same time. From manyPrices on, all
	// prices of the region are requested, which is quicker.
	pricesAtOnce, manyPrices = 10, 30
	// diskUSD and addressUSD are the hourly prices of a GB of a gp3 disk and of a public
	// address, to within a cent an hour in all regions.
	diskUSD, addressUSD = 0.08 / 730, 0.005
)

// extras are billed beside a machine: its disk and its public address.
type extras struct {
	defaultDiskGB int  // if the spec asks for none
	together      bool // the nodes are put close to each other
}

// network returns what a gang should know of the network between machines of a kind.
func (e extras) network(spec driver.Query, k kind) []string {
	if spec.Nodes < 2 || !k.fabric || k.accelerator.IsZero() {
		return nil
	}
	text := "nodes reach each other by TCP alone: its Elastic Fabric Adapter is not set up, so that a training on several is slower than where it is"
	if !e.together {
		text += "; Config.ClusterPlacement at least puts them close to each other"
	}
	return []string{text}
}

// diskGB returns the space on a node's disk: for the tasks, if the spec asks for it, or for all.
func (e extras) diskGB(spec driver.Query) int {
	if spec.DiskGiB <= 0 {
		return e.defaultDiskGB
	}
	return int(math.Ceil(spec.DiskGiB))
}

// launchedGB returns the size of the disk that a launch makes. What the spec asks for comes on top
// of what the image takes; the default includes that, and is never less.
func (e extras) launchedGB(spec driver.Query, of image) int {
	if spec.DiskGiB > 0 {
		return e.diskGB(spec) + of.diskGB
	}
	return max(e.diskGB(spec), of.diskGB)
}

// extrasUSD returns the price of a disk of that size and of a public address.
func extrasUSD(diskGB int) float64 { return float64(diskGB)*diskUSD + addressUSD }

// setPrice sets the price of an offer, which is that of its machine with its disk and address, and
// its parts. If the machine's price is not known, that of the whole is not.
func setPrice(o *driver.Offer, machine driver.Price, diskGB int) {
	usd, known := machine.USD()
	if o.HourlyUSD, o.Parts = (driver.Price{}), nil; !known {
		return
	}
	o.HourlyUSD = driver.USD(math.Round((usd+extrasUSD(diskGB))*1e6) / 1e6)
	o.Parts = []driver.PricePart{
		{Name: "machine", HourlyUSD: usd}, {Name: "disk", HourlyUSD: float64(diskGB) * diskUSD}, {Name: "address", HourlyUSD: addressUSD},
	}
}

// knownUSD returns a price, of which 0 means unknown.
func knownUSD(usd float64) driver.Price {
	if usd <= 0 {
		return driver.Price{}
	}
	return driver.USD(usd)
}

// spotPrices are the spot prices that were seen last, in USD an hour.
type spotPrices struct {
	api *client
	mu  sync.Mutex
	usd map[string]map[string]float64 // by instance type and zone; the inner maps are never changed
	at  map[[2]string]time.Time       // when the price of a type in a zone was asked for
}

// latest returns the prices of an instance type that were seen last, by zone.
func (p *spotPrices) latest(instanceType string) map[string]float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.usd[instanceType]
}

// ask returns the present prices of instance types, by zone.
func (p *spotPrices) ask(ctx context.Context, names []string) (map[string]map[string]float64, error) {
	found := map[string]map[string]float64{}
	if len(names) == 0 || !paysUSD(p.api.region) {
		return found, nil
	}
	return p.read(ctx, names, "")
}

// now returns the present price of an instance type in a zone. It asks for it at most every
// spotAge, and returns the price that was seen last if there is no answer. 0 means unknown.
func (p *spotPrices) now(ctx context.Context, instanceType, zone string) float64 {
	key := [2]string{instanceType, zone}
	p.mu.Lock()
	usd, due := p.usd[instanceType][zone], time.Since(p.at[key]) >= spotAge
	if due {
		p.at[key] = time.Now()
	}
	p.mu.Unlock()
	if !due || zone == "" || !paysUSD(p.api.region) {
		return usd
	}
	if found, err := p.read(ctx, []string{instanceType}, zone); err == nil && found[instanceType][zone] > 0 {
		return found[instanceType][zone]
	}
	return usd
}

// read asks for the prices of instance types, in all zones or in one.
func (p *spotPrices) read(ctx context.Context, names []string, zone string) (map[string]map[string]float64, error) {
	found := map[string]map[string]float64{}
	in := ec2.DescribeSpotPriceHistoryInput{ProductDescriptions: []string{"Linux/UNIX"}, StartTime: sdk.Time(time.Now())}
	if zone != "" {
		in.AvailabilityZone = &zone
	}
	for _, name := range names {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	newest, asked := map[[2]string]time.Time{}, time.Now()
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(p.api.ec2, &in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if isDenied(err) {
			return map[string]map[string]float64{}, nil // unknown
		}
		if err != nil {
			return nil, err
		}
		for _, said := range page.SpotPriceHistory {
			name, zone := string(said.InstanceType), sdk.ToString(said.AvailabilityZone)
			usd, err := strconv.ParseFloat(sdk.ToString(said.SpotPrice), 64)
			at := sdk.ToTime(said.Timestamp)
			if err != nil || usd <= 0 || at.Before(newest[[2]string{name, zone}]) {
				continue
			}
			newest[[2]string{name, zone}] = at
			if found[name] == nil {
				found[name] = map[string]float64{}
			}
			found[name][zone] = usd
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, zones := range found {
		all := maps.Clone(p.usd[name])
		if zone == "" || all == nil {
			all = map[string]float64{}
		}
		maps.Copy(all, zones)
		p.usd[name] = all
		for zone := range zones {
			p.at[[2]string{name, zone}] = asked
		}
	}
	return found, nil
}

// A priceList holds the prices on demand that were read from AWS's Price List, in USD an hour.
type priceList struct {
	api *client
	mu  sync.Mutex         // held during requests
	usd map[string]float64 // by instance type; 0 means unknown
	at  time.Time

	outUSD float64 // a GiB to the internet; 0 means unknown
	outAt  time.Time
}

// ask returns the prices of instance types. An unknown price is 0 or missing.
func (p *priceList) ask(ctx context.Context, names []string) (map[string]float64, error) {
	if p.api.pricing == nil {
		return map[string]float64{}, nil // unknown
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if time.Since(p.at) > priceAge {
		p.usd, p.at = map[string]float64{}, time.Now()
	}
	missing := slices.DeleteFunc(slices.Clone(names), func(name string) bool { _, known := p.usd[name]; return known })
	var mu sync.Mutex
	note := func(found map[string]float64) {
		mu.Lock()
		defer mu.Unlock()
		for name, usd := range found {
			p.usd[name] = usd
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(pricesAtOnce)
	if len(missing) >= manyPrices {
		missing = []string{""}
	}
	for _, name := range missing {
		g.Go(func() error {
			found, err := p.products(gctx, name)
			if err == nil && name != "" {
				found = map[string]float64{name: found[name]}
			}
			note(found)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		if isDenied(err) {
			return map[string]float64{}, nil // unknown
		}
		return nil, err
	}
	return maps.Clone(p.usd), nil
}

// egress returns the price of a GiB to the internet, without the account's free amount and its
// discounts for many TiB. It is 0 if that is not known, which is no error: no offer depends on it.
func (p *priceList) egress(ctx context.Context) float64 {
	if p.api.pricing == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.outAt.IsZero() && time.Since(p.outAt) < priceAge {
		return p.outUSD
	}
	usd := 0.0
	for text, err := range p.list(ctx, "AWSDataTransfer", [2]string{"transferType", "AWS Outbound"}, [2]string{"fromRegionCode", p.api.region}, [2]string{"toLocation", "External"}) {
		if err != nil && !isDenied(err) {
			return 0
		}
		_, gib := product(text, "GB")
		usd = max(usd, gib)
	}
	p.outUSD, p.outAt = usd, time.Now()
	return usd
}

// products asks the Price List for an instance type, or for all types of the region.
func (p *priceList) products(ctx context.Context, name string) (map[string]float64, error) {
	found := map[string]float64{}
	for text, err := range p.list(ctx, "AmazonEC2",
		[2]string{"regionCode", p.api.region}, [2]string{"operatingSystem", "Linux"}, [2]string{"tenancy", "Shared"}, [2]string{"preInstalledSw", "NA"},
		[2]string{"capacitystatus", "Used"}, [2]string{"instanceType", name}) {
		if err != nil {
			return nil, err
		}
		if name, usd := product(text, "Hrs"); usd > 0 {
			found[name] = usd
		}
	}
	return found, nil
}

// list yields the items of a service in the Price List that have some values, page by page. Empty
// values match all items.
func (p *priceList) list(ctx context.Context, service string, values ...[2]string) iter.Seq2[string, error] {
	type match struct{ Type, Field, Value string }
	filters := []match{}
	for _, f := range values {
		if f[1] != "" {
			filters = append(filters, match{"TERM_MATCH", f[0], f[1]})
		}
	}
	return rest.Pages(func(cursor string) ([]string, string, error) {
		in := map[string]any{"ServiceCode": service, "FormatVersion": "aws_v1", "Filters": filters, "MaxResults": 100}
		if cursor != "" {
			in["NextToken"] = cursor
		}
		var out struct {
			PriceList *[]string
			NextToken string
		}
		if err := jsonCall(ctx, p.api.pricing, "AWSPriceListService.GetProducts", in, &out); err != nil {
			return nil, "", err
		}
		if out.PriceList == nil {
			return nil, "", fmt.Errorf("GetProducts: %w: the answer has no list of prices, not even an empty one", rest.ErrAnswer)
		}
		return *out.PriceList, out.NextToken, nil
	})
}

// product reads an item of the Price List: its instance type, if it has one, and its highest price
// for a unit.
func product(text, unit string) (name string, usd float64) {
	var p struct {
		Product struct {
			Attributes struct {
				InstanceType string `json:"instanceType"`
			} `json:"attributes"`
		} `json:"product"`
		Terms struct {
			OnDemand map[string]struct {
				PriceDimensions map[string]struct {
					Unit         string            `json:"unit"`
					PricePerUnit map[string]string `json:"pricePerUnit"`
				} `json:"priceDimensions"`
			} `json:"OnDemand"`
		} `json:"terms"`
	}
	if json.Unmarshal([]byte(text), &p) != nil {
		return "", 0
	}
	for _, term := range p.Terms.OnDemand {
		for _, dimension := range term.PriceDimensions {
			v, err := strconv.ParseFloat(dimension.PricePerUnit["USD"], 64)
			if err == nil && v > usd && (dimension.Unit == "" || dimension.Unit == unit) {
				usd = v
			}
		}
	}
	return p.Product.Attributes.InstanceType, usd
}
