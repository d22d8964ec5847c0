package gcp

import (
	"fmt"
	"math"
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
	both := driver.SpotIfAvailable
	for name, test := range map[string]struct {
		spec   gputrain.Spec
		change func(*Config)
		want   []string // type, price, and the zone if it is not the default
	}{
		"no GPU, the smallest first": {gputrain.Spec{}, nil, []string{
			"n1-standard-1 $0.0475", "t2a-standard-1 unknown", "c4-standard-2 unknown", "e2-standard-2 $0.067", "n1-standard-8 $0.38",
			"n1-standard-16 $0.76", "n1-highmem-16 $0.95", "n1-standard-32 $1.52", "n1-standard-96 $4.56",
		}},
		"GPU, both markets":    {gputrain.Spec{Accelerator: accelerators.L4(accelerators.AtLeast(1)), Allocation: both, VCPUs: 8}, nil, []string{"g2-standard-8/spot $0.34", "g2-standard-8 $0.85", "g2-standard-24/spot $0.80", "g2-standard-24 $2.00"}},
		"one and not more":     {gputrain.Spec{Accelerator: accelerators.T4()}, nil, []string{"n1-standard-8+nvidia-tesla-t4:1 $0.73"}},
		"by capability":        {gputrain.Spec{Accelerator: accelerators.Any(accelerators.Memory(20), accelerators.CapabilityBetween(8.9, 8.9)), VCPUs: 8}, nil, []string{"g2-standard-8 $0.85"}},
		"several":              {gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(2))}, nil, []string{"g2-standard-24 $2.00"}},
		"added to N1":          {gputrain.Spec{Accelerator: accelerators.T4(accelerators.AtLeast(1))}, nil, []string{"n1-standard-8+nvidia-tesla-t4:1 $0.73", "n1-standard-16+nvidia-tesla-t4:2 $1.46", "n1-standard-32+nvidia-tesla-t4:4 $2.92"}},
		"more than the usual":  {gputrain.Spec{Accelerator: accelerators.T4(accelerators.AtLeast(1)), MemoryGiB: 100}, nil, []string{"n1-highmem-16+nvidia-tesla-t4:1 $1.30", "n1-highmem-16+nvidia-tesla-t4:2 $1.65", "n1-standard-32+nvidia-tesla-t4:4 $2.92"}},
		"beyond most limits":   {gputrain.Spec{Accelerator: accelerators.T4(accelerators.AtLeast(1)), VCPUs: 64}, nil, []string{"n1-standard-96+nvidia-tesla-t4:4 $5.96"}},
		"four":                 {gputrain.Spec{Accelerator: accelerators.T4(accelerators.Count(4))}, nil, []string{"n1-standard-32+nvidia-tesla-t4:4 $2.92"}},
		"V100 has its own":     {gputrain.Spec{Accelerator: accelerators.V100(accelerators.Count(8))}, nil, []string{"n1-standard-96+nvidia-tesla-v100:8 unknown"}},
		"one machine type":     {gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}, func(c *Config) { c.MachineType = "g2-standard-8" }, []string{"g2-standard-4/spot rejected", "g2-standard-old/spot rejected", "g2-standard-8/spot $0.34"}},
		"reserved only":        {gputrain.Spec{Accelerator: accelerators.B200(accelerators.Count(8))}, nil, []string{"a4-highgpu-8g rejected"}},
		"no image":             {gputrain.Spec{VCPUs: 96}, func(c *Config) { c.Image = "projects/mine/global/images/family/lab" }, []string{"n1-standard-96 rejected"}},
		"one of N1":            {gputrain.Spec{Accelerator: accelerators.T4(accelerators.AtLeast(1))}, func(c *Config) { c.MachineType = "n1-standard-1" }, []string{"n1-standard-1+nvidia-tesla-t4:1 $0.40", "n1-standard-1+nvidia-tesla-t4:2 $0.75", "n1-standard-1+nvidia-tesla-t4:4 $1.45"}},
		"any type by name":     {gputrain.Spec{}, func(c *Config) { c.MachineType = "m1-megamem-96" }, []string{"m1-megamem-96 unknown"}},
		"part of a vCPU":       {gputrain.Spec{}, func(c *Config) { c.MachineType = "e2-micro" }, []string{"e2-micro unknown"}},
		"Google's own name":    {gputrain.Spec{Accelerator: accelerators.Exact("nvidia-l4", accelerators.AtLeast(1)), VCPUs: 8}, nil, []string{"g2-standard-8 $0.85", "g2-standard-24 $2.00"}},
		"a GPU of no table":    {gputrain.Spec{Accelerator: accelerators.Exact("nvidia-x900", accelerators.Count(8))}, nil, []string{"a9-highgpu-8g unknown"}},
		"spot only":            {gputrain.Spec{Accelerator: accelerators.H100(accelerators.AtLeast(1)), Allocation: both}, nil, []string{"a3-highgpu-1g/spot unknown", "a3-highgpu-8g/spot unknown", "a3-highgpu-8g unknown"}},
		"sold both ways":       {gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Allocation: both}, nil, []string{"a3-highgpu-8g/spot unknown", "a3-highgpu-8g unknown"}},
		"priced by the slice":  {gputrain.Spec{Accelerator: accelerators.B200(accelerators.Count(8)), Allocation: both}, nil, []string{"a4-highgpu-8g/spot $39.63"}},
		"bundled SSD":          {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Memory(80))}, nil, []string{"a2-ultragpu-1g $5.07"}},
		"of two memories":      {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Memory(40))}, nil, []string{"a2-highgpu-1g unknown", "a2-ultragpu-1g $5.07"}},
		"arm64":                {gputrain.Spec{Arch: "arm64"}, nil, []string{"t2a-standard-1 unknown"}},
		"without prices":       {gputrain.Spec{VCPUs: 96}, func(c *Config) { c.NoPrices = true }, []string{"n1-standard-96 unknown"}},
		"another zone":         {gputrain.Spec{VCPUs: 96}, func(c *Config) { c.Zone = otherZone }, []string{"n1-standard-96 $4.56 us-central1-b"}},
		"a region":             {gputrain.Spec{VCPUs: 96}, func(c *Config) { c.Region = "us-central1" }, []string{"n1-standard-96 $4.56", "n1-standard-96 $4.56 us-central1-b"}},
		"a region, one first":  {gputrain.Spec{VCPUs: 96}, func(c *Config) { c.Region, c.Zone = "us-central1", otherZone }, []string{"n1-standard-96 $4.56 us-central1-b", "n1-standard-96 $4.56"}},
		"regions of the spec":  {gputrain.Spec{VCPUs: 96, Regions: []string{"US-TX-3", "nowhere-west1", "us-central1", otherZone}}, nil, []string{"n1-standard-96 $4.56", "n1-standard-96 $4.56 us-central1-b"}},
		"only one zone has it": {gputrain.Spec{Accelerator: accelerators.T4(accelerators.AtLeast(1))}, func(c *Config) { c.Region = "us-central1" }, []string{"n1-standard-8+nvidia-tesla-t4:1 $0.73", "n1-standard-16+nvidia-tesla-t4:2 $1.46", "n1-standard-32+nvidia-tesla-t4:4 $2.92"}},
		"a TPU is no GPU":      {gputrain.Spec{Accelerator: accelerators.Exact("ct5lp")}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			var change []func(*Config)
			if test.change != nil {
				change = append(change, test.change)
			}
			var have []string
			for _, o := range cloudtest.AllOffers(t, f.open(change...), test.spec.Query()) {
				if o.Country != "US" {
					t.Errorf("%+v", o)
				}
				if o.Rejected != "" {
					have = append(have, strings.TrimPrefix(o.ID, o.Region+"/")+" rejected")
					continue
				}
				line := fmt.Sprintf("%s %s", strings.TrimPrefix(o.ID, o.Region+"/"), o.HourlyUSD)
				if o.Region != testZone {
					line += " " + o.Region
				}
				have = append(have, line)
				if o.DiskGiB != 200 || o.VCPUs == 0 || o.MemoryGiB == 0 || o.Arch == "" || o.Spot != strings.HasSuffix(o.ID, "/spot") {
					t.Errorf("%+v", o)
				}
			}
			if !slices.Equal(have, test.want) {
				t.Errorf("\n%q, want\n%q", have, test.want)
			}
		})
	}
}

