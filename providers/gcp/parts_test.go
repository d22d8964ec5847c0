package gcp

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// extraSKUs are the prices of disks, addresses and traffic, some with an amount that is free.
func extraSKUs() []row {
	tiers := func(r row, nanos ...int) row {
		rates := []row{}
		for i, n := range nanos {
			rates = append(rates, row{"startUsageAmount": i * 1024, "unitPrice": row{"currencyCode": "USD", "units": "0", "nanos": n}})
		}
		r["pricingInfo"].([]row)[0]["pricingExpression"].(row)["tieredRates"] = rates
		return r
	}
	return []row{
		skuRow("Balanced PD Capacity", "OnDemand", "GiBy.mo", 100000000),
		skuRow("Regional Balanced PD Capacity", "OnDemand", "GiBy.mo", 200000000),
		tiers(skuRow("Storage PD Capacity", "OnDemand", "GiBy.mo", 0), 0, 40000000),
		skuRow("Hyperdisk Balanced Capacity in Iowa", "OnDemand", "GiBy.mo", 80000000),
		tiers(skuRow("External IP Charge on a Standard VM", "OnDemand", "h", 0, "global"), 0, 5000000),
		skuRow("External IP Charge on a Spot Preemptible VM", "OnDemand", "h", 2500000, "global"),
		tiers(skuRow("Network Internet Data Transfer Out from Americas to Americas", "OnDemand", "GiBy", 0), 120000000, 110000000),
		tiers(skuRow("Network Internet Data Transfer Out from Americas to China", "OnDemand", "GiBy", 0), 230000000, 220000000),
		skuRow("Network Inter Region Data Transfer Out from Americas to Americas", "OnDemand", "GiBy", 10000000),
	}
}

// The price has the machine, a disk of the size that a launch makes, and an address.
func TestPriceParts(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		spec    gputrain.Spec
		change  func(*Config)
		without string // a description in the catalogue
		want    map[string]float64
		warning string
	}{
		"on demand":      {spec: oneL4, want: map[string]float64{"machine": 0.706824, "disk": 20.0 / 730, "address": 0.005}},
		"spot":           {spec: gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}, want: map[string]float64{"machine": 0.28238, "disk": 20.0 / 730, "address": 0.0025}},
		"image's disk":   {spec: gputrain.Spec{Accelerator: accelerators.L4(), DiskGiB: 20}, want: map[string]float64{"machine": 0.706824, "disk": 5.0 / 730, "address": 0.005}},
		"another disk":   {spec: oneL4, change: func(c *Config) { c.DiskType = "pd-standard" }, want: map[string]float64{"machine": 0.706824, "disk": 8.0 / 730, "address": 0.005}},
		"no address":     {spec: oneL4, change: func(c *Config) { c.PrivateIP = true }, want: map[string]float64{"machine": 0.706824, "disk": 20.0 / 730}},
		"unknown disk":   {spec: oneL4, change: func(c *Config) { c.DiskType = "pd-new" }, want: map[string]float64{"machine": 0.706824, "address": 0.005}, warning: "without its disk"},
		"no IP in list":  {spec: oneL4, without: "External IP Charge on a Standard VM", want: map[string]float64{"machine": 0.706824, "disk": 20.0 / 730}, warning: "without its address"},
		"unknown itself": {spec: oneL4, without: "Nvidia L4 GPU running in Americas"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.skus = slices.DeleteFunc(append(testSKUs(), extraSKUs()...), func(s row) bool { return s["description"] == test.without })
			d := f.open(func(c *Config) {
				c.ServiceAccount = "node@p.iam.gserviceaccount.com"
				if test.change != nil {
					test.change(c)
				}
			})
			o := cloudtest.AllOffers(t, d, test.spec.Query())[0]
			sum, have := 0.0, map[string]float64{}
			for _, p := range o.Parts {
				have[p.Name] = p.HourlyUSD
				if math.Abs(p.HourlyUSD-test.want[p.Name]) > 1e-6 {
					t.Errorf("%+v, want %v", p, test.want)
				}
			}
			for _, usd := range test.want {
				sum += usd
			}
			if usd, known := o.HourlyUSD.USD(); len(have) != len(test.want) || known != (test.want != nil) || math.Abs(usd-sum) > 2e-6 || o.EgressUSD != 0.12 {
				t.Errorf("%+v, want %v", o, test.want)
			}
			if warned := strings.Join(o.Warnings, "\n"); (warned != "") != (test.warning != "") || !strings.Contains(warned, test.warning) {
				t.Errorf("%q", o.Warnings)
			}
			if test.want == nil {
				return
			}
			in, err := d.Launch(t.Context(), request(test.spec, o, 0))
			if got := cloudtest.Describe(t, f.open(), cloudtest.One(t, in, err).ID).Offer; got.HourlyUSD != o.HourlyUSD || !slices.Equal(got.Parts, o.Parts) {
				t.Errorf("%+v, want the price of %+v", got, o)
			}
		})
	}
}

