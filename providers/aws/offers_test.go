package aws

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

func named(all []driver.Offer) (names []string) {
	for _, o := range all {
		if o.Rejected != "" {
			names = append(names, o.InstanceType+" rejected")
		} else if o.Spot {
			names = append(names, o.InstanceType+" spot")
		} else {
			names = append(names, o.InstanceType)
		}
	}
	return names
}

func TestOffers(t *testing.T) {
	t.Parallel()
	cheapest := driver.CheapestAllocation
	for name, tt := range map[string]struct {
		spec gputrain.Spec
		cfg  func(*Config)
		want []string
	}{
		"anything":                     {gputrain.Spec{}, nil, []string{"c7i.large", "m7g.medium", "t3.medium"}}, // no old type, no tiny one, none with accelerators
		"not burstable":                {gputrain.Spec{}, func(c *Config) { c.ExcludeBurstable = true }, []string{"c7i.large", "m7g.medium", "t3.medium rejected"}},
		"arm64":                        {gputrain.Spec{Arch: "arm64"}, nil, []string{"m7g.medium"}},
		"both markets":                 {gputrain.Spec{VCPUs: 2, Allocation: cheapest}, nil, []string{"c7i.large spot", "c7i.large", "t3.medium spot", "t3.medium"}},
		"spot":                         {gputrain.Spec{VCPUs: 2, Allocation: driver.Spot}, nil, []string{"c7i.large spot", "t3.medium spot"}},
		"one A10G":                     {gputrain.Spec{Accelerator: accelerators.A10G()}, nil, []string{"g5.xlarge"}},
		"its nominal memory":           {gputrain.Spec{Accelerator: accelerators.A10G(accelerators.Memory(24))}, nil, []string{"g5.xlarge"}},
		"four":                         {gputrain.Spec{Accelerator: accelerators.A10G(accelerators.Count(4))}, nil, []string{"g5.12xlarge"}},
		"T4G":                          {gputrain.Spec{Accelerator: accelerators.Accelerator{Name: "T4G"}}, nil, []string{"g5g.xlarge"}},
		"eight A100":                   {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8))}, nil, []string{"p4d.24xlarge"}},
		"of 80 GB":                     {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8), accelerators.Memory(80))}, nil, nil},
		"a part of L4":                 {gputrain.Spec{Accelerator: accelerators.L4()}, nil, nil},
		"an eighth of an L4":           {gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(0.125))}, nil, []string{"g6f.large rejected"}},
		"an eighth, one's own image":   {gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(0.125))}, func(c *Config) { c.AMI = "ami-00000001" }, []string{"g6f.large"}},
		"a quarter of an L4":           {gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(0.25))}, nil, nil},
		"in no zone of ours":           {gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))}, nil, []string{"p5.48xlarge rejected"}},
		"capacity block":               {gputrain.Spec{Accelerator: accelerators.H200(accelerators.Count(8))}, nil, []string{"p5e.48xlarge rejected"}},
		"Trainium2":                    {gputrain.Spec{Accelerator: accelerators.Trainium2(accelerators.Count(16))}, nil, []string{"trn2.48xlarge"}},
		"V100 by the open driver":      {gputrain.Spec{Accelerator: accelerators.V100(accelerators.Count(8))}, nil, []string{"p3dn.24xlarge rejected"}},
		"V100 with one's own image":    {gputrain.Spec{Accelerator: accelerators.V100(accelerators.Count(8))}, func(c *Config) { c.AMI = "ami-00000001" }, []string{"p3dn.24xlarge"}},
		"an image of one architecture": {gputrain.Spec{}, func(c *Config) { c.AMI = "ami-00000002" }, []string{"c7i.large rejected", "m7g.medium", "t3.medium rejected"}},
		"no GPU image so old":          {gputrain.Spec{Accelerator: accelerators.A10G()}, func(c *Config) { c.UbuntuVersion = "20.04" }, []string{"g5.xlarge rejected"}},
		"no image of that release":     {gputrain.Spec{Arch: "arm64"}, func(c *Config) { c.UbuntuVersion = "22.04" }, []string{"m7g.medium rejected"}},
		"one's own subnet":             {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8))}, func(c *Config) { c.SubnetID = testSubnets["us-east-1a"] }, []string{"p4d.24xlarge rejected"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			change := tt.cfg
			if change == nil {
				change = func(*Config) {}
			}
			got := cloudtest.AllOffers(t, f.open(change), tt.spec.Query())
			if !slices.Equal(named(got), tt.want) {
				t.Errorf("%q, want %q", named(got), tt.want)
			}
			for _, o := range got {
				if o.Country != "US" {
					t.Errorf("%+v", o)
				}
				if o.Rejected != "" {
					continue
				}
				if usd, known := o.HourlyUSD.USD(); !known || usd <= 0.005 || o.Region != "us-east-1" || o.Arch == "" || o.DiskGiB != 100 || o.ID == "" {
					t.Errorf("%+v", o)
				}
			}
		})
	}
}