func TestOffersOfNoZone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for name, change := range map[string]func(*Config){
		"zone":   func(c *Config) { c.Zone = "us-central1-x" },
		"region": func(c *Config) { c.Region = "us-middle7" },
	} {
		for _, err := range f.open(change).Offers(t.Context(), oneL4.Query()) {
			if err == nil {
				t.Errorf("%s: an offer", name)
			}
			if !strings.Contains(err.Error(), "was not found") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// The catalogue of tens of thousands of rows is fetched once a day.
func TestPricesAreKept(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for range 2 {
		cloudtest.AllOffers(t, f.open(), oneL4.Query())
	}
	if n := len(f.Records(opSKUs)); n != 2 {
		t.Errorf("%d pages for two drivers; want two for the first, and none for the second", n)
	}
	refused := startFake(t)
	refused.skus = nil
	for range 2 {
		for _, o := range cloudtest.AllOffers(t, refused.open(), oneL4.Query()) {
			if _, known := o.HourlyUSD.USD(); known {
				t.Errorf("%+v", o)
			}
		}
	}
	if n := len(refused.Records(opSKUs)); n != 1 {
		t.Errorf("%d calls of an API that is not enabled", n)
	}
	c := priceListOf(Config{ProjectID: refused.project, Endpoint: refused.URL})
	c.mu.Lock()
	c.failed = time.Now().Add(-failureFor)
	c.mu.Unlock()
	refused.Do(func() { refused.skus = testSKUs() })
	if usd, known := cloudtest.AllOffers(t, refused.open(), oneL4.Query())[0].HourlyUSD.USD(); !known || usd <= 0 {
		t.Error("prices are not requested again")
	}
}

// If the catalogue's words have changed, a price is unknown, never wrong.
func TestPricesThatAreNotUnderstood(t *testing.T) {
	t.Parallel()
	change := func(description string, changed func(row)) []row {
		all := testSKUs()
		for _, s := range all {
			if s["description"] == description {
				changed(s)
			}
		}
		return all
	}
	expression := func(s row) row { return s["pricingInfo"].([]row)[0]["pricingExpression"].(row) }
	const core, gpu = "G2 Instance Core running in Americas", "Nvidia L4 GPU running in Americas"
	for name, skus := range map[string][]row{
		"renamed":            change(gpu, func(s row) { s["description"] = "Nvidia L4 Tensor Core running in Americas" }),
		"another unit":       change(core, func(s row) { expression(s)["usageUnit"] = "mo" }),
		"two prices":         append(testSKUs(), skuRow(core, "OnDemand", "h", 1)),
		"free":               change(core, func(s row) { expression(s)["tieredRates"].([]row)[0]["unitPrice"] = row{"currencyCode": "USD"} }),
		"no tiers":           change(core, func(s row) { expression(s)["tieredRates"] = []row{} }),
		"no prices":          change(gpu, func(s row) { s["pricingInfo"] = []row{} }),
		"another region":     change(gpu, func(s row) { s["serviceRegions"] = []string{"europe-west4"} }),
		"another currency":   change(gpu, func(s row) { expression(s)["tieredRates"].([]row)[0]["unitPrice"].(row)["currencyCode"] = "EUR" }),
		"not sold on demand": change(gpu, func(s row) { s["category"] = row{"usageType": "Commit1Yr"} }),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.skus = skus
			for _, o := range cloudtest.AllOffers(t, f.open(), oneL4.Query()) {
				if usd, known := o.HourlyUSD.USD(); known {
					t.Errorf("%s costs $%v", o.InstanceType, usd)
				}
			}
		})
	}
	f := startFake(t)
	f.skus = append(testSKUs(), skuRow(core, "OnDemand", "h", 24988000)) // the same price twice
	if usd, known := cloudtest.AllOffers(t, f.open(), oneL4.Query())[0].HourlyUSD.USD(); !known || math.Abs(usd-0.706824) > 1e-9 {
		t.Errorf("$%v, %v", usd, known)
	}
}

