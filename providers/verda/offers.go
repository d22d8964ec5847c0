package verda

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	gib = 1 << 30
	// defaultDiskGB is the system volume's size if Spec.DiskGiB is zero. The images need
	// minDiskGB.
	defaultDiskGB, minDiskGB = 100, 50
	billingUnit              = 10 * time.Minute
)

// Offers yields the offers in stock, the preferred region first.
func (v *verda) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		fail := func(err error) { yield(driver.Offer{}, err) }
		if err := v.checkRegion(ctx); err != nil {
			fail(err)
			return
		}
		types, err := v.client.instanceTypes(ctx)
		if err != nil {
			fail(err)
			return
		}
		for _, spot := range cloud.Markets(spec.Allocation) {
			all, err := v.client.stock(ctx, spot)
			if err != nil {
				fail(err)
				return
			}
			for _, at := range v.merged(all, spec) {
				for _, t := range types {
					if !slices.Contains(at.Types, t.InstanceType) || hidden(t, spec) {
						continue
					}
					if !yield(offerOf(t, at.Location, spot, spec), nil) {
						return
					}
				}
			}
		}
	}
}

// checkRegion refuses a preferred region that does not exist. Only the API knows the regions.
func (v *verda) checkRegion(ctx context.Context) error {
	if v.cfg.Region == "" {
		return nil
	}
	all, err := v.client.locations(ctx)
	if err != nil {
		return err
	}
	var codes []string
	for _, l := range all {
		if strings.EqualFold(l.Code, v.cfg.Region) {
			return nil
		}
		codes = append(codes, l.Code)
	}
	return fmt.Errorf("%w: Region is %q; Verda has %s", driver.ErrInvalid, v.cfg.Region, strings.Join(codes, ", "))
}

// merged returns the stock by location, the preferred one first, without locations that the
// spec excludes. The API may list a location twice.
func (v *verda) merged(all []stock, spec driver.Query) []stock {
	preferred := v.cfg.Region
	if preferred == "" {
		preferred = DefaultRegion
	}
	var out []stock
	for _, s := range all {
		i := slices.IndexFunc(out, func(o stock) bool { return o.Location == s.Location })
		switch {
		case len(spec.Regions) > 0 && !slices.ContainsFunc(spec.Regions, func(r string) bool { return isIn(s.Location, r) }):
		case i >= 0:
			out[i].Types = slices.Concat(out[i].Types, s.Types)
		default:
			out = append(out, s)
		}
	}
	slices.SortStableFunc(out, func(a, b stock) int {
		switch aFirst, bFirst := strings.EqualFold(a.Location, preferred), strings.EqualFold(b.Location, preferred); {
		case aFirst == bFirst:
			return 0
		case aFirst:
			return -1
		}
		return 1
	})
	return out
}

// isIn reports whether a location is a region, or one of several with its prefix: FIN has
// FIN-01.
func isIn(location, region string) bool {
	rest, inside := strings.CutPrefix(strings.ToUpper(location), strings.ToUpper(region))
	return inside && (rest == "" || rest[0] == '-')
}

// hidden reports whether a type is offered only by its name: machines for confidential
// computing, and AMD's, which have no image.
func hidden(t instanceType, spec driver.Query) bool {
	special := strings.HasSuffix(t.InstanceType, ".CC") || strings.EqualFold(t.Manufacturer, "AMD") || strings.Contains(t.Model, "7900XTX")
	return special && !named(t.InstanceType, spec)
}

// named reports whether a spec asks for a type by its exact name.
func named(instanceType string, spec driver.Query) bool {
	return spec.Accelerator.Exact && spec.Accelerator.Name == instanceType
}

func offerOf(t instanceType, location string, spot bool, spec driver.Query) driver.Offer {
	o := t.hardware.offer()
	o.ID, o.Region, o.Spot = offerID(location, t.InstanceType, spot), location, spot
	o.DiskGiB = float64(diskGB(spec)) * 1e9 / gib
	o.HourlyUSD = usd(t.Price, t.Currency)
	if spot {
		o.HourlyUSD = usd(t.SpotPrice, t.Currency)
	}
	if o.Accelerator.IsZero() && t.GPU.Count > 0 || named(t.InstanceType, spec) {
		o.Accelerator = accelerators.Exact(t.InstanceType)
		o.Accelerator.Count = float64(t.GPU.Count)
	}
	return o
}

// offer returns the offer of the hardware, without place and price.
func (h hardware) offer() driver.Offer {
	o := driver.Offer{
		InstanceType: h.InstanceType, Arch: "amd64", BillingUnit: billingUnit,
		VCPUs: h.CPU.Cores, MemoryGiB: h.Memory.GB, Accelerator: h.accelerator(),
	}
	if strings.HasPrefix(o.Accelerator.Name, "GB") || strings.HasPrefix(o.Accelerator.Name, "GH") {
		o.Arch = "arm64" // its processor is Grace
	}
	return o
}

// accelerator reads the description or, if that fails, the type. The memory in the description
// is that of one GPU; whether gpu_memory is that too is uncertain.
func (h hardware) accelerator() accelerators.Accelerator {
	if h.GPU.Count == 0 {
		return accelerators.Accelerator{}
	}
	a, err := accelerators.ParseFrom(providerName, h.GPU.Description)
	if err != nil || a.IsZero() {
		if a, err = accelerators.ParseFrom(providerName, h.InstanceType); err != nil {
			return accelerators.Accelerator{}
		}
	}
	a.Count = float64(h.GPU.Count)
	if a.MemoryGiB == 0 && h.GPUMemory.GB > 0 {
		a.MemoryGiB = h.GPUMemory.GB / a.Count
	}
	return a
}

// diskGB returns the size of the system volume.
func diskGB(spec driver.Query) int {
	if spec.DiskGiB <= 0 {
		return defaultDiskGB
	}
	return max(int(math.Ceil(spec.DiskGiB*gib/1e9)), minDiskGB)
}

// offerID returns an offer's ID, which is all that a launch needs: "FIN-01/1H100.80S.30V/spot".
func offerID(location, instanceType string, spot bool) string {
	if spot {
		return location + "/" + instanceType + "/spot"
	}
	return location + "/" + instanceType + "/on-demand"
}

func parseOffer(id string) (location, instanceType string, spot bool, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] != "spot" && parts[2] != "on-demand" {
		return "", "", false, fmt.Errorf("%w: %q is not the ID of a Verda offer", driver.ErrInvalid, id)
	}
	return parts[0], parts[1], parts[2] == "spot", nil
}
