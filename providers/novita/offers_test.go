package novita

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Prices are of one GPU in 1/100,000 USD, as a string or a number.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.products = append(f.products,
		with(f.products[0], row{"id": "none", "inventoryState": "none"}),
		with(f.products[0], row{"id": "undeployed", "availableDeploy": false}),
		with(f.products[0], row{"id": "unbuyable", "canBuy": false}),
		with(f.products[0], row{"id": "small", "maxRootFS": 40}),
		with(f.products[0], row{"id": "monthly", "billingMethods": []string{"monthly"}}),
	)
	two := gputrain.Spec{Accelerator: accelerators.Accelerator{Count: 2}, Allocation: driver.CheapestAllocation, DiskGiB: 223.5} // 240 GB
	var got []string
	for _, o := range cloudtest.Offers(t, cloudtest.Open(t, f.config()), two.Query()) {
		got = append(got, fmt.Sprintf("%s %s %s %v %v", o.ID, o.Accelerator, o.HourlyUSD, o.VCPUs, o.MemoryGiB))
	}
	want := []string{ // 180 GB of the disk are billed
		"onDemand/2//4090.16c62g RTX4090-24GB:2 $0.74 32 124", "spot/2//4090.16c62g RTX4090-24GB:2 $0.39 32 124",
		"onDemand/2//4090.16c96g.v2 RTX4090-24GB:2 $0.78 32 124", "onDemand/2//5090.16c120g RTX5090-32GB:2 $1.24 32 124",
		"onDemand/2//H100.20c200g H100-80GB-SXM:2 $4.44 32 124", "spot/2//H100.20c200g H100-80GB-SXM:2 $2.24 32 124",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	var reasons []string
	for _, r := range cloudtest.Rejected(t, cloudtest.Open(t, f.config()), two.Query()) {
		if reason := strings.TrimPrefix(r, "RTX 4090 24GB in  "); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	if want := []string{"is sold out", "has a disk of at most 40 GB; 240 are asked for", "is not rented on demand, but monthly"}; !slices.Equal(reasons, want) {
		t.Errorf("%q, want %q", reasons, want)
	}
	onSpot := gputrain.Spec{Allocation: driver.Spot}
	if got, want := cloudtest.Rejected(t, cloudtest.Open(t, f.config()), onSpot.Query()), "RTX 5090 32GB in  has no spot"; !slices.Contains(got, want) {
		t.Errorf("%q has not %q", got, want)
	}
	nine := gputrain.Spec{Accelerator: accelerators.Accelerator{Count: 9}}
	if all := cloudtest.Offers(t, cloudtest.Open(t, f.config()), nine.Query()); len(all) > 0 {
		t.Errorf("%+v", all)
	}
}

// The disk over 60 GB is a part of the price.
func TestPartsOfPrices(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	if o := cloudtest.Offers(t, d, rtx4090.Query())[0]; o.Parts != nil || o.HourlyUSD != driver.USD(0.35) {
		t.Errorf("%+v", o)
	}
	o := cloudtest.Offers(t, d, driver.Query{Accelerator: accelerators.RTX4090(), DiskGiB: 223.5})[0]
	want := []driver.PricePart{{Name: "machine", HourlyUSD: 0.35}, {Name: "disk", HourlyUSD: float64(180) * diskUSDPerDay / 24}}
	if !slices.Equal(o.Parts, want) {
		t.Errorf("%+v, want %+v", o.Parts, want)
	}
}

func TestCountries(t *testing.T) {
	t.Parallel()
	for cluster, want := range map[string]string{
		"us-ca-6": "US", "us-ca-nas-2": "US", "US-CA-06 (California)": "US", "eu-gb-1": "GB", "EU-GB-01 (United Kingdom)": "GB", "AS-SGP-02 (Singapore)": "",
		"as-in-1": "IN", "uk-1": "GB", "eu-1": "", "": "", "moon": "",
	} {
		if got := countryOf(cluster); got != want {
			t.Errorf("%q is in %q; want %q", cluster, got, want)
		}
	}
	for want, regions := range map[string][]string{"US": {"US-CA-06 (California)", "us-tx-1"}, "": {"US-CA-06 (California)", "EU-GB-01 (United Kingdom)"}, "GB": {"EU-GB-01"}} {
		if got := (product{Regions: regions}).country(); got != want {
			t.Errorf("%q are in %q; want %q", regions, got, want)
		}
	}
}

// A query for countries takes products of one country in any cluster, and others by their clusters.
func TestOffersByCountry(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.products = f.products[:2]
	f.products[1]["regions"] = []string{"US-CA-06 (California)", "EU-GB-01 (United Kingdom)"}
	for _, tt := range []struct {
		spec gputrain.Spec
		want []string
	}{
		{gputrain.Spec{}, []string{"onDemand/1//4090.16c62g US", "onDemand/1//4090.16c96g.v2 "}},
		{gputrain.Spec{Countries: []string{"us"}}, []string{"onDemand/1//4090.16c62g US", "onDemand/1/us-ca-6/4090.16c96g.v2 US", "onDemand/1/us-ca-nas-2/4090.16c96g.v2 US"}},
		{gputrain.Spec{Regions: []string{"GB"}}, []string{"onDemand/1/eu-gb-1/4090.16c62g GB", "onDemand/1/eu-gb-1/4090.16c96g.v2 GB"}},
		{gputrain.Spec{Countries: []string{"FR"}}, nil},
	} {
		var got []string
		for _, o := range cloudtest.Offers(t, cloudtest.Open(t, f.config()), tt.spec.Query()) {
			got = append(got, o.ID+" "+o.Country)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.spec, got, tt.want)
		}
	}
}