func TestPartOf(t *testing.T) {
	for description, want := range map[string]string{
		"N2D AMD Instance Core running in Iowa":                                  "core n2d",
		"C4A Arm Instance Ram running in Iowa":                                   "ram c4a",
		"Spot Preemptible N1 Predefined Instance Ram running in Iowa":            "ram n1",
		"Compute optimized Core running in Iowa":                                 "core c2",
		"Compute optimized Instance Ram running in Iowa":                         "ram c2",
		"A3Plus Instance Core running in Iowa":                                   "core a3plus",
		"Nvidia H100 80GB Mega GPU running in Iowa":                              "gpu nvidia-h100-mega-80gb",
		"Nvidia Tesla V100 GPU attached to Spot Preemptible VMs running in Iowa": "gpu nvidia-tesla-v100",
		"SSD backed Local Storage in Iowa":                                       "ssd",
		"M3 Memory-optimized Instance Ram running in Iowa":                       "",
		"N2 Instance Core":                           "",
		"Network Egress via Carrier Peering Network": "",
		"": "",
	} {
		if what, _ := partOf(description); what != want {
			t.Errorf("%q is %q, want %q", description, what, want)
		}
	}
}

func TestOfferIDs(t *testing.T) {
	for id, want := range map[string]place{
		"us-central1-a/g2-standard-4":                        {zone: testZone, name: "g2-standard-4"},
		"us-south1-ai1b/a4-highgpu-8g/spot":                  {zone: "us-south1-ai1b", name: "a4-highgpu-8g", spot: true},
		"us-central1-a/n1-standard-8+nvidia-tesla-t4:2":      {zone: testZone, name: "n1-standard-8", gpu: "nvidia-tesla-t4", gpus: 2},
		"us-central1-a/n1-standard-8+nvidia-tesla-t4:2/spot": {zone: testZone, name: "n1-standard-8", gpu: "nvidia-tesla-t4", gpus: 2, spot: true},
		"":                          {},
		"g2-standard-4":             {},
		"us-central1-a/../g2":       {},
		"us-central1-a/g2+t4:x":     {},
		"us-central1-a/g2/ondemand": {},
	} {
		got, err := parseOffer(id)
		if (err == nil) != (want.zone != "") || got != want {
			t.Errorf("%q is %+v, %v", id, got, err)
		}
	}
}

