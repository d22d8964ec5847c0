package verda

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	gib = 1 << 30
	// defaultDiskGB is the system volume's size where Spec.DiskGiB is zero, and minDiskGB
	// what the images need.
	defaultDiskGB, minDiskGB = 100, 50
	billingUnit              = 10 * time.Minute
)

// Offers yields what is in stock, in the preferred region first.
func (v *verda) Offers(ctx context.Context, spec gputrain.Spec) iter.Seq2[gputrain.Offer, error] {
	return func(yield func(gputrain.Offer, error) bool) {
		fail := func(err error) { yield(gputrain.Offer{}, err) }
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

// checkRegion refuses a preferred region that does not exist, where one is given. Which there
// are only the API knows.
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
	return fmt.Errorf("%w: Region is %q; Verda has %s", gputrain.ErrInvalid, v.cfg.Region, strings.Join(codes, ", "))
}

// merged returns the stock by location, as the API may have one twice: the preferred first,
// and none that the spec does not allow.
func (v *verda) merged(all []stock, spec gputrain.Spec) []stock {
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

// isIn is whether a location is a region, or one of several whose names begin so: FIN has
// FIN-01.
func isIn(location, region string) bool {
	rest, inside := strings.CutPrefix(strings.ToUpper(location), strings.ToUpper(region))
	return inside && (rest == "" || rest[0] == '-')
}

// hidden is whether a type is only for who names it: machines for confidential computing, and
// AMD's, for which there is no image.
func hidden(t instanceType, spec gputrain.Spec) bool {
	special := strings.HasSuffix(t.InstanceType, ".CC") || strings.EqualFold(t.Manufacturer, "AMD") || strings.Contains(t.Model, "7900XTX")
	return special && !named(t.InstanceType, spec)
}

// named is whether a spec asks for a type by its very name.
func named(instanceType string, spec gputrain.Spec) bool {
	return spec.Accelerator.Exact && spec.Accelerator.Name == instanceType
}

func offerOf(t instanceType, location string, spot bool, spec gputrain.Spec) gputrain.Offer {
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

// offer is what hardware is, without place and price.
func (h hardware) offer() gputrain.Offer {
	o := gputrain.Offer{
		InstanceType: h.InstanceType, Arch: "amd64", BillingUnit: billingUnit,
		VCPUs: h.CPU.Cores, MemoryGiB: h.Memory.GB, Accelerator: h.accelerator(),
	}
	if strings.HasPrefix(o.Accelerator.Name, "GB") || strings.HasPrefix(o.Accelerator.Name, "GH") {
		o.Arch = "arm64" // the processor is Grace
	}
	return o
}

// accelerator is what the description means, or else the type. The memory in the former is
// that of one GPU; whether gpu_memory is, is not certain.
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

// diskGB is the size of the system volume.
func diskGB(spec gputrain.Spec) int {
	if spec.DiskGiB <= 0 {
		return defaultDiskGB
	}
	return max(int(math.Ceil(spec.DiskGiB*gib/1e9)), minDiskGB)
}

// An offer's ID is all that a launch needs to know of it: "FIN-01/1H100.80S.30V/spot".
func offerID(location, instanceType string, spot bool) string {
	if spot {
		return location + "/" + instanceType + "/spot"
	}
	return location + "/" + instanceType + "/on-demand"
}

func parseOffer(id string) (location, instanceType string, spot bool, err error) {
	parts := strings.Split(id, "/")
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] != "spot" && parts[2] != "on-demand" {
		return "", "", false, fmt.Errorf("%w: %q is not the ID of an offer of Verda's", gputrain.ErrInvalid, id)
	}
	return parts[0], parts[1], parts[2] == "spot", nil
}
