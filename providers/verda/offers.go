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

// hoursOfMonth converts Verda's prices of a month, as its command line does.
const hoursOfMonth = 730

// Offers yields the offers in stock, the preferred region first, and then those that cannot be
// launched, with the reason.
func (v *verda) Offers(ctx context.Context, spec driver.Query) iter.Seq2[driver.Offer, error] {
	return func(yield func(driver.Offer, error) bool) {
		fail := func(err error) { yield(driver.Offer{}, err) }
		places, err := v.places(ctx)
		if err != nil {
			fail(err)
			return
		}
		types, err := v.client.instanceTypes(ctx)
		if err != nil {
			fail(err)
			return
		}
		volumes, err := v.client.volumeTypes(ctx)
		if err != nil {
			fail(err)
			return
		}
		disk := diskPrice(volumes, spec)
		var rejected []driver.Offer
		for _, spot := range cloud.Markets(spec.Allocation) {
			all, err := v.client.stock(ctx, spot)
			if err != nil {
				fail(err)
				return
			}
			for _, at := range v.merged(all, places, spec) {
				for _, t := range types {
					o := offerOf(t, at.Location, spot, spec, disk)
					o.Country = countryOf(places, at.Location)
					if o.Rejected = hidden(t, spec); o.Rejected == "" && !slices.Contains(at.Types, t.InstanceType) {
						o.Rejected = "is sold out"
					}
					switch {
					case o.Rejected == "":
						if !yield(o, nil) {
							return
						}
					case spec.Accelerator.IsZero(), spec.Accelerator.Matches(o.Accelerator):
						rejected = append(rejected, o)
					}
				}
			}
		}
		for _, o := range rejected {
			if !yield(o, nil) {
				return
			}
		}
	}
}

// places returns the locations, and refuses a preferred region that does not exist. Only the API
// knows the regions.
func (v *verda) places(ctx context.Context) ([]location, error) {
	all, err := v.client.locations(ctx)
	if err != nil {
		return nil, err
	}
	var codes []string
	countries, found := map[string]string{}, v.cfg.Region == ""
	for _, l := range all {
		codes = append(codes, l.Code)
		countries[l.Code] = countryOf(all, l.Code)
		found = found || strings.EqualFold(l.Code, v.cfg.Region)
	}
	if !found {
		return nil, fmt.Errorf("%w: Region is %q; Verda has %s", driver.ErrInvalid, v.cfg.Region, strings.Join(codes, ", "))
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.countries = countries
	return all, nil
}

// countryOf returns the country of a location, or "" if the API does not tell.
func countryOf(places []location, code string) string {
	i := slices.IndexFunc(places, func(l location) bool { return strings.EqualFold(l.Code, code) })
	if i < 0 || len(places[i].Country) != 2 {
		return ""
	}
	return strings.ToUpper(places[i].Country)
}

// merged returns the stock by location, the preferred one first, without locations that the
// spec excludes. A location without stock comes too. The API may list a location twice.
func (v *verda) merged(all []stock, places []location, spec driver.Query) []stock {
	preferred := v.cfg.Region
	if preferred == "" {
		preferred = DefaultRegion
	}
	for _, l := range places {
		all = append(all, stock{Location: l.Code})
	}
	var out []stock
	for _, s := range all {
		i := slices.IndexFunc(out, func(o stock) bool { return o.Location == s.Location })
		switch {
		case !spec.Allows(s.Location, countryOf(places, s.Location)):
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

// hidden returns why a type is rented only by its name: machines for confidential computing, and
// AMD's, which have no image. It returns "" for other types, and for one that the spec names.
func hidden(t instanceType, spec driver.Query) string {
	amd := strings.EqualFold(t.Manufacturer, "AMD") || strings.Contains(t.Model, "7900XTX")
	switch {
	case named(t.InstanceType, spec):
		return ""
	case strings.HasSuffix(t.InstanceType, ".CC"):
		return fmt.Sprintf("is for confidential computing; accelerators.Exact(%q) asks for it", t.InstanceType)
	case amd:
		return fmt.Sprintf("has a GPU of AMD, for which there is no image; accelerators.Exact(%q) asks for it", t.InstanceType)
	}
	return ""
}

// named reports whether a spec asks for a type by its exact name.
func named(instanceType string, spec driver.Query) bool {
	return spec.Accelerator.Exact && spec.Accelerator.Name == instanceType
}

// diskPrice returns the price of the system volume that a launch for a spec makes. It is unknown
// if the API does not tell that of its kind, NVMe.
func diskPrice(types []volumeType, spec driver.Query) driver.Price {
	i := slices.IndexFunc(types, func(t volumeType) bool { return strings.EqualFold(t.Type, "NVMe") })
	if i < 0 {
		return driver.Price{}
	}
	return usd(types[i].Price.Monthly*decimal(diskGB(spec))/hoursOfMonth, types[i].Price.Currency)
}

func offerOf(t instanceType, location string, spot bool, spec driver.Query, disk driver.Price) driver.Offer {
	o := t.hardware.offer()
	o.ID, o.Region, o.Spot = offerID(location, t.InstanceType, spot), location, spot
	o.DiskGiB = float64(diskGB(spec)) * 1e9 / gib
	price := t.Price
	if spot {
		price = t.SpotPrice
	}
	o.HourlyUSD = usd(price, t.Currency)
	o.Warnings = warnings(t, price)
	machine, priced := o.HourlyUSD.USD()
	volume, known := disk.USD()
	switch {
	case priced && known:
		o.HourlyUSD = driver.USD(machine + volume)
		o.Parts = []driver.PricePart{{Name: "machine", HourlyUSD: machine}, {Name: "disk", HourlyUSD: volume}}
	case priced:
		o.Warnings = append(o.Warnings, fmt.Sprintf("its price is without its system volume of %d GB, which is billed too: the API tells no price", diskGB(spec)))
	}
	if o.Accelerator.IsZero() && t.GPU.Count > 0 || named(t.InstanceType, spec) {
		o.Accelerator = accelerators.Exact(t.InstanceType)
		o.Accelerator.Count = float64(t.GPU.Count)
	}
	return o
}

// warnings returns what the API says of a type, and the rate of a price in another currency.
func warnings(t instanceType, price decimal) (all []string) {
	if t.Warning != "" {
		all = append(all, "Verda says: "+t.Warning)
	}
	switch rate, err := rateOf(t.Currency); {
	case price == 0:
	case err != nil:
		all = append(all, err.Error())
	case rate.Code != "USD":
		all = append(all, rate.Warning())
	}
	return all
}

// billing is Verda's: prepaid in steps of ten minutes, of which the unused part is refunded (fact sheet of Verda, section 7).
var billing = driver.Billing{Refunds: true}

// offer returns the offer of the hardware, without place and price.
func (h hardware) offer() driver.Offer {
	o := driver.Offer{
		InstanceType: h.InstanceType, Arch: "amd64", BillingUnit: billingUnit, Billing: billing,
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
