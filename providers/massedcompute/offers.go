package massedcompute

import (
	"context"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// anywhere is the only region that a launch may name, by the API's description.
const anywhere = "any"

const gib = 1 << 30

// Offers yields each product with the accelerator, by one call. Spot machines are products of their
// own. One without a free machine has that as its reason.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		items, err := a.client.inventory(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(items)) {
			it := items[name]
			if it.Product.Name != name {
				err := odd("GET /gpu-inventory has product %q under %q", it.Product.Name, name)
				if rest.LeftOut(ctx, err) {
					continue
				}
				yield(driver.Offer{}, err)
				return
			}
			o := offerOf(it.Product, spec)
			o.Country = it.country()
			if !slices.Contains(cloud.Markets(spec.Allocation), o.Spot) || !spec.Accelerator.Matches(o.Accelerator) {
				continue
			}
			switch {
			case !it.free():
				o.Rejected = "is sold out"
			case !spec.Allows(o.Region, o.Country):
				continue
			case it.Capacity != nil:
				o.Available = *it.Capacity
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// free reports whether a product can be launched: by its number or, without that, by the stock
// of any region.
func (it item) free() bool {
	if it.Capacity != nil {
		return *it.Capacity > 0
	}
	return len(it.Regions) > 0
}

// country returns the ISO code of the country of all regions that have the product, or "".
func (it item) country() string {
	country := ""
	for i, r := range it.Regions {
		if c := r.country(); i == 0 {
			country = c
		} else if c != country {
			return ""
		}
	}
	return country
}

// A region's name begins with its country, "us-central-1", or with a continent.
var (
	regionForm = regexp.MustCompile(`^([a-z]{2})-`)
	continents = []string{"AF", "AP", "AS", "EU", "ME", "NA", "OC", "SA"}
)

// country returns the ISO code of a region's country, or "".
func (r region) country() string {
	m := regionForm.FindStringSubmatch(r.Name)
	if m == nil || slices.Contains(continents, strings.ToUpper(m[1])) {
		return ""
	}
	return strings.ToUpper(m[1])
}

var (
	deviceCount  = regexp.MustCompile(`(?i)^gpu_(\d+)x_`)
	deviceMemory = regexp.MustCompile(`(?i)\((\d+) ?GB\)`)
	spotName     = regexp.MustCompile(`(?i)_(?:spot|discount)(?:_|$)`)
	spotWord     = regexp.MustCompile(`(?i)\[spot\]`)
)

// offerOf returns the offer of a product. The price is for the complete machine. The name is
// sent back unchanged: some names have capital letters.
func offerOf(p product, spec driver.Query) driver.Offer {
	o := driver.Offer{
		ID: p.Name, InstanceType: p.Name, Region: anywhere, Arch: "amd64", BillingUnit: time.Minute,
		Spot:        spotName.MatchString(p.Name) || spotWord.MatchString(p.Description),
		Accelerator: cloud.Accelerator(providerName, p.Name, number(deviceCount, p.Name), float64(number(deviceMemory, p.Description)), spec.Accelerator),
		VCPUs:       p.Specs.VCPUs, MemoryGiB: p.Specs.MemoryGiB, DiskGiB: p.Specs.StorageGB * 1e9 / gib,
	}
	if p.Cents > 0 {
		o.HourlyUSD = driver.USD(float64(p.Cents) / 100)
	}
	return o
}

// number returns the number that a form matches in a text, or zero.
func number(form *regexp.Regexp, text string) int {
	m := form.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// isProduct reports whether an offer's ID is the name of a product.
func isProduct(id string) bool { return id != "" && !strings.ContainsAny(id, " /\n") }
