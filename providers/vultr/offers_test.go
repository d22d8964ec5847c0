package vultr

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// brief returns an offer in a short form.
func brief(o driver.Offer) string {
	usd, _ := o.HourlyUSD.USD()
	return fmt.Sprintf("%s %v %s %g/%g $%g", o.ID, o.Accelerator, o.Arch, o.VCPUs, o.MemoryGiB, usd)
}

// A plan is not offered if it is only preemptible, if no region sells it, or if it has no IPv4
// address.
func TestOffers(t *testing.T) {
	for name, tt := range map[string]struct {
		mode Mode
		want []string
	}{
		"cloud": {Cloud, []string{
			"cloud/ewr/vcg-l40s-16c-180g-48vram L40S-48GB amd64 16/180 $1.671",
			"cloud/ewr/vcg-a16-2c-8g-2vram A16-2GB:0.125 amd64 2/8 $0.059",
			"cloud/ewr/vcg-a16-96c-960g-256vram A16-16GB:16 amd64 16/180 $10",
			"cloud/ewr/vcg-h100-216c-1914gb-640vram H100-80GB:8 amd64 16/180 $24",
			"cloud/ewr/vcg-mi325x-252c-2872g-1536vram MI325X-192GB:8 amd64 16/180 $36",
			`cloud/ewr/vcg-z900-16c-180g-64vram "NVIDIA_Z900"-64GB amd64 16/180 $1.671`,
			"cloud/ewr/vc2-1c-1gb cpu amd64 1/1 $0.007",
			"cloud/ord/vcg-l40s-16c-180g-48vram L40S-48GB amd64 16/180 $1.9",
			"cloud/ord/vcg-a40-24c-120g-48vram A40-48GB amd64 16/180 $1.671",
		}},
		"metal": {BareMetal, []string{
			"bare-metal/ewr/vbm-112c-2048gb-8-h100-gpu H100-80GB:8 amd64 224/2048 $23.92",
			"bare-metal/ewr/vbm-72c-480gb-gh200-gpu GH200-96GB arm64 224/2048 $2",
			"bare-metal/ewr/vbm-64c-2048gb-8-l40-gpu L40S:8 amd64 224/2048 $11.2",
			"bare-metal/ord/vbm-256c-2048gb-8-mi300x-gpu MI300X-192GB:8 amd64 224/2048 $31.92",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			f := startFake(t)
			for _, id := range []string{"vcg-a16-2c-8g-2vram", "vcg-a16-96c-960g-256vram", "vcg-h100-216c-1914gb-640vram", "vcg-mi325x-252c-2872g-1536vram",
				"vcg-z900-16c-180g-64vram", "vc2-1c-1gb", "vbm-112c-2048gb-8-h100-gpu", "vbm-72c-480gb-gh200-gpu", "vbm-64c-2048gb-8-l40-gpu"} {
				f.sold["ord/"+id] = true
			}
			cfg := f.config()
			cfg.Mode, cfg.Region = tt.mode, Anywhere
			var got []string
			for _, o := range cloudtest.Offers(t, cloudtest.Open(t, cfg), driver.Query{}) {
				got = append(got, brief(o))
				if o.BillingUnit != time.Hour || o.DiskGiB == 0 || o.Spot {
					t.Errorf("%+v", o)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

func TestRegions(t *testing.T) {
	for _, tt := range []struct {
		config string
		spec   []string
		want   []string
	}{
		{"", nil, []string{"ewr"}},
		{"", []string{"ORD", "fra"}, []string{"ord"}},
		{"", []string{"us-east-1"}, nil}, // another cloud's
		{"ord", nil, []string{"ord"}},
		{"ord", []string{"ewr"}, nil},
		{"", []string{"us"}, []string{"ewr", "ord"}},
		{"ewr", []string{"US"}, []string{"ewr"}},
		{Anywhere, []string{"DE"}, nil},
		{Anywhere, nil, []string{"ewr", "ord"}},
		{"fra", nil, nil},
	} {
		f := startFake(t)
		cfg := f.config()
		cfg.Region = tt.config
		spec := l40s()
		spec.Regions = tt.spec
		var got []string
		for _, o := range cloudtest.Offers(t, cloudtest.Open(t, cfg), spec.Query()) {
			got = append(got, o.Region)
		}
		// Only regions where a fitting plan is sold are asked for their stock.
		if asked := len(f.Records(opStock)); !slices.Equal(got, tt.want) || asked != len(tt.want) {
			t.Errorf("Config %q, Spec %q: %q after %d calls, want %q", tt.config, tt.spec, got, asked, tt.want)
		}
	}
}

// A plan that a region sells may be out of stock there.
func TestLocationsAreNotStock(t *testing.T) {
	f := startFake(t)
	f.sold["ewr/vcg-l40s-16c-180g-48vram"] = true
	d := cloudtest.Open(t, f.config())
	if got := cloudtest.Offers(t, d, l40s().Query()); len(got) != 0 {
		t.Errorf("%v", got)
	}
	want := []string{
		"vcg-l40s-16c-180g-48vram in ewr is sold out",
		"vcg-l40s-16c-180g-48vram in ord is in ord; Config.Region and the spec name no region, which means ewr: vultr.Anywhere takes all",
	}
	if got := cloudtest.Rejected(t, d, l40s().Query()); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	cfg := f.config()
	cfg.Region = "ord"
	if got := cloudtest.Rejected(t, cloudtest.Open(t, cfg), l40s().Query()); !slices.Equal(got, []string{"vcg-l40s-16c-180g-48vram in ewr is in ewr; Config.Region is ord"}) {
		t.Errorf("%q", got)
	}
}

// Plans that cannot be rented are offered with the reason, and a region with no others is not asked for its stock.
func TestUnrentablePlans(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Region = Anywhere
	d := cloudtest.Open(t, cfg)
	want := []string{
		"vcg-b200-248c-2826g-1536vram in ewr is only rented as preemptible, which gputrain cannot ask for",
		"vcg-b200-248c-2826g-1536vram in ord is only rented as preemptible, which gputrain cannot ask for",
	}
	got := cloudtest.Rejected(t, d, driver.Query{Accelerator: accelerators.B200(accelerators.Count(8))})
	if !slices.Equal(got, want) || len(f.Records(opStock)) != 0 {
		t.Errorf("%q after %d calls", got, len(f.Records(opStock)))
	}
	got = cloudtest.Rejected(t, d, driver.Query{})
	if last := "vc2-1c-0.5gb-v6 in ord has no IPv4 address"; len(got) == 0 || got[len(got)-1] != last {
		t.Errorf("%q", got)
	}
}

// The countries of the regions are asked for once.
func TestCountries(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opRegions, Answer: fakecloud.Reply(200, row{"regions": []row{{"country": "US"}}, "meta": row{}})})
	for _, err := range d.Offers(t.Context(), l40s().Query()) {
		cloudtest.Is(t, err, driver.ErrUnavailable, "vultr", "offers")
	}
	before := len(f.Records(opRegions))
	for range 2 {
		if got := cloudtest.Offers(t, d, l40s().Query()); len(got) != 1 || got[0].Country != "US" {
			t.Errorf("%+v", got)
		}
	}
	if asked := len(f.Records(opRegions)) - before; asked != 2 { // two pages
		t.Errorf("%d calls", asked)
	}
}

// The balance is known as long as there is credit.
func TestBalance(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Open(t, f.config()).(driver.Balancer)
	for owes, want := range map[float64]driver.Balance{-50: {Known: true, USD: 48.75}, -1.25: {}, -1: {}, 0: {}, 20: {}} {
		f.owes = owes
		if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || b != want {
			t.Errorf("%v: %+v, %v", owes, b, err)
		}
	}
	f.Inject(fakecloud.Fault{Op: opAccount, Answer: fakecloud.Reply(200, row{"account": row{"email": "a@example.com"}})})
	_, err := d.Balance(t.Context(), driver.Offer{})
	cloudtest.Is(t, err, driver.ErrUnavailable, "vultr", "balance")
}

// Tags that Vultr may refuse are refused before anything is made.
func TestUserTags(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	o := cloudtest.Offers(t, d, l40s().Query())[0]
	for _, tags := range []map[string]string{{"team": "a b"}, {"": ""}, {"team": "é"}, {"gputrain-pool": "p2"}, {"GPUtrain": "x"}, {"a/b": "c"}} {
		req := cloudtest.Request(t, l40s().Query(), o, 0)
		req.Pool.Tags = tags
		cloudtest.Is(t, d.Prepare(t.Context(), req.Pool), driver.ErrInvalid, "vultr", "prepare")
		_, err := d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, "vultr", "launch")
	}
	if n := len(f.Records(opCreate)); n != 0 {
		t.Errorf("%d creates", n)
	}
}

func TestNoSpot(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	calls := len(f.Records())
	spec := l40s()
	spec.Allocation = driver.Spot
	if got := cloudtest.Offers(t, d, spec.Query()); len(got) != 0 || len(f.Records()) != calls {
		t.Errorf("%v after %d calls", got, len(f.Records())-calls)
	}
	spec.Allocation = driver.SpotIfAvailable
	if got := cloudtest.Offers(t, d, spec.Query()); len(got) != 1 || got[0].Spot {
		t.Errorf("%v", got)
	}
}

// A GPU or a plan that only Vultr has a name for can be requested by that name.
func TestExactNames(t *testing.T) {
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, tt := range []struct {
		name string
		plan string
	}{
		{"NVIDIA_Z900", "vcg-z900-16c-180g-64vram"}, {"vcg-l40s-16c-180g-48vram", "vcg-l40s-16c-180g-48vram"},
	} {
		got := cloudtest.Offers(t, d, driver.Query{Accelerator: accelerators.Exact(tt.name)})
		if len(got) != 1 || got[0].InstanceType != tt.plan || got[0].Accelerator.Name != tt.name {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}

// Every plan of the sheet is recognised by its ID alone, as some plans have no other fields.
func TestPlanTable(t *testing.T) {
	for id, want := range map[string]string{
		"vbm-48c-1024gb-4-a100-gpu": "A100-80GB:4", "vbm-112c-2048gb-8-a100-gpu": "A100-80GB:8", "vbm-112c-2048gb-8-h100-gpu": "H100:8",
		"vbm-64c-2048gb-8-l40-gpu": "L40S:8", "vbm-72c-480gb-gh200-gpu": "GH200", "vbm-256c-2048gb-8-mi300x-gpu": "MI300X:8",
		"vbm-256c-3072gb-8-mi325x-gpu": "MI325X:8", "vbm-256c-3072gb-8-mi355x-gpu": "MI355X:8", "vbm-256c-3072gb-8-b200-gpu": "B200:8",
		"vcg-l40s-16c-180g-48vram": "L40S-48GB", "vcg-l40s-32c-375g-96vram": "L40S-48GB:2", "vcg-l40s-64c-750g-192vram": "L40S-48GB:4",
		"vcg-a16-6c-64g-16vram": "A16-16GB", "vcg-a16-96c-960g-256vram": "A16-16GB:16", "vcg-a40-24c-120g-48vram": "A40-48GB",
		"vcg-a40-96c-480g-192vram": "A40-48GB:4", "vcg-a100-12c-120g-80vram": "A100-80GB", "vcg-a100-96c-960g-640vram": "A100-80GB:8",
		"vcg-h100-216c-1914gb-640vram": "H100-80GB:8", "vcg-b200-248c-2826g-1536vram": "B200-192GB:8", "vcg-mi325x-252c-2872g-1536vram": "MI325X-192GB:8",
		"vcg-mi355x-252c-2872g-2304vram": "MI355X-288GB:8", "vcg-a16-2c-8g-2vram": "A16-2GB:0.125", "vcg-a100-6c-60g-40vram": "A100-40GB:0.5",
		"vc2-1c-1gb": "cpu", "vbm-4c-32gb": "cpu",
	} {
		if got := (plan{ID: id}).accelerator(accelerators.Accelerator{}).String(); got != want {
			t.Errorf("%s is %s, want %s", id, got, want)
		}
	}
	for text, want := range map[string]string{
		`{"id":"vbm-8-b200","gpu_type":"NVIDIA_HGX_B200","gpu_count":8,"gpu_vram_gb":1440}`:                  "B200-180GB:8",
		`{"id":"vbm-256c-3072gb-8-b200-gpu","gpu_type":"NVIDIA_B200","gpu_count":8,"gpu_vram_gb":1440}`:      "B200-180GB:8",
		`{"id":"vcg-z9-gpu","gpu_brand":"nvidia"}`:                                                           `"vcg-z9-gpu"`,
		`{"id":"vcg-a16-2c-8g-2vram","gpu_type":"NVIDIA_A16","gpu_count":1,"gpu_vram_gb":2}`:                 "A16-2GB:0.125",
		`{"id":"vcg-a100-96c-960g-640vram","gpu_type":"NVIDIA_A100","gpu_count":"8","gpu_vram_gb":"640 GB"}`: "A100-80GB:8",
	} {
		var p plan
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Error(err)
		}
		if got := p.accelerator(accelerators.Accelerator{}).String(); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
}

// Prices are the region's. If there is none for an hour, it is derived from the month's.
func TestPrices(t *testing.T) {
	none := driver.Price{}
	for text, want := range map[string]driver.Price{
		`{"hourly_cost":2,"monthly_cost":9999}`:                                        driver.USD(2),
		`{"monthly_cost":1344}`:                                                        driver.USD(2),
		`{"hourly_cost":2,"location_cost":{"blr":{"hourly_cost":3}}}`:                  driver.USD(2),
		`{"hourly_cost":2,"location_cost":{"ewr":{"hourly_cost":3,"monthly_cost":1}}}`: driver.USD(3),
		`{"hourly_cost":2,"location_cost":{"ewr":{"monthly_cost":672}}}`:               driver.USD(1),
		`{"hourly_cost":2,"location_cost":{"ewr":{"hourly_cost_preemptible":1}}}`:      driver.USD(2),
		`{"hourly_cost":2,"location_cost":[]}`:                                         driver.USD(2),
		`{"hourly_cost":2,"location_cost":null}`:                                       driver.USD(2),
		`{"hourly_cost":0,"monthly_cost":0,"hourly_cost_preemptible":1.5}`:             none,
		`{}`: none,
	} {
		var p plan
		if err := json.Unmarshal([]byte(text), &p); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if got := p.price("ewr"); got != want {
			t.Errorf("%s costs %v, want %v", text, got, want)
		}
	}
}

func TestListsOfPlansThatAreNotWhole(t *testing.T) {
	meta := row{"links": row{"next": ""}}
	for op, bodies := range map[string][]row{
		opPlans: {{"meta": meta}, {"plans": []row{}}, {"plans": []row{{"type": "vcg"}}, "meta": meta}, {"plans": "none", "meta": meta}},
		opStock: {{}, {"available_plans": nil}, {"available_plans": row{}}},
	} {
		for _, body := range bodies {
			f := startFake(t)
			d := cloudtest.Open(t, f.config())
			f.Inject(fakecloud.Fault{Op: op, Times: -1, Answer: fakecloud.Reply(200, body)})
			found := 0
			for _, err := range d.Offers(t.Context(), l40s().Query()) {
				found++
				cloudtest.Is(t, err, driver.ErrUnavailable, "vultr", "offers")
			}
			if found != 1 {
				t.Errorf("%s answered with %v: it is taken for no offers", op, slices.Collect(maps.Keys(body)))
			}
		}
	}
}
