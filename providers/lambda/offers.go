package lambda

import (
	"cmp"
	"context"
	"fmt"
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

// Offers yields each type of machine with the accelerator, in each region that has some free, by
// one call, and then those that cannot be launched, with the reason. There is no spot.
func (a *api) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		items, err := a.client.types(ctx)
		if err != nil {
			yield(driver.Offer{}, err)
			return
		}
		var rejected []driver.Offer
		for _, name := range slices.Sorted(maps.Keys(items)) {
			it := items[name]
			if it.Type.Name != name {
				err := odd("GET /instance-types has type %q under %q", it.Type.Name, name)
				if rest.LeftOut(ctx, err) {
					continue
				}
				yield(driver.Offer{}, err)
				return
			}
			soldOut := true
			for _, r := range it.Regions {
				o := offerOf(it.Type, r, spec)
				switch {
				case !spec.Accelerator.Matches(o.Accelerator):
				case a.region != "" && r.Name != a.region:
					o.Rejected = fmt.Sprintf("is in %s; Config.Region is %s", r.Name, a.region)
					rejected = append(rejected, o)
				default:
					soldOut = false
					if !yield(o, nil) {
						return
					}
				}
			}
			if o := offerOf(it.Type, region{Name: a.region}, spec); soldOut && spec.Accelerator.Matches(o.Accelerator) {
				o.Rejected = "is sold out"
				rejected = append(rejected, o)
			}
		}
		for _, o := range rejected {
			if !yield(o, nil) {
				return
			}
		}
	}
}

var (
	deviceMemory = regexp.MustCompile(`\((\d+) GB`)
	arm          = regexp.MustCompile(`^gpu_\d+x_g[hb]\d+`) // their processor is Grace
)

// billing is Lambda's: by the minute, from the moment at which health checks pass until the end is accepted (fact sheet of
// Lambda, section 7).
var billing = driver.Billing{AfterLaunch: true}

// unbilled are the states of an instance whose health checks have not passed.
var unbilled = []string{"booting", "unhealthy", "terminating", "terminated"}

// offerOf returns the offer of a type of machine in a region. The price is for the complete
// machine.
func offerOf(t instanceType, in region, spec driver.Query) driver.Offer {
	memory := 0.0
	if m := deviceMemory.FindStringSubmatch(t.GPUDescription); m != nil {
		memory, _ = strconv.ParseFloat(m[1], 64)
	}
	o := driver.Offer{
		ID: in.Name + "/" + t.Name, InstanceType: t.Name, Region: in.Name, Country: in.country(), Arch: "amd64", BillingUnit: time.Minute, Billing: billing,
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

var (
	// countries are the countries in the descriptions of regions.
	countries = map[string]string{"USA": "US", "Germany": "DE", "India": "IN", "Japan": "JP", "Australia": "AU", "Israel": "IL"}
	// countriesOfNames are those of the names of regions without their numbers, for answers
	// without a description, or with one in other words.
	countriesOfNames = map[string]string{
		"us-east": "US", "us-west": "US", "us-south": "US", "us-midwest": "US", "europe-central": "DE", "asia-south": "IN",
		"asia-northeast": "JP", "australia-east": "AU", "me-west": "IL",
	}
)

// country returns the country of a region, or "" if it is unknown.
func (r region) country() string {
	place := r.Description[strings.LastIndex(r.Description, ",")+1:]
	name := r.Name[:max(strings.LastIndex(r.Name, "-"), 0)]
	return cmp.Or(countries[strings.TrimSpace(place)], countriesOfNames[name])
}

// place splits an offer's ID into the region and the type of machine.
func place(o driver.Offer) (region, product string, err error) {
	region, product, ok := strings.Cut(o.ID, "/")
	if !ok || region == "" || product == "" {
		return "", "", fmt.Errorf("%w: %q is not the ID of a Lambda offer", driver.ErrInvalid, o.ID)
	}
	return region, product, nil
}
