package vastai

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The search has filters for all that Config and Spec ask for.
func TestSearchIsFilteredByTheAPI(t *testing.T) {
	t.Parallel()
	rows := []row{{"gpu_name": "A100 SXM4", "gpu_ram": 81920, "num_gpus": 2, "dph_base": 900.0}}
	for range searchLimit { // cheaper ones, which will be rejected, fill an answer
		rows = append(rows, row{"gpu_name": "A100 SXM4", "gpu_ram": 81920, "num_gpus": 2, "reliability2": 0.9})
	}
	f := startFake(t, rows...)
	d := f.open(func(c *Config) {
		c.MinReliability, c.MinCUDA, c.Geolocation, c.Ports = 0.98, 12.4, []string{"US", "CA"}, []int{8000}
		c.MinInetDown, c.MinInetUp, c.MaxTrafficUSDPerGB = 500, 100, 0.01
	})
	spec := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2), accelerators.Memory(80)), VCPUs: 8, MaxVCPUs: 32, DiskGiB: 200, TTL: time.Hour}
	got := cloudtest.AllOffers(t, d, spec.Query())
	if len(got) != 1+maxRejected || got[0].Rejected != "" || got[1].Rejected == "" || len(f.Records(opSearch)) != 2 {
		t.Errorf("%d offers by %d searches, the first %+v", len(got), len(f.Records(opSearch)), got[0])
	}
	var q map[string]any
	if err := json.Unmarshal([]byte(f.Records(opSearch)[1].Body), &q); err != nil {
		t.Fatal(err)
	}
	for column, want := range map[string]string{
		"rentable": "map[eq:true]", "rented": "map[eq:false]", "external": "map[eq:false]", "verified": "map[eq:true]",
		"gpu_name": "map[in:[A100 PCIE A100 SXM4 A100 SXM]]", "num_gpus": "map[eq:2]", "gpu_ram": "map[gte:72000]",
		"reliability2": "map[gte:0.98]", "cuda_max_good": "map[gte:12.4]", "geolocation": "map[in:[CA US]]", "direct_port_count": "map[gte:2]",
		"inet_down": "map[gte:500]", "inet_up": "map[gte:100]", "inet_down_cost": "map[lte:0.01]", "inet_up_cost": "map[lte:0.01]",
		"cpu_cores_effective": "map[gte:8 lte:32]", "disk_space": "map[gte:215]", "duration": "map[gte:3600]",
		"type": "on-demand", "order": "[[dph_total asc]]", "allocated_storage": "215", "limit": "200",
	} {
		if got := fmt.Sprint(q[column]); got != want {
			t.Errorf("%s is %s; want %s", column, got, want)
		}
	}
	if len(q) != 22 {
		t.Errorf("the query has %d fields: %v", len(q), q)
	}

	any := cloudtest.AllOffers(t, f.open(func(c *Config) { c.MinReliability, c.MinCUDA, c.AllowUnverified = -1, -1, true }), driver.Query{Allocation: driver.Spot})
	body := f.Records(opSearch)[2].Body
	if len(any) != searchLimit || strings.Contains(body, "reliability") || strings.Contains(body, "cuda") || strings.Contains(body, "verified") ||
		!strings.Contains(body, `"type":"bid"`) || !strings.Contains(body, `"allocated_storage":100`) {
		t.Errorf("%v: %s", any, body)
	}
}

