package hyperstack

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

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
			"CANADA-1/n3-H100x1 H100-80GB-PCIe $1.92 48", "CANADA-1/n3-H100x8 H100-80GB-PCIe:8 $15.22 2", "US-1/n3-H100x1 H100-80GB-PCIe $1.92 0",
		}},
		{"names of prices in any letter case", Config{}, gputrain.Spec{Accelerator: accelerators.A100()}, []string{"NORWAY-1/n3-A100x1 A100-80GB-PCIe $1.37 0"}},
		{"spot only where it is asked for", Config{}, gputrain.Spec{Accelerator: accelerators.H100(), Allocation: driver.Spot}, []string{
			"CANADA-1/n3-H100x1-spot H100-80GB-PCIe $1.54 0 spot",
		}},
		{"without GPU, by vCPUs and memory", Config{}, gputrain.Spec{}, []string{"NORWAY-1/n1-cpu-small cpu $0.53 0"}},
		{"countries", Config{}, gputrain.Spec{Accelerator: accelerators.H100(), Countries: []string{"us"}}, []string{"US-1/n3-H100x1 H100-80GB-PCIe $1.92 0"}},
		{"regions of Config in any letter case", Config{Regions: []string{"us-1", "US-1"}}, h100, []string{"US-1/n3-H100x1 H100-80GB-PCIe $1.92 0"}},
		{"regions of the spec, where others are another cloud's", Config{}, gputrain.Spec{Accelerator: accelerators.H100(), Regions: []string{"us-east-1", "US-1"}},
			[]string{"US-1/n3-H100x1 H100-80GB-PCIe $1.92 0"}},
		{"the vendor's own name", Config{Regions: []string{"US-1"}}, gputrain.Spec{Accelerator: accelerators.Exact("H100-80G-PCIe")},
			[]string{`US-1/n3-H100x1 "H100-80G-PCIe" $1.92 0`}},
	} {
		f := startFake(t)
		cfg := f.config()
		cfg.Regions = tt.config.Regions
		var got []string
		for _, o := range cloudtest.AllOffers(t, cloudtest.Open(t, cfg), tt.spec.Query()) {
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

// What cannot be rented is offered with the reason.
func TestOffersThatAreRejected(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.flavors[0]["stock_available"] = false // of one size; the other is sold out:
	f.stocks[0]["models"].([]row)[0]["configurations"] = row{"1x": 48, "8x": 0}
	f.flavors = append(f.flavors, flavorRow("US-1", "n4-H100x1", "H100-80G-PCIe", 1, false))
	cfg := f.config()
	cfg.NetworkOptimised = true
	var got []string
	for _, o := range cloudtest.AllOffers(t, cloudtest.Open(t, cfg), driver.Query{Accelerator: accelerators.H100(accelerators.AtLeast(1))}) {
		got = append(got, strings.TrimSpace(o.Country+" "+o.ID+" "+o.Rejected))
	}
	want := []string{
		"CA CANADA-1/n3-H100x1 is sold out", "CA CANADA-1/n3-H100x8 is sold out", "US US-1/n3-H100x1",
		"US US-1/n4-H100x1 has no optimised network; Config.NetworkOptimised asks for it",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
	for region, want := range map[string]string{"NORWAY-1": "NO", "us-2": "US", "MARS-1": "", "": ""} {
		if got := countryOf(region); got != want {
			t.Errorf("%s is in %q; want %q", region, got, want)
		}
	}
}

// A price is that of the GPUs, or of vCPUs and memory, of the root disk and of the address. One
// that the pricebook lacks is unknown, or a warning; one that is 0 is no part.
func TestPrices(t *testing.T) {
	t.Parallel()
	without := func(names ...string) func(*fake) {
		return func(f *fake) {
			f.prices = slices.DeleteFunc(f.prices, func(p row) bool { return slices.Contains(names, p["name"].(string)) })
		}
	}
	for name, tt := range map[string]struct {
		change   func(*fake)
		spec     gputrain.Spec
		price    string
		parts    []string
		warnings int
	}{
		"a GPU":             {func(*fake) {}, h100, "$1.92", []string{"machine 1.9000", "disk 0.0097", "address 0.0067"}, 0},
		"without GPU":       {func(*fake) {}, gputrain.Spec{}, "$0.53", []string{"machine 0.5175", "disk 0.0097", "address 0.0067"}, 0},
		"no prices of RAM":  {without("RAM (cpu-only-flavors)"), gputrain.Spec{}, "unknown", nil, 0},
		"no price of disks": {without("Cloud-SSD"), h100, "$1.91", []string{"machine 1.9000", "address 0.0067"}, 1},
		"only of the GPU":   {without("Cloud-SSD", "PublicIP"), h100, "$1.90", nil, 2},
		"free addresses":    {func(f *fake) { f.prices[3]["value"] = "0E-9" }, h100, "$1.91", []string{"machine 1.9000", "disk 0.0097"}, 0},
	} {
		f := startFake(t)
		tt.change(f)
		o := cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), tt.spec.Query())[0]
		var parts []string
		for _, p := range o.Parts {
			parts = append(parts, fmt.Sprintf("%s %.4f", p.Name, p.HourlyUSD))
		}
		if o.HourlyUSD.String() != tt.price || !slices.Equal(parts, tt.parts) || len(o.Warnings) != tt.warnings {
			t.Errorf("%s: %v of %q, with %q", name, o.HourlyUSD, parts, o.Warnings)
		}
	}
}

// The API's word about new machines counts more than the credit and its threshold.
func TestBalance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config()).(driver.Balancer)
	for name, tt := range map[string]struct {
		credit, threshold float64
		never, always     bool
		want              driver.Balance
	}{
		"credit":             {20, 5, false, false, driver.Balance{Known: true, USD: 20, LeastUSD: 5}},
		"too little":         {3, 5, false, false, driver.Balance{Known: true, USD: 3, LeastUSD: 5}},
		"none":               {-1, -20, false, false, driver.Balance{Known: true, USD: -1}},
		"not to be spent":    {20, 0, true, false, driver.Balance{Known: true, USD: 20, LeastUSD: 20.01}},
		"paid later":         {-100, 0, false, true, driver.Balance{}},
		"paid later, with 0": {0, 0, false, true, driver.Balance{}},
	} {
		f.Do(func() {
			f.credit, f.threshold, f.noMachinesAt, f.paysLater = tt.credit, tt.threshold, tt.never, tt.always
		})
		if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || b != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", name, b, err, tt.want)
		}
	}
	f.Inject(fakecloud.Fault{Op: opCredit, Answer: refuse(403, "forbidden", "role")})
	_, err := d.Balance(t.Context(), driver.Offer{})
	cloudtest.Is(t, err, driver.ErrAuth, providerName, "balance", testKey)
	f.Inject(fakecloud.Fault{Op: opCredit, Answer: missing("Credit")})
	if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || b.Known {
		t.Errorf("%+v, %v", b, err)
	}
	f.Inject(fakecloud.Fault{Op: opCredit, Answer: success(row{"data": row{"credit": nil}})})
	if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || b.Known {
		t.Errorf("%+v, %v", b, err)
	}
}

