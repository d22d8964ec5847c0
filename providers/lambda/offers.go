package lambda

import (
	"context"
	"fmt"
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

// Offers yields each type of machine that has the accelerator, in each region that has some
// free, by one call. There is no spot.
func (a *api) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		items, err := a.client.types(ctx)
		if err != nil {
			yield(gputrain.Offer{}, err)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(items)) {
			it := items[name]
			if it.Type.Name != name {
				yield(gputrain.Offer{}, odd("GET /instance-types tells of %q under %q", it.Type.Name, name))
				return
			}
			for _, r := range it.Regions {
				o := offerOf(it.Type, r.Name, spec)
				if a.region != "" && r.Name != a.region || !spec.Accelerator.Matches(o.Accelerator) {
					continue
				}
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

var (
	deviceMemory = regexp.MustCompile(`\((\d+) GB`)
	arm          = regexp.MustCompile(`^gpu_\d+x_g[hb]\d+`) // Grace is the processor of these
)

// offerOf is a type of machine in a region. The price is of the whole machine.
func offerOf(t instanceType, region string, spec gputrain.Spec) gputrain.Offer {
	memory := 0.0
	if m := deviceMemory.FindStringSubmatch(t.GPUDescription); m != nil {
		memory, _ = strconv.ParseFloat(m[1], 64)
	}
	o := gputrain.Offer{
		ID: region + "/" + t.Name, InstanceType: t.Name, Region: region, Arch: "amd64", BillingUnit: time.Minute,
		Accelerator: cloud.Accelerator(providerName, t.Name, t.Specs.GPUs, memory, spec.Accelerator),
		VCPUs:       t.Specs.VCPUs, MemoryGiB: t.Specs.MemoryGiB, DiskGiB: t.Specs.StorageGiB,
	}
	if arm.MatchString(t.Name) {
		o.Arch = "arm64"
	}
	if t.Cents > 0 {
		o.HourlyUSD = gputrain.USD(float64(t.Cents) / 100)
	}
	return o
}

// place reads an offer's ID: what is rented, and where.
func place(o gputrain.Offer) (region, product string, err error) {
	region, product, ok := strings.Cut(o.ID, "/")
	if !ok || region == "" || product == "" {
		return "", "", fmt.Errorf("%w: %q is not the ID of an offer of Lambda's", gputrain.ErrInvalid, o.ID)
	}
	return region, product, nil
}