// The balance is asked for beside the API's path, and not at all if that is another.
func TestBalance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config()).(driver.Balancer)
	f.Do(func() { f.usd = 12.34 })
	if b, err := d.Balance(t.Context(), driver.Offer{}); err != nil || b != (driver.Balance{Known: true, USD: 12.34}) {
		t.Errorf("%+v, %v", b, err)
	}
	f.Inject(fakecloud.Fault{Op: opBalance, Answer: fakecloud.Reply(200, row{})})
	_, err := d.Balance(t.Context(), driver.Offer{})
	cloudtest.Is(t, err, driver.ErrUnavailable, "novita", "balance", testKey)
	c, err := newClient(Config{Endpoint: f.URL + "/novita"}, testKey)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if b, err := (&api{client: c}).Balance(t.Context(), driver.Offer{}); err != nil || b != (driver.Balance{}) {
		t.Errorf("%+v, %v", b, err)
	}
}

// Names of regions are only for display: a cluster is requested by its ID.
func TestClusters(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, tt := range []struct {
		cluster string
		regions []string
		want    []string
	}{
		{"", nil, []string{""}},
		{"us-ca-6", nil, []string{"us-ca-6"}},
		{"", []string{"us-ca"}, []string{"us-ca-6", "us-ca-nas-2"}},
		{"", []string{"eu-gb-1", "us-ca-6"}, []string{"us-ca-6", "eu-gb-1"}},
		{"us-ca-6", []string{"eu"}, nil},
		{"", []string{"US-CA-06 (California)"}, nil},
	} {
		cfg, spec, got := f.config(), rtx4090, []string(nil)
		cfg.ClusterID, spec.Regions = tt.cluster, tt.regions
		for _, o := range cloudtest.Offers(t, cloudtest.Open(t, cfg), spec.Query()) {
			if p, err := readPlace(o.ID); err != nil || p.cluster != o.Region {
				t.Errorf("%+v: %v", o, err)
			}
			if !slices.Contains(got, o.Region) {
				got = append(got, o.Region)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%q in %q: %q", tt.cluster, tt.regions, got)
		}
	}
}

// An offer of another provider is refused before anything is made.
func TestOffersOfOthers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, id := range []string{"", "4090.16c62g", "monthly/1//4090.16c62g", "onDemand/9//4090.16c62g", "onDemand/1//", "onDemand/x//a"} {
		_, err := d.Launch(t.Context(), cloudtest.Request(t, rtx4090.Query(), driver.Offer{ID: id}, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, "novita", "launch")
	}
	if len(f.Records(opCreate)) > 0 {
		t.Error("an instance was made")
	}
}