// Places are countries, too, and each zone has offers of its own.
func TestOffersByCountry(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, zone := range []string{"europe-west4-a", "europe-west9-b"} {
		f.zones[zone], f.gpus[zone] = machineTypes(), []row{}
	}
	for text, want := range map[string][]string{
		"region NL": {"europe-west4-a"}, "country nl": {"europe-west4-a"}, "country NL FR": {"europe-west4-a", "europe-west9-b"}, "region europe-west9": {"europe-west9-b"},
		"region FR europe-west4-a": {"europe-west4-a", "europe-west9-b"}, "country JP": nil, "region us-central1-b": {otherZone},
	} {
		kind, places, _ := strings.Cut(text, " ")
		q := gputrain.Spec{Accelerator: accelerators.L4(), VCPUs: 8}.Query()
		if q.Regions = strings.Fields(places); kind == "country" {
			q.Regions, q.Countries = nil, q.Regions
		}
		var have []string
		for _, o := range cloudtest.AllOffers(t, f.open(), q) {
			if o.Rejected == "" {
				have = append(have, o.Region)
			}
			if o.Country != map[string]string{"europe-west4": "NL", "europe-west9": "FR", "us-central1": "US"}[regionOf(o.Region)] {
				t.Errorf("%+v", o)
			}
		}
		if !slices.Equal(have, want) {
			t.Errorf("%s: %q, want %q", text, have, want)
		}
	}
}

func TestQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	f.quotas = map[string]map[string]float64{
		"us-central1": {"NVIDIA_L4_GPUS": 4, "PREEMPTIBLE_NVIDIA_L4_GPUS": 9, "NVIDIA_T4_GPUS": 8, "PREEMPTIBLE_NVIDIA_T4_GPUS": 0, "NVIDIA_A100_GPUS": 1, "NVIDIA_A100_80GB_GPUS": 0},
		"":            {allGPUs: 6},
	}
	d := f.open()
	mustLaunch(t, d, oneL4, 0)
	spot := gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}
	for name, test := range map[string]struct {
		spec   gputrain.Spec
		want   int
		reason string
	}{
		"on demand":     {oneL4, 3, "NVIDIA_L4_GPUS in us-central1: 4 GPUs, of which 1 are used; a machine needs 1"},
		"two of them":   {gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(2))}, 1, "NVIDIA_L4_GPUS in us-central1: 4 GPUs, of which 1 are used; a machine needs 2"},
		"spot":          {spot, 5, "GPUS_ALL_REGIONS in the project: 6 GPUs, of which 1 are used; a machine needs 1"},
		"spot without":  {gputrain.Spec{Accelerator: accelerators.T4(accelerators.Count(4)), Allocation: driver.Spot}, 1, "GPUS_ALL_REGIONS in the project: 6 GPUs, of which 1 are used; a machine needs 4"},
		"of 80 GB":      {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Memory(80))}, 0, "NVIDIA_A100_80GB_GPUS in us-central1: 0 GPUs, of which 0 are used; a machine needs 1"},
		"not of region": {gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))}, 0, "GPUS_ALL_REGIONS in the project: 6 GPUs, of which 1 are used; a machine needs 8"},
		"no GPU":        {gputrain.Spec{}, 0, ""},
	} {
		var o driver.Offer
		for _, offered := range cloudtest.AllOffers(t, d, test.spec.Query()) {
			if offered.Rejected == "" && (name != "of 80 GB" || strings.HasPrefix(offered.InstanceType, "a2-ultragpu")) {
				o = offered
				break
			}
		}
		q, err := d.Quota(t.Context(), o)
		if want := (driver.Quota{Known: test.reason != "", Machines: test.want, Reason: test.reason}); err != nil || q != want {
			t.Errorf("%s: %+v, %v, want %+v", name, q, err, want)
		}
	}
	if n := len(f.Records(opProject)); n != 1 {
		t.Errorf("the project is asked %d times", n)
	}
	mustLaunch(t, d, oneL4, 1)
	o := cloudtest.AllOffers(t, d, oneL4.Query())[0]
	if q, err := d.Quota(t.Context(), o); err != nil || q.Machines != 2 {
		t.Errorf("after a launch: %+v, %v", q, err)
	}
	f.granted = map[string]bool{}
	_, err := f.open().Quota(t.Context(), o)
	is(t, err, driver.ErrAuth, "quota")
}