// Every row is checked again: the CUDA filter, for one, has been seen to do nothing. A row with the wanted GPUs is
// rejected with its reason.
func TestRowsAreLookedAtAgain(t *testing.T) {
	t.Parallel()
	soon := float64(time.Now().Add(30 * time.Minute).Unix())
	cfg := Config{MinInetDown: 100, MinInetUp: 100, MaxTrafficUSDPerGB: 0.01, Ports: []int{8000, 8001}, Geolocation: []string{"US"}}
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090(), TTL: time.Hour}
	for name, tt := range map[string]struct {
		change row
		why    string
	}{
		"good":                      {nil, ""},
		"place without a code":      {row{"geolocation": "California, United States"}, ""},
		"no place":                  {row{"geolocation": nil}, ""},
		"end of the offer unknown":  {row{"duration": "-"}, ""},
		"CUDA too old":              {row{"cuda_max_good": 12.8}, "its driver supports CUDA 12.8; " + DefaultImage + ", or Config.MinCUDA, needs 12.9"},
		"unreliable":                {row{"reliability2": 0.9}, "its reliability is 0.9; Config.MinReliability is 0.95"},
		"unreliable, other name":    {row{"reliability2": "-", "reliability": 0.9}, "its reliability is 0.9; Config.MinReliability is 0.95"},
		"reliability unknown":       {row{"reliability2": "-"}, "its reliability is unknown; Config.MinReliability is 0.95"},
		"unverified":                {row{"verification": "unverified"}, "its machine is not verified by Vast; Config.AllowUnverified takes it all the same"},
		"rented":                    {row{"rented": true}, "is already rented"},
		"not rentable":              {row{"rentable": false}, "is already rented"},
		"elsewhere":                 {row{"geolocation": "Paris, FR"}, "is in FR; Config.Geolocation allows US"},
		"too few direct ports":      {row{"direct_port_count": 2}, "has 2 direct ports; SSH and Config.Ports need 3"},
		"slow down":                 {row{"inet_down": 50}, "downloads at 50 Mbit/s; Config.MinInetDown is 100"},
		"slow up":                   {row{"inet_up": 50}, "uploads at 50 Mbit/s; Config.MinInetUp is 100"},
		"dear traffic":              {row{"inet_up_cost": 0.02}, "charges $0.002 for a GB in, and $0.02 for a GB out; Config.MaxTrafficUSDPerGB is $0.01"},
		"dear downloads":            {row{"inet_down_cost": 0.02}, "charges $0.02 for a GB in, and $0.003 for a GB out; Config.MaxTrafficUSDPerGB is $0.01"},
		"small disk":                {row{"disk_space": 99}, "has 99 GB of disk left; a node gets 100"},
		"taken back too soon":       {row{"duration": 3500.0}, "its host's contract ends at "},
		"taken back at a date":      {row{"end_date": soon}, "its host's contract ends at "},
		"cores of the host unknown": {row{"cpu_cores": nil}, "its vCPUs are unknown"},
		"two reasons":               {row{"inet_up": 50, "rented": true}, "is already rented; and uploads at 50 Mbit/s; Config.MinInetUp is 100"},
	} {
		s := search{cfg.complete(), spec.Query(), false}
		if got := s.toFind(asAsk(t, tt.change)).offer.Rejected; got != tt.why && (tt.why == "" || !strings.HasPrefix(got, tt.why)) {
			t.Errorf("%s: rejected as %q; want %q", name, got, tt.why)
		}
	}
	for name, change := range map[string]row{"larger slice": {"num_gpus": 2}, "no ID": {"id": 0}} {
		if (search{cfg.complete(), spec.Query(), false}).wants(asAsk(t, change)) {
			t.Errorf("%s: it is an offer", name)
		}
	}
}

