package tensordock

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func lines(all []driver.Offer) (out []string) {
	for _, o := range all {
		out = append(out, fmt.Sprintf("%s in %s: %v %v", o.ID, o.Region, o.Accelerator, o.HourlyUSD))
	}
	return out
}

// An offer has the requested number of GPUs, not max_count, at the sum of the prices. A country
// has several names. What cannot be had is offered with the reason.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.locations = append(f.locations, place("loc-full", "Berlin", "", "Germany", 4, stockRow("h100-sxm5-80gb", 0, 2)))
	gpus := f.locations[2]["gpus"].([]row) // of the home
	gpus[0]["resources"] = row{"max_vcpus": 3, "max_ram_gb": 12, "max_storage_gb": 400}
	const rtx, h100, full = "1x geforcertx4090-pcie-24gb in ", "1x h100-sxm5-80gb in US-Texas-Austin", "1x h100-sxm5-80gb in DE-Berlin is sold out"
	austin := "loc-austin/geforcertx4090-pcie-24gb/1/4/16/100 in US-Texas-Austin: RTX4090-24GB-PCIe $0.40"
	h100s := "loc-austin/h100-sxm5-80gb/1/4/16/100 in US-Texas-Austin: H100-80GB-SXM $2.25"
	berlin := "loc-berlin/geforcertx4090-pcie-24gb/1/4/16/100 in DE-Berlin: RTX4090-24GB-PCIe $0.45"
	home := "loc-home/geforcertx4090-pcie-24gb/1/2/10/100 in US-Ohio-Somewhere: RTX4090-24GB-PCIe $0.23" // less than the usual size
	elsewhere := func(asked string) []string {
		return []string{rtx + "US-Texas-Austin is in United States; Config.Location is " + asked, h100 + " is in United States; Config.Location is " + asked, rtx + "US-Ohio-Somewhere is in USA; Config.Location is " + asked}
	}
	for name, tt := range map[string]struct {
		change func(*Config)
		spec   gputrain.Spec
		want   []string
		not    []string
	}{
		"all": {nil, gputrain.Spec{}, []string{austin, h100s, berlin, home}, []string{full}},
		"no homes": {func(c *Config) { c.MinTier, c.Location = 2, "us" }, gputrain.Spec{}, []string{austin, h100s}, []string{
			rtx + "DE-Berlin is in Germany; Config.Location is US", rtx + "US-Ohio-Somewhere its location is of tier 0; Config.MinTier is 2", "1x h100-sxm5-80gb in DE-Berlin is in Germany; Config.Location is US",
		}},
		"by name":            {func(c *Config) { c.Location = "germany" }, gputrain.Spec{}, []string{berlin}, append(elsewhere("DE"), full)},
		"by a part":          {func(c *Config) { c.Location = "Germ" }, gputrain.Spec{}, []string{berlin}, append(elsewhere("Germ"), full)},
		"by code":            {func(c *Config) { c.Location = "de" }, gputrain.Spec{}, []string{berlin}, append(elsewhere("DE"), full)},
		"by region":          {nil, gputrain.Spec{Regions: []string{"us-ohio"}}, []string{home}, nil},
		"by country":         {nil, gputrain.Spec{Regions: []string{"us"}}, []string{austin, h100s, home}, nil},
		"by another country": {nil, gputrain.Spec{Countries: []string{"FR"}}, nil, nil},
		"dedicated": {func(c *Config) { c.DedicatedIP = true }, gputrain.Spec{}, []string{austin, berlin, home}, []string{
			h100 + " has no address of its own; Config.DedicatedIP asks for one", "1x h100-sxm5-80gb in DE-Berlin has no address of its own; Config.DedicatedIP asks for one",
		}},
		"no spot": {nil, gputrain.Spec{Allocation: driver.Spot}, nil, nil},
		"count, rounds": {func(c *Config) { c.MinTier = 1 }, gputrain.Spec{Accelerator: accelerators.RTX4090(accelerators.Count(5)), VCPUs: 7, MemoryGiB: 65, DiskGiB: 200}, []string{
			"loc-austin/geforcertx4090-pcie-24gb/4/8/80/250 in US-Texas-Austin: RTX4090-24GB-PCIe:4 $1.60", // which the pool rejects
			"loc-austin/h100-sxm5-80gb/5/8/80/250 in US-Texas-Austin: H100-80GB-SXM:5 $11.20", "loc-berlin/geforcertx4090-pcie-24gb/5/8/80/250 in DE-Berlin: RTX4090-24GB-PCIe:5 $2.20",
		}, []string{rtx + "US-Ohio-Somewhere its location is of tier 0; Config.MinTier is 1", full}},
		"too large": {nil, gputrain.Spec{VCPUs: 129, Regions: []string{"US"}}, nil, []string{
			rtx + "US-Texas-Austin has at most 128 vCPUs; 130 are asked for", h100 + " has at most 128 vCPUs; 130 are asked for", rtx + "US-Ohio-Somewhere has at most 3 vCPUs; 130 are asked for",
		}},
		"too much": {nil, gputrain.Spec{MemoryGiB: 600, Regions: []string{"US-Texas"}}, nil, []string{
			rtx + "US-Texas-Austin has at most 512 GB of memory; 600 are asked for", h100 + " has at most 512 GB of memory; 600 are asked for",
		}},
		"disk":  {nil, gputrain.Spec{DiskGiB: 400, Regions: []string{"US-Ohio"}}, nil, []string{rtx + "US-Ohio-Somewhere has a disk of at most 400 GB; 450 are asked for"}},
		"small": {nil, gputrain.Spec{MaxVCPUs: 3, MaxMemoryGiB: 9, Regions: []string{"DE"}}, []string{"loc-berlin/geforcertx4090-pcie-24gb/1/2/8/100 in DE-Berlin: RTX4090-24GB-PCIe $0.43"}, []string{full}},
		"least": {func(c *Config) { c.MinVCPUs, c.MinRAMGB = 5, 17 }, gputrain.Spec{Regions: []string{"US-Ohio"}}, nil, []string{rtx + "US-Ohio-Somewhere has at most 3 vCPUs; 6 are asked for"}},
	} {
		cfg := f.config()
		if tt.change != nil {
			tt.change(&cfg)
		}
		d := cloudtest.Open(t, cfg)
		if got := lines(cloudtest.Offers(t, d, tt.spec.Query())); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q\nwant %q", name, got, tt.want)
		}
		if got := cloudtest.Rejected(t, d, tt.spec.Query()); !slices.Equal(got, tt.not) {
			t.Errorf("%s: rejected %q\nwant %q", name, got, tt.not)
		}
	}
}

