package aws

import (
	"context"
	"encoding/json"
	"fmt"
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
	// A price on demand expires after priceAge.
	priceAge = 24 * time.Hour
	// At most pricesAtOnce prices are requested at the same time. From manyPrices on, all
	// prices of the region are requested, which is quicker.
	pricesAtOnce, manyPrices = 10, 30
	// diskUSD and addressUSD are the hourly prices of a GB of a gp3 disk and of a public
	// address, to within a cent an hour in all regions.
	diskUSD, addressUSD = 0.08 / 730, 0.005
)

// extras are billed beside a machine: its disk and its public address.
type extras struct {
	defaultDiskGB int // if the spec asks for none
}

// diskGB returns the size of a node's disk. An image can need more.
func (e extras) diskGB(spec driver.Query) int {
	if spec.DiskGiB <= 0 {
		return e.defaultDiskGB
	}
	return int(math.Ceil(spec.DiskGiB))
}

func (e extras) usd(spec driver.Query) float64 {
	return float64(e.diskGB(spec))*diskUSD + addressUSD
}

// add returns the price of a machine with its extras. A usd of 0 means unknown.
func (e extras) add(usd float64, spec driver.Query) driver.Price {
	if usd <= 0 {
		return driver.Price{}
	}
	return driver.USD(math.Round((usd+e.usd(spec))*1e6) / 1e6)
}

// spotPrices are the spot prices that were seen last, in USD an hour.
type spotPrices struct {
	api *client
	mu  sync.Mutex
	usd map[string]map[string]float64 // by instance type and zone; the inner maps are never changed
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
	in := ec2.DescribeSpotPriceHistoryInput{ProductDescriptions: []string{"Linux/UNIX"}, StartTime: sdk.Time(time.Now())}
	for _, name := range names {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	newest := map[[2]string]time.Time{}
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
		p.usd[name] = zones
	}
	return found, nil
}

// A priceList holds the prices on demand that were read from AWS's Price List, in USD an hour.
type priceList struct {
	api *client
	mu  sync.Mutex         // held during requests
	usd map[string]float64 // by instance type; 0 means unknown
	at  time.Time
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

// products asks the Price List for an instance type, or for all types of the region.
func (p *priceList) products(ctx context.Context, name string) (map[string]float64, error) {
	type match struct{ Type, Field, Value string }
	filters := []match{}
	for _, f := range [][2]string{
		{"regionCode", p.api.region}, {"operatingSystem", "Linux"}, {"tenancy", "Shared"}, {"preInstalledSw", "NA"}, {"capacitystatus", "Used"}, {"instanceType", name},
	} {
		if f[1] != "" {
			filters = append(filters, match{"TERM_MATCH", f[0], f[1]})
		}
	}
	found := map[string]float64{}
	for text, err := range rest.Pages(func(cursor string) ([]string, string, error) {
		in := map[string]any{"ServiceCode": "AmazonEC2", "FormatVersion": "aws_v1", "Filters": filters, "MaxResults": 100}
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
	}) {
		if err != nil {
			return nil, err
		}
		if name, usd := product(text); usd > 0 {
			found[name] = usd
		}
	}
	return found, nil
}

// product reads an item of the Price List: the type and its hourly price.
func product(text string) (name string, usd float64) {
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
			if err == nil && v > usd && (dimension.Unit == "" || dimension.Unit == "Hrs") {
				usd = v
			}
		}
	}
	return p.Product.Attributes.InstanceType, usd
}