// If the caller leaves the loop, no further zone is asked for offers.
func TestOffersAreLazy(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open(func(c *Config) { c.Region = "us-central1" })
	f.Inject(fakecloud.Fault{Op: opTypes, Skip: 1, Answer: fakecloud.GoogleError(500, "internalError", "no")})
	for _, err := range d.Offers(t.Context(), oneL4.Query()) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	if n := len(f.Records(opTypes)); n != 1 {
		t.Errorf("%d zones were asked", n)
	}
}

// A gang would run over TCP at machines whose fast network is not set up, and Plan says so. One node needs none.
func TestFabricsThatAreNotSetUp(t *testing.T) {
	t.Parallel()
	d := startFake(t).open()
	for nodes, warned := range map[int]bool{1: false, 2: true} {
		for name, fabric := range map[string]string{"a3-highgpu-8g": "GPUDirect-TCPX is not", "g2-standard-24": ""} {
			spec := gputrain.Spec{Accelerator: accelerators.Any(accelerators.AtLeast(1)), InstanceTypes: []string{name}, Nodes: nodes}
			all := cloudtest.AllOffers(t, d, spec.Query())
			all = slices.DeleteFunc(all, func(o driver.Offer) bool { return o.InstanceType != name })
			if len(all) == 0 {
				t.Errorf("%s: no offers", name)
			}
			for _, o := range all {
				text := fmt.Sprint(o.Warnings)
				if strings.Contains(text, "TCP alone") != (warned && fabric != "") || warned && !strings.Contains(text, fabric) {
					t.Errorf("%d nodes: %s has the warnings %s", nodes, o.ID, text)
				}
			}
		}
	}
	for name, want := range map[string]string{"a3-megagpu-8g": "GPUDirect-TCPXO", "a3-ultragpu-8g": "RDMA (RoCE)", "a4-highgpu-8g": "RDMA (RoCE)", "a4x-highgpu-4g": "RDMA (RoCE)", "a3-highgpu-1g": "", "a2-highgpu-8g": "", "n1-standard-8": ""} {
		if got := fabricOf(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