// There is no machine with one A100, and a query for one gets no offer of eight.
func TestDevicesComeInNumbers(t *testing.T) {
	t.Parallel()
	d := startFake(t).open()
	var err error
	for _, e := range d.Offers(t.Context(), driver.Query{Accelerator: accelerators.A100()}) {
		err = e
	}
	is(t, err, driver.ErrNoOffers, "offers")
	if !strings.Contains(fmt.Sprint(err), "p4d.24xlarge") || !strings.Contains(fmt.Sprint(err), ":8") {
		t.Errorf("%v", err)
	}
}

// Wrong numbers in EC2's description of devices are corrected.
func TestDevices(t *testing.T) {
	t.Parallel()
	d := startFake(t).open()
	trn := cloudtest.AllOffers(t, d, driver.Query{Accelerator: accelerators.Trainium2(accelerators.Count(16))})[0]
	if trn.Accelerator.MemoryGiB > 96 {
		t.Errorf("a Trainium2 of %v GiB", trn.Accelerator.MemoryGiB)
	}
	inf, err := accelerators.Parse("Inferentia")
	if err != nil {
		t.Fatal(err)
	}
	if all := cloudtest.AllOffers(t, d, driver.Query{Accelerator: inf}); len(all) != 1 || all[0].Accelerator.Count != 1 || all[0].InstanceType != "inf1.xlarge" {
		t.Errorf("%+v", all)
	}
}

// The price is the machine's, with its disk and address. On spot it is the cheapest of
// all zones, on every page.
func TestPrices(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	spec := gputrain.Spec{Accelerator: accelerators.A10G(), DiskGiB: 500, Allocation: driver.CheapestAllocation}
	extra := (500+75)*diskUSD + addressUSD // with the image's 75 GB
	all := cloudtest.AllOffers(t, d, spec.Query())
	spot, _ := all[0].HourlyUSD.USD()
	onDemand, _ := all[1].HourlyUSD.USD()
	if !near(spot, 0.4+extra) || !near(onDemand, 1.006+extra) || all[0].DiskGiB != 500 || all[0].EgressUSD != 0.09 {
		t.Errorf("%+v", all)
	}
	if p := all[1].Parts; len(p) != 3 || p[0] != (driver.PricePart{Name: "machine", HourlyUSD: 1.006}) || p[1].Name != "disk" || !near(p[1].HourlyUSD, 575*diskUSD) || p[2] != (driver.PricePart{Name: "address", HourlyUSD: addressUSD}) {
		t.Errorf("%+v", p)
	}
	n := len(f.Records(opOther))
	cloudtest.AllOffers(t, d, spec.Query())
	if more := len(f.Records(opOther)) - n; more != 0 {
		t.Errorf("prices on demand are requested again: %d calls", more)
	}
}

// Prices of many types are fetched together, page by page.
func TestPricesOfMany(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for i := range manyPrices {
		f.types = append(f.types, fakeType{name: fmt.Sprintf("m9.%02dxlarge", i), arch: "x86_64", vcpus: 8, memoryMiB: 32768, usd: 1 + float64(i)})
	}
	all := cloudtest.AllOffers(t, f.open(), driver.Query{VCPUs: 8})
	if len(all) != manyPrices {
		t.Fatalf("%d offers", len(all))
	}
	for i, o := range all {
		if usd, _ := o.HourlyUSD.USD(); !near(usd, 1+float64(i)+100*diskUSD+addressUSD) {
			t.Errorf("%s costs %v", o.InstanceType, usd)
		}
	}
	for _, r := range f.Records(opOther) {
		if strings.Contains(r.Body, "instanceType\"") {
			t.Errorf("%s", r.Body)
		}
	}
}