// asAsk returns a row of the search as the client reads it.
func asAsk(t *testing.T, changed row) (a ask) {
	t.Helper()
	text, _ := json.Marshal(askRow(0, changed))
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// Countries that the spec names are searched for, within those of Config.
func TestPlacesOfTheSpec(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		config, countries, regions []string
		want                       string
	}{
		{nil, nil, nil, "[]"},
		{nil, []string{"us", "CA", "US"}, nil, "[CA US]"},
		{nil, nil, []string{"de"}, "[DE]"},
		{[]string{"US", "FR"}, []string{"FR", "DE"}, nil, "[FR]"},
		{[]string{"US"}, []string{"DE"}, nil, "[US]"},       // the market rejects what is there
		{nil, nil, []string{"DE", "Washington, US"}, "[]"},  // a region in Vast's words
		{nil, []string{"DE", "FR"}, []string{"FR"}, "[FR]"}, // both must allow it
	} {
		cfg := Config{Geolocation: tt.config}.complete()
		if got := fmt.Sprint(search{cfg, driver.Query{Countries: tt.countries, Regions: tt.regions}, false}.places()); got != tt.want {
			t.Errorf("%v: %s", tt, got)
		}
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

// cpu_ram is the whole host's and gpu_ram is one GPU's, both in MB. Prices are for all
// GPUs. A spot price is the bid plus the disk.
func TestUnitsAndPrices(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"num_gpus": 2, "gpu_name": "H100 SXM", "gpu_ram": 81559, "dph_base": 4.0, "min_bid": 2.0})
	const disk = 100 * 0.144 / 720
	spec := gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(2)), Allocation: driver.SpotIfAvailable}
	all := cloudtest.AllOffers(t, f.open(), spec.Query())
	if len(all) != 2 || !all[0].Spot || all[1].Spot || all[0].ID == all[1].ID {
		t.Fatalf("%+v", all)
	}
	spot, _ := all[0].HourlyUSD.USD()
	onDemand, _ := all[1].HourlyUSD.USD()
	if !near(spot, 2.4+disk) || !near(onDemand, 4+disk) {
		t.Errorf("$%v, $%v", spot, onDemand)
	}
	for _, o := range all {
		a := o.Accelerator
		if o.MemoryGiB != 64 || o.VCPUs != 16 || a.Name != "H100" || a.FormFactor != accelerators.SXM || a.Count != 2 || a.MemoryGiB != 79.6 ||
			o.Provider != "vastai" || o.InstanceType != "2x H100 SXM" || o.Region != "Washington, US" || o.Available != 1 || o.BillingUnit != 0 || !spec.Accelerator.Matches(a) {
			t.Errorf("%+v", o)
		}
	}
	for most, want := range map[float64]float64{2.2: 2.2, 9: 2.4 + disk, 1: 2 + disk} { // never below the lowest bid: the pool rejects that
		spec.MaxHourlyUSD, spec.Allocation = most, driver.Spot
		if got, _ := cloudtest.AllOffers(t, f.open(), spec.Query())[0].HourlyUSD.USD(); math.Abs(got-want) > 1e-4 || most == 2.2 && got > most {
			t.Errorf("under $%v: $%v; want $%v", most, got, want)
		}
	}
}

// Vast charges traffic per GB. Offers have its price per GiB.
func TestTrafficHasItsPrice(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, row{"inet_down_cost": 0.0, "inet_up_cost": 0.02})
	all := cloudtest.AllOffers(t, f.open(), driver.Query{})
	for i, want := range []struct{ in, out float64 }{{0.002, 0.003}, {0, 0.02}} {
		if o := all[i]; o.Host != fmt.Sprint(88000+i) || o.Country != "US" || !near(o.IngressUSD, want.in*1.073741824) || !near(o.EgressUSD, want.out*1.073741824) {
			t.Errorf("offer %s: $%v in, $%v out", o.ID, o.IngressUSD, o.EgressUSD)
		}
	}
}