// The pool does not try a launch that the quota forbids, and its error names the quota.
func TestPoolThatAsksForQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.quotas = map[string]map[string]float64{"": {allGPUs: 0}}
	_, err := gputrain.Open(t.Context(), f.config(), oneL4, gputrain.WithStateDir(t.TempDir()))
	if err == nil || len(f.Records(opInsert)) > 0 {
		t.Fatalf("%v, after %d launches", err, len(f.Records(opInsert)))
	}
	if !strings.Contains(fmt.Sprint(err), "GPUS_ALL_REGIONS in the project: 0 GPUs") {
		t.Error(err)
	}
}

// Nodes run in the reservation that Config names, on demand.
func TestReservation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		kind  string
		spec  gputrain.Spec
		model string
	}{
		"usual":         {"g2-standard-4", oneL4, "STANDARD"},
		"reserved only": {"a3-highgpu-1g", gputrain.Spec{Accelerator: accelerators.H100()}, "RESERVATION_BOUND"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.noMachines = true
			f.reserved[testZone+"/mine"] = &fakeReservation{machineType: test.kind, room: 1}
			f.quotas = map[string]map[string]float64{"us-central1": {"NVIDIA_L4_GPUS": 0}, "": {allGPUs: 0}}
			d := f.open(func(c *Config) { c.Zone, c.Reservation, c.MachineType = testZone, "mine", test.kind })
			test.spec.Allocation = driver.SpotIfAvailable
			var all []driver.Offer
			for _, o := range cloudtest.AllOffers(t, d, test.spec.Query()) {
				if o.Rejected == "" {
					all = append(all, o)
				}
			}
			if len(all) != 1 || all[0].Spot || !strings.Contains(strings.Join(all[0].Warnings, "\n"), "the reservation mine, which is billed") {
				t.Fatalf("%+v", all)
			}
			if q, err := d.Quota(t.Context(), all[0]); err != nil || q.Known {
				t.Errorf("%+v, %v", q, err)
			}
			if _, err := d.Launch(t.Context(), request(test.spec, all[0], 0)); err != nil {
				t.Fatal(err)
			}
			in := f.asked()
			for path, want := range map[string]any{
				"reservationAffinity.consumeReservationType": "SPECIFIC_RESERVATION", "reservationAffinity.key": "compute.googleapis.com/reservation-name",
				"reservationAffinity.values.0": "mine", "scheduling.provisioningModel": test.model,
			} {
				if have := at(in, path); have != want {
					t.Errorf("%s is %v, want %v", path, have, want)
				}
			}
			_, err := d.Launch(t.Context(), request(test.spec, all[0], 1))
			is(t, err, driver.ErrNoCapacity, "launch")
		})
	}
}

// A user's tags are labels of the machine and its disk, or nothing is made.
func TestUserTags(t *testing.T) {
	t.Parallel()
	for key, value := range map[string]string{"gputrain-run": "p2", "goog-x": "y", "Team": "x", "team": "Vision", "": "x", "4711": "x", "a b": "x"} {
		f := startFake(t)
		d := f.open()
		req := request(oneL4, cloudtest.AllOffers(t, d, oneL4.Query())[0], 0)
		req.Pool.Tags = map[string]string{key: value}
		is(t, d.Prepare(t.Context(), req.Pool), driver.ErrInvalid, "prepare")
		_, err := d.Launch(t.Context(), req)
		is(t, err, driver.ErrInvalid, "launch")
		if live := f.live(); len(live) != 0 {
			t.Errorf("made: %v", live)
		}
	}
}