// A price that the account may not read is unknown, which is not zero.
func TestPricesDenied(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.denied["AWSPriceListService.GetProducts"], f.denied["DescribeSpotPriceHistory"] = true, true
	d := f.open()
	all := cloudtest.AllOffers(t, d, driver.Query{Accelerator: accelerators.A10G(), Allocation: driver.CheapestAllocation})
	if len(all) != 2 || all[0].HourlyUSD != (driver.Price{}) || all[1].HourlyUSD != (driver.Price{}) || all[0].Parts != nil || all[0].EgressUSD != 0 {
		t.Errorf("%+v", all)
	}
	f.denied["DescribeInstanceTypes"] = true
	for _, err := range d.Offers(t.Context(), driver.Query{}) {
		is(t, err, driver.ErrAuth, "offers")
	}
}

// China's prices are not in dollars, and GovCloud's accounts cannot call the Price List.
func TestPricesElsewhere(t *testing.T) {
	t.Parallel()
	for region, spotIsKnown := range map[string]bool{"cn-north-1": false, "us-gov-west-1": true} {
		f := startFake(t)
		d := prepared(t, f, func(c *Config) { c.Region = region })
		spec := a10g
		spec.Allocation, spec.MaxHourlyUSD, spec.AllowUnknownPrice = driver.CheapestAllocation, 1, true
		all := cloudtest.AllOffers(t, d, spec.Query())
		if len(all) != 2 || (all[0].HourlyUSD != driver.Price{}) != spotIsKnown || all[1].HourlyUSD != (driver.Price{}) {
			t.Fatalf("%s: %+v", region, all)
		}
		mustLaunch(t, d, request(spec, all[0], 1))
		if r := f.Records("CreateFleet")[0]; strings.Contains(r.Body, "MaxPrice") != spotIsKnown {
			t.Errorf("%s: %s", region, r.Body)
		}
	}
}

// Items of the Price List that have no usable price count as 0.
func TestProducts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"": 0, "{}": 0, "[]": 0, "null": 0, `{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"USD":"1.5"}}}}}}}`: 1.5,
		`{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"CNY":"1.5"}}}}}}}`:    0,
		`{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"unit":"Quantity","pricePerUnit":{"USD":"9"}}}}}}}`: 0,
		`{"terms":{"OnDemand":{"a":{"priceDimensions":{"b":{"unit":"Hrs","pricePerUnit":{"USD":"free"}}}}}}}`:   0,
	} {
		if _, usd := product(text, "Hrs"); usd != want {
			t.Errorf("%s: %v", text, usd)
		}
	}
}

// Images are found by their SSM parameters, or by name if those are denied or missing.
func TestImages(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		arch    string
		s       software
		ubuntu  string
		change  func(*fake)
		want    string
		nothing error
	}{
		"plain":                 {"amd64", plain, "24.04", nil, "ami-00000001", nil},
		"plain on arm64":        {"arm64", plain, "24.04", nil, "ami-00000002", nil},
		"older":                 {"amd64", plain, "22.04", nil, "ami-00000007", nil},
		"NVIDIA":                {"amd64", nvidia, "24.04", nil, "ami-00000003", nil},
		"NVIDIA on arm64":       {"arm64", nvidia, "24.04", nil, "ami-00000004", nil},
		"Neuron":                {"amd64", neuron, "24.04", nil, "ami-00000005", nil},
		"plain by name":         {"amd64", plain, "24.04", func(f *fake) { f.denied["AmazonSSM.GetParameter"] = true }, "ami-00000001", nil},
		"older by name":         {"amd64", plain, "22.04", func(f *fake) { f.noImages = true }, "ami-00000007", nil},
		"NVIDIA by name":        {"amd64", nvidia, "24.04", func(f *fake) { f.noImages = true }, "ami-00000003", nil},
		"NVIDIA, arm64 by name": {"arm64", nvidia, "24.04", func(f *fake) { f.noImages = true }, "ami-00000004", nil},
		"Neuron has no name":    {"amd64", neuron, "24.04", func(f *fake) { f.noImages = true }, "", driver.ErrNotFound},
		"there is none":         {"arm64", plain, "20.04", nil, "", driver.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			if tt.change != nil {
				tt.change(f)
			}
			d := f.open(func(c *Config) { c.UbuntuVersion = tt.ubuntu })
			im, err := d.launcher.images.forNode(t.Context(), tt.arch, tt.s)
			if im.id != tt.want || (err != nil) != (tt.nothing != nil) {
				t.Fatalf("%+v, %v", im, err)
			}
			if err != nil {
				is(t, fail("launch", err), tt.nothing, "launch")
				return
			}
			if im.arch != tt.arch || im.root != "/dev/sda1" || im.diskGB == 0 || im.user != "ubuntu" {
				t.Errorf("%+v", im)
			}
			n := len(f.Records())
			if _, err := d.launcher.images.forNode(t.Context(), tt.arch, tt.s); err != nil || len(f.Records()) != n {
				t.Errorf("it is looked up again: %v", err)
			}
		})
	}
}

