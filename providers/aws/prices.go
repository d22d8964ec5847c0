package aws

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	sdk "github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"golang.org/x/sync/errgroup"

	"github.com/gputrain/gputrain/internal/rest"
)

const (
	// priceAge is how long a price on demand is taken for the present one.
	priceAge = 24 * time.Hour
	// pricesAtOnce is how many prices are asked for at the same time, and manyPrices from
	// how many on it is quicker to ask for all that the region has.
	pricesAtOnce, manyPrices = 10, 30
)

// A prices table is what is known of prices on demand, in USD an hour.
type prices struct {
	mu  sync.Mutex
	usd map[string]float64 // by instance type; 0 is one that is not known
	at  time.Time
}

// spotPrices returns the present prices of instance types, by their zones.
func (d *driver) spotPrices(ctx context.Context, names []string) (map[string]map[string]float64, error) {
	found := map[string]map[string]float64{}
	if len(names) == 0 || !paysUSD(d.api.region) {
		return found, nil
	}
	in := ec2.DescribeSpotPriceHistoryInput{ProductDescriptions: []string{"Linux/UNIX"}, StartTime: sdk.Time(time.Now())}
	for _, name := range names {
		in.InstanceTypes = append(in.InstanceTypes, types.InstanceType(name))
	}
	newest := map[[2]string]time.Time{}
	pages := ec2.NewDescribeSpotPriceHistoryPaginator(d.api.ec2, &in)
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if isDenied(err) {
			return map[string]map[string]float64{}, nil // not known
		}
		if err != nil {
			return nil, err
		}
		for _, p := range page.SpotPriceHistory {
			name, zone := string(p.InstanceType), sdk.ToString(p.AvailabilityZone)
			usd, err := strconv.ParseFloat(sdk.ToString(p.SpotPrice), 64)
			at := sdk.ToTime(p.Timestamp)
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
	d.mu.Lock()
	defer d.mu.Unlock()
	for name, zones := range found {
		d.spot[name] = zones
	}
	return found, nil
}

// onDemandPrices returns the prices of instance types, where they are known.
func (d *driver) onDemandPrices(ctx context.Context, names []string) (map[string]float64, error) {
	if d.api.pricing == nil {
		return map[string]float64{}, nil // not known
	}
	p := &d.prices
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
			found, err := d.products(gctx, name)
			if err == nil && name != "" {
				found = map[string]float64{name: found[name]}
			}
			note(found)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		if isDenied(err) {
			return map[string]float64{}, nil // not known
		}
		return nil, err
	}
	return maps.Clone(p.usd), nil
}

// products asks the Price List for an instance type, or for all of the region.
func (d *driver) products(ctx context.Context, name string) (map[string]float64, error) {
	type match struct{ Type, Field, Value string }
	filters := []match{}
	for _, f := range [][2]string{
		{"regionCode", d.api.region}, {"operatingSystem", "Linux"}, {"tenancy", "Shared"}, {"preInstalledSw", "NA"}, {"capacitystatus", "Used"}, {"instanceType", name},
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
		if err := jsonCall(ctx, d.api.pricing, "AWSPriceListService.GetProducts", in, &out); err != nil {
			return nil, "", err
		}
		if out.PriceList == nil {
			return nil, "", fmt.Errorf("GetProducts: %w: it has no list of prices, not even an empty one", rest.ErrAnswer)
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

// product reads an item of the Price List: the type, and what an hour of it costs.
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