// Homes are offered with a warning. The parts of a price are the machine and its disk.
func TestWarningsAndParts(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, o := range cloudtest.Offers(t, cloudtest.Open(t, f.config()), rtx4090.Query()) {
		if home := o.Region == "US-Ohio-Somewhere"; home != (len(o.Warnings) == 1) {
			t.Errorf("%s: %q", o.Region, o.Warnings)
		}
		if want := (driver.PricePart{Name: "disk", HourlyUSD: 100 * 0.00005}); len(o.Parts) != 2 || o.Parts[1] != want {
			t.Errorf("%s: %v", o.Region, o.Parts)
		}
	}
}

// Without the authorization ID, or with another address of the API, the money is not known.
func TestBalance(t *testing.T) {
	f := startFake(t)
	t.Setenv("TENSORDOCK_API_KEY", "")
	ask := func(change func(*Config)) (driver.Balance, error) {
		cfg := f.config()
		change(&cfg)
		return cloudtest.Open(t, cfg).(driver.Balancer).Balance(t.Context(), driver.Offer{})
	}
	if b, err := ask(func(*Config) {}); err != nil || b != (driver.Balance{Known: true, USD: 100, LeastUSD: 1}) {
		t.Errorf("%+v, %v", b, err)
	}
	for name, change := range map[string]func(*Config){"no key": func(c *Config) { c.APIKey = "" }, "no address": func(c *Config) { c.MarketplaceEndpoint = "" }} {
		if b, err := ask(change); err != nil || b != (driver.Balance{}) {
			t.Errorf("%s: %+v, %v", name, b, err)
		}
	}
	_, err := ask(func(c *Config) { c.APIKey = "another-key" })
	cloudtest.Is(t, err, driver.ErrAuth, "tensordock", "balance", "another-key", testToken)
	for _, body := range []string{`{"success":true}`, `{"success":true,"balance":"much"}`, `{"success":true,"balance":1,"currency":"EUR"}`, `{"balance":1}`} {
		odd := f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Undescribed(200, body), Times: -1})
		_, err := ask(func(*Config) {})
		odd.Remove()
		cloudtest.Is(t, err, rest.ErrAnswer, "tensordock", "balance", testKey, testToken)
	}
	f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Undescribed(200, `{"success":true,"balance":"-0.5","hourly_cost":0.4,"currency":"USD"}`)})
	if b, err := ask(func(*Config) {}); err != nil || b.USD != -0.5 {
		t.Errorf("%+v, %v", b, err)
	}
	t.Setenv("TENSORDOCK_API_KEY", testKey)
	if b, err := ask(func(c *Config) { c.APIKey = "" }); err != nil || !b.Known {
		t.Errorf("by the variable: %+v, %v", b, err)
	}
}

// vCPUs are even, and memory and disks have steps.
func TestRounding(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]int{1: 2, 2: 2, 3: 4, 9: 10, 10: 10, 11: 16, 17: 32, 48: 48, 250: 256, 257: 512, 512: 512, 600: 600} {
		if got := ramStep(n); got != want {
			t.Errorf("%d GB of memory become %d; want %d", n, got, want)
		}
	}
	for gb, want := range map[int]int{1: 100, 100: 100, 108: 150, 215: 250, 250: 250} {
		if got := storageStep(gb); got != want {
			t.Errorf("a disk of %d GB becomes one of %d; want %d", gb, got, want)
		}
	}
	for n, want := range map[int]int{1: 2, 4: 4, 7: 8} {
		if got := even(n); got != want {
			t.Errorf("%d vCPUs become %d", n, got)
		}
	}
}

// If the price of a part is missing, the sum is unknown. Numbers may be text.
func TestPriceIsASumOrUnknown(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	gpu := f.locations[0]["gpus"].([]row)[0]
	d := cloudtest.Open(t, f.config())
	for i, pricing := range []row{{"per_vcpu_hr": 0.003, "per_gb_ram_hr": 0.002}, {}} {
		gpu["pricing"] = pricing
		if o := cloudtest.Offers(t, d, driver.Query{})[0]; o.HourlyUSD != (driver.Price{}) {
			t.Errorf("%d: %v", i, o.HourlyUSD)
		}
	}
	var n number
	for text, want := range map[string]number{`"0.35"`: 0.35, `0`: 0, `null`: unknown, `"free"`: unknown, `-1`: unknown} {
		if err := n.UnmarshalJSON([]byte(text)); err != nil || n != want {
			t.Errorf("%s is %v, %v", text, n, err)
		}
	}
}