// An image that does not exist in this region is reported as not found.
func TestImageThatIsNotThere(t *testing.T) {
	t.Parallel()
	d := startFake(t).open(func(c *Config) { c.AMI = "ami-0badbadbad" })
	for _, err := range d.Offers(t.Context(), driver.Query{}) {
		is(t, err, driver.ErrNotFound, "offers")
	}
}

// Without a default VPC, the user must set SubnetID.
func TestNoDefaultVPC(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noVPC = true
	err := f.open().Prepare(t.Context(), cloudtest.Info("p1"))
	is(t, err, driver.ErrInvalid, "prepare")
	if !strings.Contains(fmt.Sprint(err), "SubnetID") {
		t.Errorf("%v", err)
	}
	named := f.open(func(c *Config) { c.SubnetID = testSubnets["us-east-1b"] })
	if err := named.Prepare(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	wrong := f.open(func(c *Config) { c.SubnetID = "subnet-0badbadb" })
	is(t, wrong.Prepare(t.Context(), cloudtest.Info("p1")), driver.ErrNotFound, "prepare")
}

// Under a price limit, the pool rejects an offer whose price is unknown.
func TestUnknownPriceUnderACap(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.unpriced = true
	plan, err := gputrain.Plan(t.Context(), f.config(), gputrain.Spec{MaxHourlyUSD: 1})
	if err != nil || len(plan) == 0 || !strings.Contains(plan[0].Rejected, "not known") {
		t.Errorf("%+v, %v", plan, err)
	}
	f.Inject(fakecloud.Fault{Op: "DescribeVpcs", Times: -1, Answer: fakecloud.EC2Error(403, "AuthFailure", "not able to validate the provided access credentials")})
	_, err = gputrain.Plan(t.Context(), f.config(), gputrain.Spec{})
	is(t, err, driver.ErrAuth, "offers")
}

// A gang would run over TCP at machines whose fast network is not set up, and Plan says so. One node needs none.
func TestFabricsThatAreNotSetUp(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for name, test := range map[string]struct {
		spec     gputrain.Spec
		together bool
		warned   bool
	}{
		"a gang":          {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8)), Nodes: 2}, false, true},
		"close together":  {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8)), Nodes: 2}, true, true},
		"an elastic pool": {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8)), MaxNodes: 4}, false, true},
		"one node":        {gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(8))}, false, false},
		"another type":    {gputrain.Spec{Accelerator: accelerators.A10G(), Nodes: 2}, false, false},
		"no GPU":          {gputrain.Spec{Nodes: 2}, false, false},
	} {
		test.spec.Allocation = driver.SpotIfAvailable
		all := cloudtest.AllOffers(t, f.open(func(c *Config) { c.ClusterPlacement = test.together }), test.spec.Query())
		if len(all) == 0 {
			t.Errorf("%s: no offers", name)
		}
		for _, o := range all {
			text := fmt.Sprint(o.Warnings)
			if strings.Contains(text, "TCP alone") != test.warned || strings.Contains(text, "ClusterPlacement") != (test.warned && !test.together) {
				t.Errorf("%s: %s has the warnings %s", name, o.ID, text)
			}
		}
	}
}
