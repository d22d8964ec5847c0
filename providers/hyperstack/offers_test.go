package hyperstack

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestOffers(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		config Config
		spec   gputrain.Spec
		want   []string
	}{
		{"GPUs by their price for each", Config{}, gputrain.Spec{Accelerator: accelerators.H100(accelerators.AtLeast(1))}, []string{
			"CANADA-1/n3-H100x1 H100-80GB-PCIe $1.90 48", "CANADA-1/n3-H100x8 H100-80GB-PCIe:8 $15.20 2", "US-1/n3-H100x1 H100-80GB-PCIe $1.90 0",
		}},
		{"names of prices in any letter case", Config{}, gputrain.Spec{Accelerator: accelerators.A100()}, []string{"NORWAY-1/n3-A100x1 A100-80GB-PCIe $1.35 0"}},
		{"spot only where it is asked for", Config{}, gputrain.Spec{Accelerator: accelerators.H100(), Allocation: driver.Spot}, []string{
			"CANADA-1/n3-H100x1-spot H100-80GB-PCIe $1.52 0 spot",
		}},
		{"without GPU, at no known price", Config{}, gputrain.Spec{}, []string{"NORWAY-1/n1-cpu-small cpu unknown 0"}},
		{"regions of Config in any letter case", Config{Regions: []string{"us-1", "US-1"}}, h100, []string{"US-1/n3-H100x1 H100-80GB-PCIe $1.90 0"}},
		{"regions of the spec, where others are another cloud's", Config{}, gputrain.Spec{Accelerator: accelerators.H100(), Regions: []string{"us-east-1", "US-1"}},
			[]string{"US-1/n3-H100x1 H100-80GB-PCIe $1.90 0"}},
		{"the vendor's own name", Config{Regions: []string{"US-1"}}, gputrain.Spec{Accelerator: accelerators.Exact("H100-80G-PCIe")},
			[]string{`US-1/n3-H100x1 "H100-80G-PCIe" $1.90 0`}},
	} {
		f := startFake(t)
		cfg := f.config()
		cfg.Regions = tt.config.Regions
		var got []string
		for _, o := range cloudtest.Offers(t, cloudtest.Open(t, cfg), tt.spec.Query()) {
			s := fmt.Sprintf("%s %v %v %d", o.ID, o.Accelerator, o.HourlyUSD, o.Available)
			if o.Spot {
				s += " spot"
			}
			got = append(got, s)
			if o.VCPUs != 28 || o.MemoryGiB != 180 || o.DiskGiB != 100 || o.Arch != "amd64" || o.BillingUnit != billingUnit {
				t.Errorf("%s: %+v", tt.name, o)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q; want %q", tt.name, got, tt.want)
		}
	}
}

func TestOffersThatAreNotInStock(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.flavors[0]["stock_available"] = false // of one size; the other is sold out:
	f.stocks[0]["models"].([]row)[0]["configurations"] = row{"1x": 48, "8x": 0}
	for _, o := range cloudtest.Offers(t, cloudtest.Open(t, f.config()), h100.Query()) {
		if o.Region == "CANADA-1" {
			t.Errorf("%+v is not in stock", o)
		}
	}
}

func TestOffersOfAnUnknownGPU(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.flavors = []row{flavorRow("US-1", "n9-Z9000x2", "Z9000-512G", 2, true), flavorRow("US-1", "n3-GH200x1", "GH200-96G", 1, true)}
	all := cloudtest.Offers(t, cloudtest.Open(t, f.config()), driver.Query{Accelerator: accelerators.Exact("Z9000-512G", accelerators.Count(2))})
	if len(all) != 1 || !all[0].Accelerator.Exact || all[0].Accelerator.Count != 2 {
		t.Errorf("%+v", all)
	}
	all = cloudtest.Offers(t, cloudtest.Open(t, f.config()), driver.Query{Accelerator: accelerators.Accelerator{Name: "GH200"}})
	if len(all) != 1 || all[0].Arch != "arm64" {
		t.Errorf("%+v", all)
	}
}

func TestListsOfTheMarketThatAreNone(t *testing.T) {
	t.Parallel()
	for op, answer := range map[string]any{opPrices: nil, opStocks: row{}, opFlavors: row{"status": true}} {
		f := startFake(t)
		d := cloudtest.Open(t, f.config())
		f.Inject(fakecloud.Fault{Op: op, Answer: fakecloud.Reply(200, []byte(mustJSON(answer)))})
		var err error
		for _, err = range d.Offers(t.Context(), h100.Query()) {
			if err != nil {
				break
			}
		}
		cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "offers", testKey)
	}
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// Images have no date: their names show which is newer.
func TestNewestImageByItsName(t *testing.T) {
	t.Parallel()
	const (
		old    = "Ubuntu Server 22.04 LTS R550 CUDA 12.9"
		plain  = "Ubuntu Server 24.04 LTS"
		cuda   = "Ubuntu Server 24.04 LTS R570 CUDA 12.8"
		driver = "Ubuntu Server 24.04 LTS R575 CUDA 12.8"
		ten    = "Ubuntu Server 24.04 LTS R535 CUDA 12.10"
	)
	for _, tt := range []struct {
		names []string
		want  string
	}{
		{[]string{old, cuda, plain}, cuda},
		{[]string{driver, cuda}, driver},
		{[]string{cuda + " with Docker", cuda}, cuda + " with Docker"},
		{[]string{driver, ten}, ten},
		{[]string{plain, "Ubuntu Server 26.04 LTS", old}, old}, // CUDA counts first
		{[]string{plain, "Ubuntu Server 22.04 LTS", "Debian 12"}, plain},
		{[]string{"Windows Server 2022", "Ubuntu Desktop 24.04"}, ""},
		{nil, ""},
	} {
		var images []image
		for i, name := range tt.names {
			images = append(images, image{ID: i + 1, Name: name})
		}
		got, err := choose(images, "", "n3-H100x1")
		if got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("of %q %q is taken (%v); want %q", tt.names, got, err, tt.want)
		}
	}
	images := []image{{ID: 1, Name: cuda}, {ID: 2, Name: driver, Restrictions: json.RawMessage(`{"flavors":["n3-A100x1"]}`)}}
	for flavor, want := range map[string]string{"n3-H100x1": cuda, "n3-A100x1": driver} {
		if got, err := choose(images, "", flavor); got != want || err != nil {
			t.Errorf("%s gets %q, %v", flavor, got, err)
		}
	}
	if got, err := choose(images, cuda, "n3-A100x1"); got != cuda || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := choose(images, "Mine", "n3-A100x1"); err == nil {
		t.Error("an image that is not there is taken")
	}
}

// Spot machines are flavours of their own, at prices of their own.
func TestSpotIsAFlavour(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{Accelerator: accelerators.H100(), Allocation: driver.Spot}, 0)
	if _, asked := f.created(); asked.FlavorName != "n3-H100x1-spot" {
		t.Errorf("%+v", asked)
	}
	for _, d := range []driver.Driver{d, cloudtest.Open(t, f.config())} {
		if o := cloudtest.Describe(t, d, in.ID).Offer; !o.Spot || o.InstanceType != "n3-H100x1-spot" || o.Region != "CANADA-1" || o.Accelerator.FormFactor != accelerators.PCIe {
			t.Errorf("%+v", o)
		}
	}
}