// For every offer, on demand and spot, the price is what is charged with the spec's
// disk.
func TestPriceIsThatWithTheDisk(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, row{"storage_cost": 0.0}, row{"storage_cost": 2.5}, row{"dph_base": 0.003, "min_bid": 0.002})
	f.noMachines = true
	d := prepared(t, f, func(c *Config) { c.DiskGB = 50 })
	rank := 0
	for _, disk := range []struct{ gib, gb float64 }{{0, 50}, {1, 10}, {100, 108}, {800, 859}} {
		for _, allocation := range []driver.Allocation{driver.OnDemand, driver.Spot} {
			spec := gputrain.Spec{DiskGiB: disk.gib, Allocation: allocation}
			all := cloudtest.AllOffers(t, d, spec.Query())
			if len(all) != 4 {
				t.Errorf("%v GiB: %d offers", disk.gib, len(all))
			}
			for _, o := range all {
				got, err := d.Launch(t.Context(), request(spec, o, rank))
				if err != nil {
					t.Fatal(err)
				}
				rank++
				offered, _ := o.HourlyUSD.USD()
				charged, known := cloudtest.Describe(t, f.open(), got[0].ID).Offer.HourlyUSD.USD()
				sum := o.HourlyUSD
				if o.Parts != nil {
					sum = driver.USD(o.Parts[0].HourlyUSD + o.Parts[1].HourlyUSD)
				}
				if usd, _ := sum.USD(); !near(usd, offered) || fmt.Sprint(o.Parts) != fmt.Sprint(got[0].Offer.Parts) {
					t.Errorf("%v GiB of offer %s at %v: the parts are %v; of the instance %v", disk.gib, o.ID, o.HourlyUSD, o.Parts, got[0].Offer.Parts)
				}
				if !known || !near(offered, charged) || got[0].Offer.HourlyUSD != driver.USD(charged) || o.DiskGiB < disk.gib {
					t.Errorf("%v GiB of offer %s: $%v was offered, and $%v is charged", disk.gib, o.ID, offered, charged)
				}
			}
			for _, r := range f.Records(opCreate)[rank-4:] {
				if !strings.Contains(r.Body, fmt.Sprintf(`"disk":%v,`, disk.gb)) {
					t.Errorf("%v GiB: %s", disk.gib, r.Body)
				}
			}
			var ids []string
			for _, r := range f.account() {
				if r.Kind == "machine" {
					ids = append(ids, r.ID)
				}
			}
			if err := d.Terminate(t.Context(), ids...); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// An offer for another disk has another price: on demand it is rented with the spec's
// disk, and on spot it is rejected.
func TestOfferOfAnotherDisk(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	small, large := gputrain.Spec{DiskGiB: 10, Allocation: driver.CheapestAllocation}, gputrain.Spec{DiskGiB: 500}
	all := cloudtest.AllOffers(t, d, small.Query())
	_, err := d.Launch(t.Context(), request(large, all[0], 0))
	is(t, err, driver.ErrInvalid, "launch")
	if _, err := d.Launch(t.Context(), request(large, all[1], 0)); err != nil {
		t.Error(err)
	}
	if r := f.Records(opCreate); len(r) != 1 || !strings.Contains(r[0].Body, `"disk":537,`) {
		t.Errorf("%+v", r)
	}
}

// A price that the API does not report, or reports only in part, is unknown. It is not free.
func TestUnknownPriceIsUnknown(t *testing.T) {
	t.Parallel()
	d := startFake(t).open()
	usd := func(v float64) *float64 { return &v }
	for name, tt := range map[string]struct {
		a    ask
		spot bool
		want float64 // 0 means that the price is unknown
	}{
		"nothing":                        {ask{}, false, 0},
		"the whole alone":                {ask{DPHTotal: usd(2)}, false, 2},
		"its parts alone":                {ask{DPHBase: usd(1), StorageCost: usd(7.2)}, false, 2},
		"the whole for a smaller disk":   {ask{DPHTotal: usd(1.5), DPHBase: usd(1), StorageCost: usd(7.2)}, false, 2},
		"the whole with more than disk":  {ask{DPHTotal: usd(2.5), DPHBase: usd(1), StorageCost: usd(7.2)}, false, 2.5},
		"without its disk":               {ask{DPHBase: usd(1)}, false, 0},
		"zero":                           {ask{DPHTotal: usd(0)}, false, 0},
		"bid, nothing":                   {ask{DPHTotal: usd(2), DPHBase: usd(1), StorageCost: usd(7.2)}, true, 0},
		"bid without its disk":           {ask{MinBid: usd(1)}, true, 0},
		"bid of nothing":                 {ask{MinBid: usd(0), StorageCost: usd(7.2)}, true, 0},
		"bid":                            {ask{MinBid: usd(1), StorageCost: usd(7.2)}, true, 2.2},
		"bid for a disk that is free":    {ask{MinBid: usd(1), StorageCost: usd(0)}, true, 1.2},
		"on demand, a disk that is free": {ask{DPHBase: usd(1), StorageCost: usd(0)}, false, 1},
	} {
		tt.a.ID, tt.a.NumGPUs, tt.a.CPUCores = 1, 1, usd(8)
		got, known := (search{d.p.cfg, driver.Query{}, tt.spot}).toFind(tt.a).offer.HourlyUSD.USD()
		if known != (tt.want > 0) || known && !near(got, tt.want) {
			t.Errorf("%s: $%v, known %v; want $%v", name, got, known, tt.want)
		}
	}
}

// The API's GPU names are exact: "H100 PCIe" finds nothing.
func TestGPUNames(t *testing.T) {
	t.Parallel()
	for want, names := range map[string]string{
		"H100":      "H100 PCIE,H100 SXM,H100 NVL",
		"H100-SXM":  "H100 SXM",
		"H100-PCIe": "H100 PCIE",
		"A100-80GB": "A100 PCIE,A100 SXM4,A100 SXM", // the API has the same names for 40 GB
		"H200":      "H200,H200 NVL",
		"L40":       "L40", "L40S": "L40S",
		"V100": "Tesla V100", "T4": "Tesla T4", "P100": "Tesla P100",
		"RTX6000Ada": "RTX 6000Ada", "A6000": "RTX A6000",
		"RTX4090": "RTX 4090", "RTX4090D": "RTX 4090D", "RTX4070Ti": "RTX 4070 Ti", "RTX4070TiSuper": "RTX 4070S Ti",
		"QRTX8000": "Q RTX 8000", "GH200": "GH200 SXM", "MI250X": "InstinctMI250X",
		`"Some New Card"`: "Some New Card",
	} {
		a, err := accelerators.Parse(want)
		if err != nil {
			t.Error(err)
			continue
		}
		if got := strings.Join(namesOf(a), ","); got != names {
			t.Errorf("%s is %q; want %q", want, got, names)
		}
	}
	if a := accelerator("Some New Card", 2, 16384); a != (accelerators.Accelerator{Name: "Some New Card", Count: 2, MemoryGiB: 16, Exact: true}) {
		t.Errorf("%+v", a)
	}
	seen := map[string]bool{}
	for _, name := range gpuNames {
		if accelerator(name, 1, 0).Exact {
			t.Errorf("%q is in no table of accelerators", name)
		}
		if seen[name] {
			t.Errorf("%q is there twice", name)
		}
		seen[name] = true
	}
}

// The second market is searched only if the caller wants more offers than the first has.
// A number of GPUs that is written as 1.0 is 1, and a row with 19.5 ports is left out and told: the others are offered.
func TestOddNumbers(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, row{"direct_port_count": 23}, nil)
	cfg := f.config()
	cfg.HTTPClient = &http.Client{Transport: rewriting{strings.NewReplacer(`"num_gpus":1,`, `"num_gpus":1.0,`, `"direct_port_count":23,`, `"direct_port_count":19.5,`)}}
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	n, told := 0, error(nil)
	for o, err := range d.Offers(t.Context(), driver.Query{}) {
		if partial, ok := errors.AsType[*driver.PartialError](err); ok {
			told = partial
		} else if err != nil || o.Accelerator.Count != 1 {
			t.Errorf("%+v, %v", o, err)
		} else {
			n++
		}
	}
	if n != 2 || told == nil || !strings.Contains(told.Error(), "direct_port_count: ") || !strings.Contains(told.Error(), "19.5") {
		t.Errorf("%d offers, %v", n, told)
	}
}

// A rewriting transport changes the text of answers.
type rewriting struct{ *strings.Replacer }

func (c rewriting) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	text := c.Replace(string(body))
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return resp, err
}

func TestOffersAreLazy(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil)
	d := f.open()
	for _, err := range d.Offers(t.Context(), driver.Query{Allocation: driver.CheapestAllocation}) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if n := len(f.Records(opSearch)); n != 1 {
		t.Errorf("%d searches", n)
	}
	all := cloudtest.AllOffers(t, d, driver.Query{Allocation: driver.CheapestAllocation})
	var ids []string
	for _, o := range all {
		ids = append(ids, o.ID)
	}
	slices.Sort(ids)
	if len(all) != 4 || len(slices.Compact(ids)) != 4 {
		t.Errorf("%v", ids)
	}
	if got := cloudtest.AllOffers(t, d, driver.Query{}); len(got) != 2 || got[0].Spot {
		t.Errorf("on demand: %+v", got)
	}
}
