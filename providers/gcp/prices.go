package gcp

import (
	"context"
	"encoding/json"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// The catalogue of Cloud Billing has hourly prices of parts of machines. Only their
// descriptions identify the parts:
//
//	G2 Instance Core running in Americas
//	Spot Preemptible A2 Instance Ram running in Netherlands
//	Nvidia L4 GPU attached to Spot Preemptible VMs running in Iowa
//
// A part that is missing, or found twice at different prices, makes the price of a machine
// unknown.

const (
	computeService = "/v1/services/6F81-5844-456A/skus"
	// Prices expire after pricesFor. After a refusal they are requested again after failureFor.
	pricesFor     = 24 * time.Hour
	failureFor    = 10 * time.Minute
	hoursPerMonth = 730
)

// A part is a thing that has a price.
type part struct {
	what   string // "core g2", "ram g2", "gpu nvidia-l4", "slice nvidia-b200", "ssd", "disk pd-ssd", "address standard", "egress"
	region string
	spot   bool
}

// prices are in USD an hour: of one vCPU, of one GiB, of one GPU, of one address; that of egress is
// in USD per GiB. A part with two prices is NaN.
type prices map[part]float64

// A sku is an item of the catalogue, with the fields that are read.
type sku struct {
	Description string `json:"description"`
	Category    struct {
		UsageType string `json:"usageType"`
	} `json:"category"`
	ServiceRegions []string `json:"serviceRegions"`
	PricingInfo    []struct {
		PricingExpression struct {
			UsageUnit   string `json:"usageUnit"`
			TieredRates []struct {
				UnitPrice struct {
					CurrencyCode string      `json:"currencyCode"`
					Units        json.Number `json:"units"`
					Nanos        int64       `json:"nanos"`
				} `json:"unitPrice"`
			} `json:"tieredRates"`
		} `json:"pricingExpression"`
	} `json:"pricingInfo"`
}

// others matches descriptions of items that are not rented by the hour on demand or on spot.
var others = regexp.MustCompile(`(?i)sole tenancy|reserved|premium|custom|suspended|commitment|\bDWS\b|capacity optimized`)

var (
	coreText  = regexp.MustCompile(`(?i)^(.+?) (core|ram) running in `)
	gpuText   = regexp.MustCompile(`(?i)^(nvidia .+?) gpu (?:attached to spot preemptible vms )?running in `)
	sliceText = regexp.MustCompile(`(?i)^\S+ (nvidia .+?) \(1 gpu slice\) running in `)
	diskText  = regexp.MustCompile(`(?i)^(balanced pd|ssd backed pd|storage pd|extreme pd|hyperdisk balanced) capacity(?: in .*)?$`)
	ipText    = regexp.MustCompile(`(?i)^external ip charge on a (standard|spot preemptible) vm$`)
	outText   = regexp.MustCompile(`(?i)^network internet (?:egress|data transfer out) from .+ to .+$`)
	ssdText   = regexp.MustCompile(`(?i)^ssd backed local storage(?: attached to spot preemptible vms)?(?: in .*)?$`)
	spotText  = regexp.MustCompile(`(?i)^(?:spot )?preemptible `)
)

// diskTypes are the types of disks by their names in the catalogue.
var diskTypes = map[string]string{
	"balanced pd": "pd-balanced", "ssd backed pd": "pd-ssd", "storage pd": "pd-standard", "extreme pd": "pd-extreme", "hyperdisk balanced": "hyperdisk-balanced",
}

// gpuNames are GPUs whose name in the catalogue differs from the API's.
var gpuNames = map[string]string{
	"nvidia-tesla-a100-80gb": "nvidia-a100-80gb",
	"nvidia-h100-80gb-mega":  "nvidia-h100-mega-80gb",
	"nvidia-h100-80gb-plus":  "nvidia-h100-mega-80gb",
}

// decoration are words that may stand between a family's name and "core" or "ram".
var decoration = []string{"instance", "predefined", "amd", "arm"}

// partOf reads a description and returns the part and the unit of its price.
func partOf(description string) (what, unit string) {
	text := spotText.ReplaceAllString(description, "")
	name := func(s string) string { return strings.ReplaceAll(strings.ToLower(s), " ", "-") }
	if m := coreText.FindStringSubmatch(text); m != nil {
		words := strings.Fields(strings.ToLower(m[1]))
		family := words[0]
		switch {
		case strings.HasPrefix(strings.Join(words, " "), "compute optimized"):
			family = "c2"
		case slices.ContainsFunc(words[1:], func(w string) bool { return !slices.Contains(decoration, w) }):
			return "", "" // of another kind
		}
		if resource := strings.ToLower(m[2]); resource == "ram" {
			return "ram " + family, "GiBy.h"
		}
		return "core " + family, "h"
	}
	if m := gpuText.FindStringSubmatch(text); m != nil {
		gpu := name(m[1])
		if known, ok := gpuNames[gpu]; ok {
			gpu = known
		}
		return "gpu " + gpu, "h"
	}
	if m := sliceText.FindStringSubmatch(text); m != nil {
		return "slice " + name(m[1]), "h"
	}
	if ssdText.MatchString(text) {
		return "ssd", "GiBy.mo"
	}
	if m := diskText.FindStringSubmatch(text); m != nil {
		return "disk " + diskTypes[strings.ToLower(m[1])], "GiBy.mo"
	}
	if m := ipText.FindStringSubmatch(text); m != nil {
		return "address " + strings.ToLower(m[1]), "h"
	}
	if outText.MatchString(text) {
		return "egress", "GiBy"
	}
	return "", ""
}

// add adds a SKU's prices.
func (p prices) add(s sku) {
	spot := s.Category.UsageType == "Preemptible" || spotText.MatchString(s.Description)
	if s.Category.UsageType != "OnDemand" && s.Category.UsageType != "Preemptible" || others.MatchString(s.Description) || len(s.PricingInfo) == 0 {
		return
	}
	price := s.PricingInfo[len(s.PricingInfo)-1].PricingExpression
	what, unit := partOf(s.Description)
	if what == "" || price.UsageUnit != unit || len(price.TieredRates) == 0 {
		return
	}
	usd := 0.0 // the highest rate: what the account gets for free, or cheaper in bulk, may be used up, or far away
	for _, tier := range price.TieredRates {
		rate := tier.UnitPrice
		units, err := strconv.ParseFloat(rate.Units.String(), 64)
		if rate.Units == "" {
			units, err = 0, nil
		}
		if err != nil || rate.CurrencyCode != "USD" {
			return
		}
		usd = max(usd, units+float64(rate.Nanos)/1e9)
	}
	if !(usd > 0) {
		return
	}
	if unit == "GiBy.mo" {
		usd /= hoursPerMonth
	}
	for _, region := range s.ServiceRegions {
		k := part{what, region, spot}
		switch before, there := p[k]; {
		case there && what == "egress":
			p[k] = min(before, usd) // to the nearest continent
		case there && before != usd:
			p[k] = math.NaN()
		default:
			p[k] = usd
		}
	}
}

// egress returns the price of a GiB from a region to the internet, or 0 if it is not known.
func (p prices) egress(region string) float64 { return p[part{"egress", region, false}] }

// setPrice sets the price of an offer with all its parts: machine, disk and public address. What
// the catalogue does not price is missing in it, with a warning; without a price of the machine
// there is none.
func (c Config) setPrice(o *driver.Offer, p prices, m machine, diskGB int64) {
	region := regionOf(o.Region)
	if c.Reservation != "" {
		o.Warnings = append(o.Warnings, "it runs in the reservation "+c.Reservation+", which is billed at the price of its machines until it is deleted, whether they run or not")
	}
	if c.ServiceAccount == "" {
		o.Warnings = append(o.Warnings, "without Config.ServiceAccount it can shut itself down, but not delete itself: its disk is billed until gputrain.Reap ends it")
	}
	sum, known := p.machine(m, region, o.Spot).USD()
	if !known {
		return
	}
	parts := []driver.PricePart{{Name: "machine", HourlyUSD: sum}}
	add := func(name string, amount float64, what part) {
		usd, known := p[what]
		if !known || math.IsNaN(usd) {
			o.Warnings = append(o.Warnings, "its price is without its "+name+", whose price is not known")
			return
		}
		parts = append(parts, driver.PricePart{Name: name, HourlyUSD: amount * usd})
		sum += amount * usd
	}
	add("disk", float64(diskGB), part{"disk " + c.diskType(family(m.name)), region, false})
	if market := map[bool]string{false: "standard", true: "spot preemptible"}[o.Spot]; !c.PrivateIP {
		add("address", 1, part{"address " + market, "global", false})
	}
	if o.HourlyUSD = driver.USD(math.Round(sum*1e6) / 1e6); len(parts) > 1 {
		o.Parts = parts
	}
}

// machine returns the price of a machine, without its disk and its address.
func (p prices) machine(m machine, region string, spot bool) driver.Price {
	sum := 0.0
	take := func(n float64, what string) {
		usd, known := p[part{what, region, spot}]
		if !known {
			usd = math.NaN()
		}
		if n > 0 {
			sum += n * usd
		}
	}
	if _, sliced := p[part{"slice " + m.gpu, region, spot}]; sliced && m.gpu != "" {
		take(float64(m.gpus), "slice "+m.gpu) // includes everything that belongs to one GPU
	} else {
		take(float64(m.vcpus), "core "+priceFamily(m.name))
		take(m.memory, "ram "+priceFamily(m.name))
		take(float64(m.gpus), "gpu "+m.gpu)
		take(m.ssd, "ssd")
	}
	if math.IsNaN(sum) || m.shared {
		return driver.Price{}
	}
	return driver.USD(math.Round(sum*1e6) / 1e6)
}

// priceFamily returns the catalogue's name of a family of machines.
func priceFamily(name string) string {
	switch {
	case strings.HasPrefix(name, "a3-megagpu-"):
		return "a3plus"
	case strings.HasPrefix(name, "a3-ultragpu-"):
		return "a3ultra"
	}
	return family(name)
}

// A priceList holds the known prices, for all drivers of a program in one project.
type priceList struct {
	mu     sync.Mutex
	known  prices
	at     time.Time
	failed time.Time
}

var priceLists sync.Map // by priceListKey

// A priceListKey is the address that prices come from, and the project that asks.
type priceListKey struct{ endpoint, project string }

func priceListOf(cfg Config) *priceList {
	c, _ := priceLists.LoadOrStore(priceListKey{cfg.billing(), cfg.ProjectID}, &priceList{})
	return c.(*priceList)
}

func (c *priceList) prices(ctx context.Context, api *rest.Client) (prices, error) {
	c.mu.Lock()
	known, at, failed := c.known, c.at, c.failed
	c.mu.Unlock()
	switch {
	case known != nil && time.Since(at) < pricesFor:
		return known, nil
	case time.Since(failed) < failureFor:
		return nil, nil
	}
	found, err := fetchPrices(ctx, api)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case err == nil && len(found) > 0:
		c.known, c.at = found, time.Now()
	case ctx.Err() == nil:
		c.failed = time.Now()
	}
	return found, err
}

func fetchPrices(ctx context.Context, api *rest.Client) (prices, error) {
	found := prices{}
	query := url.Values{"pageSize": {"5000"}, "currencyCode": {"USD"}}
	for {
		var page struct {
			SKUs          []sku  `json:"skus"`
			NextPageToken string `json:"nextPageToken"`
		}
		if err := api.Do(ctx, "GET", computeService, nil, &page, rest.Query(query)); err != nil {
			return nil, err
		}
		for _, s := range page.SKUs {
			found.add(s)
		}
		if page.NextPageToken == "" || page.NextPageToken == query.Get("pageToken") {
			return found, nil
		}
		query.Set("pageToken", page.NextPageToken)
	}
}

// billingFault reads a failure of the Billing API.
func billingFault(status int, body []byte) *rest.Fault {
	var said struct {
		Error struct {
			Message string `json:"message"`
			Status  string `json:"status"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error.Message == "" {
		return nil
	}
	return &rest.Fault{Code: said.Error.Status, Message: said.Error.Message}
}
