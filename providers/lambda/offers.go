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

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Offers yields each type of machine with the accelerator, in each region that has some free,
// by one call. There is no spot.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		items, err := a.client.types(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		for _, name := range slices.Sorted(maps.Keys(items)) {
			it := items[name]
			if it.Type.Name != name {
				yield(driver.Offer{}, odd("GET /instance-types has type %q under %q", it.Type.Name, name))
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
	arm          = regexp.MustCompile(`^gpu_\d+x_g[hb]\d+`) // their processor is Grace
)

// offerOf returns the offer of a type of machine in a region. The price is for the complete
// machine.
func offerOf(t instanceType, region string, spec driver.Query) driver.Offer {
	memory := 0.0
	if m := deviceMemory.FindStringSubmatch(t.GPUDescription); m != nil {
		memory, _ = strconv.ParseFloat(m[1], 64)
	}
	o := driver.Offer{
		ID: region + "/" + t.Name, InstanceType: t.Name, Region: region, Arch: "amd64", BillingUnit: time.Minute,
		Accelerator: cloud.Accelerator(providerName, t.Name, t.Specs.GPUs, memory, spec.Accelerator),
		VCPUs:       t.Specs.VCPUs, MemoryGiB: t.Specs.MemoryGiB, DiskGiB: t.Specs.StorageGiB,
	}
	if arm.MatchString(t.Name) {
		o.Arch = "arm64"
	}
	if t.Cents > 0 {
		o.HourlyUSD = driver.USD(float64(t.Cents) / 100)
	}
	return o
}

// place splits an offer's ID into the region and the type of machine.
func place(o driver.Offer) (region, product string, err error) {
	region, product, ok := strings.Cut(o.ID, "/")
	if !ok || region == "" || product == "" {
		return "", "", fmt.Errorf("%w: %q is not the ID of a Lambda offer", driver.ErrInvalid, o.ID)
	}
	return region, product, nil
}