// A label that a list of labels would split is refused before anything is made. A lease's labels
// replace no label of the user's.
func TestUserTags(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	o := cloudtest.AllOffers(t, d, h100.Query())[0]
	for name, value := range map[string]string{"cost center": "1", "team": "a b", "": "x", "a=b": "c"} {
		info := cloudtest.Info("p1")
		info.Tags = map[string]string{name: value}
		cloudtest.Is(t, d.Prepare(t.Context(), info), driver.ErrInvalid, providerName, "prepare")
		req := cloudtest.Request(t, h100.Query(), o, 0)
		req.Pool.Tags = info.Tags
		_, err := d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch")
	}
	if left := f.everything(); len(left) > 0 {
		t.Errorf("%+v", left)
	}
	req := cloudtest.Request(t, h100.Query(), o, 0)
	req.Pool.Tags = map[string]string{"team": "vision", "cost-center": "4711"}
	got, err := d.Launch(t.Context(), req)
	in := cloudtest.One(t, got, err)
	if err := d.(driver.LeaseMarker).MarkLease(t.Context(), req.Pool, time.Now(), in.ID); err != nil {
		t.Error(err)
	}
	if has := f.userLabels(in.ID); !maps.Equal(has, req.Pool.Tags) {
		t.Errorf("%v", has)
	}
}

func TestOffersOfAnUnknownGPU(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.flavors = []row{flavorRow("US-1", "n9-Z9000x2", "Z9000-512G", 2, true), flavorRow("US-1", "n3-GH200x1", "GH200-96G", 1, true)}
	all := cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), driver.Query{Accelerator: accelerators.Exact("Z9000-512G", accelerators.Count(2))})
	if len(all) != 1 || !all[0].Accelerator.Exact || all[0].Accelerator.Count != 2 {
		t.Errorf("%+v", all)
	}
	all = cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), driver.Query{Accelerator: accelerators.Accelerator{Name: "GH200"}})
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
