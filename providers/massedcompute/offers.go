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

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// anywhere is the one region that a launch may name by the API's description.
const anywhere = "any"

const gib = 1 << 30

// Offers yields each product that has the accelerator and of which some are free, by one
// call. Spot machines are products of their own.
func (a *api) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		items, err := a.client.inventory(ctx)
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(items)) {
			it := items[name]
			if it.Product.Name != name {
				yield(gputrain.Offer{}, odd("GET /gpu-inventory tells of %q under %q", it.Product.Name, name))
				return
			}
			o := offerOf(it.Product, spec)
			if !it.free() || !slices.Contains(cloud.Markets(spec.Allocation), o.Spot) || !spec.Accelerator.Matches(o.Accelerator) {
				continue
			}
			if it.Capacity != nil {
				o.Available = *it.Capacity
			}
			if !yield(o, nil) {
				return
			}
		}
	}
}

// free is whether one can be launched: by the number of them, and without that by whether
// any region has some.
func (it item) free() bool {
	if it.Capacity != nil {
		return *it.Capacity > 0
	}
	return len(it.Regions) > 0
}

var (
	deviceCount  = regexp.MustCompile(`(?i)^gpu_(\d+)x_`)
	deviceMemory = regexp.MustCompile(`(?i)\((\d+) ?GB\)`)
	spotName     = regexp.MustCompile(`(?i)_(?:spot|discount)(?:_|$)`)
	spotWord     = regexp.MustCompile(`(?i)\[spot\]`)
)

// offerOf is a product. Its price is of the whole machine, and its name is sent back as it
// is: some have capital letters.
func offerOf(p product, spec gputrain.Spec) gputrain.Offer {
	o := gputrain.Offer{
		ID: p.Name, InstanceType: p.Name, Region: anywhere, Arch: "amd64", BillingUnit: time.Minute,
		Spot:        spotName.MatchString(p.Name) || spotWord.MatchString(p.Description),
		Accelerator: cloud.Accelerator(providerName, p.Name, number(deviceCount, p.Name), float64(number(deviceMemory, p.Description)), spec.Accelerator),
		VCPUs:       p.Specs.VCPUs, MemoryGiB: p.Specs.MemoryGiB, DiskGiB: p.Specs.StorageGB * 1e9 / gib,
	}
	if p.Cents > 0 {
		o.HourlyUSD = gputrain.USD(float64(p.Cents) / 100)
	}
	return o
}

// number is what a form finds in a text, and zero where there is nothing.
func number(form *regexp.Regexp, text string) int {
	m := form.FindStringSubmatch(text)
	if m == nil {
		return 0
	}
	n, _ := strconv.Atoi(m[1])
	return n
}

// isProduct is whether an offer's ID is the name of a product.
func isProduct(id string) bool { return id != "" && !strings.ContainsAny(id, " /\n") }
