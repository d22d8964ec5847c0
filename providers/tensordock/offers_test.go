package tensordock

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func lines(all []driver.Offer) (out []string) {
	for _, o := range all {
		out = append(out, fmt.Sprintf("%s in %s: %v %v", o.ID, o.Region, o.Accelerator, o.HourlyUSD))
	}
	return out
}

// An offer has the requested number of GPUs, not max_count, at the sum of the prices. Homes
// are excluded, and a country has several names.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	const small, berlin = "/1/4/16/100 in US-", "loc-berlin/geforcertx4090-pcie-24gb/1/4/16/100 in DE-Berlin: RTX4090-24GB-PCIe $0.45"
	austin := "loc-austin/geforcertx4090-pcie-24gb" + small + "Texas-Austin: RTX4090-24GB-PCIe $0.40"
	h100 := "loc-austin/h100-sxm5-80gb" + small + "Texas-Austin: H100-80GB-SXM $2.25"
	for name, tt := range map[string]struct {
		change func(*Config)
		spec   gputrain.Spec
		want   []string
	}{
		"all":       {nil, gputrain.Spec{}, []string{austin, h100, berlin}},
		"homes":     {func(c *Config) { c.MinTier, c.Location = -1, "us" }, gputrain.Spec{}, []string{"loc-home/geforcertx4090-pcie-24gb" + small + "Ohio-Somewhere: RTX4090-24GB-PCIe $0.25", austin, h100}},
		"by name":   {func(c *Config) { c.Location = "germany" }, gputrain.Spec{}, []string{berlin}},
		"by a part": {func(c *Config) { c.Location = "States" }, gputrain.Spec{}, []string{austin, h100}},
		"elsewhere": {func(c *Config) { c.Location = "FR" }, gputrain.Spec{}, nil},
		"by code":   {func(c *Config) { c.Location = "de" }, gputrain.Spec{}, []string{berlin}},
		"dedicated": {func(c *Config) { c.DedicatedIP = true }, gputrain.Spec{}, []string{austin, berlin}},
		"no spot":   {nil, gputrain.Spec{Allocation: driver.Spot}, nil},
		"count, rounds": {nil, gputrain.Spec{Accelerator: accelerators.RTX4090(accelerators.Count(5)), VCPUs: 7, MemoryGiB: 65, DiskGiB: 200}, []string{
			"loc-austin/h100-sxm5-80gb/5/8/80/250 in US-Texas-Austin: H100-80GB-SXM:5 $11.20", "loc-berlin/geforcertx4090-pcie-24gb/5/8/80/250 in DE-Berlin: RTX4090-24GB-PCIe:5 $2.20",
		}},
		"too large": {nil, gputrain.Spec{VCPUs: 129}, nil},
		"too much":  {nil, gputrain.Spec{MemoryGiB: 600}, nil},
	} {
		cfg := f.config()
		if tt.change != nil {
			tt.change(&cfg)
		}
		if got := lines(cloudtest.Offers(t, cloudtest.Open(t, cfg), tt.spec.Query())); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q\nwant %q", name, got, tt.want)
		}
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
	gpu := f.locations[1]["gpus"].([]row)[0]
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
