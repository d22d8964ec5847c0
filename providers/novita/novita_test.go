package novita

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
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

var rtx4090 = gputrain.Spec{Accelerator: accelerators.RTX4090()}

// asked returns the bodies of all creates.
func (f *fake) asked() (all []create) {
	for _, r := range f.Records(opCreate) {
		var in create
		if err := json.Unmarshal([]byte(r.Body), &in); err != nil {
			f.t.Fatal(err)
		}
		all = append(all, in)
	}
	return all
}

func TestUbuntu(t *testing.T) {
	if got := Ubuntu("24.04", "12.9.1"); got != DefaultImage {
		t.Errorf("%s", got)
	}
	if got := Ubuntu("22.04", "12.4.1"); got != "nvcr.io/nvidia/cuda:12.4.1-runtime-ubuntu22.04" {
		t.Errorf("%s", got)
	}
}

// While no machine's driver supports an image, one with an older CUDA is tried, with a lower
// requirement for the driver.
func TestWalkDown(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.cuda = "12.4"
	cloudtest.MustLaunch(t, cloudtest.Open(t, f.config()), rtx4090.Query(), 0)
	var tried []string
	for _, in := range f.asked() {
		tried = append(tried, in.MinCUDAVersion+" "+strings.TrimPrefix(in.ImageURL, "nvcr.io/nvidia/cuda:"))
	}
	want := []string{
		"12.9 12.9.1-runtime-ubuntu24.04", "12.8 12.8.1-runtime-ubuntu24.04", "12.6 12.6.3-runtime-ubuntu24.04",
		"12.5 12.5.1-runtime-ubuntu24.04", "12.4 12.4.1-runtime-ubuntu22.04",
	}
	if !slices.Equal(tried, want) {
		t.Errorf("%q, want %q", tried, want)
	}
}

// Only a lack of machines leads on to an older CUDA.
func TestWalkDownStops(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, answer := range []fakecloud.Answer{
		failure(400, "BALANCE_NOT_ENOUGH", "balance not enough"),
		failure(400, "IMAGE_NOT_FOUND", "no such image"),
		failure(500, "UNKNOWN", "unknown"),
		failure(503, "INSUFFICIENT_RESOURCE", "insufficient resource"), // the failed call may have made it
	} {
		before := len(f.Records(opCreate))
		f.Inject(fakecloud.Fault{Op: opCreate, Answer: answer})
		if got, err := cloudtest.Launch(t, d, rtx4090.Query(), 0); err == nil || len(got) > 0 || len(f.Records(opCreate)) != before+1 {
			t.Errorf("%v: %+v, %v, %d attempts", answer.Body, got, err, len(f.Records(opCreate))-before)
		}
	}
	f.room = 0
	before := len(f.Records(opCreate))
	_, err := cloudtest.Launch(t, d, rtx4090.Query(), 0)
	cloudtest.Is(t, err, driver.ErrNoCapacity, "novita", "launch", testKey)
	if n := len(f.Records(opCreate)) - before; n != 10 {
		t.Errorf("%d attempts, from 12.9 to 11.8", n)
	}
}

func TestSteps(t *testing.T) {
	old, blackwell := accelerators.RTX4090(), accelerators.RTX5090()
	for _, tt := range []struct {
		image, cuda string
		a           accelerators.Accelerator
		first, last step
		n           int
	}{
		{"", "", old, step{DefaultImage, "12.9"}, step{Ubuntu("22.04", "11.8.0"), "11.8"}, 10},
		{"", "", blackwell, step{DefaultImage, "12.9"}, step{Ubuntu("24.04", "12.8.1"), "12.8"}, 2},
		{"", "12.4", old, step{Ubuntu("22.04", "12.4.1"), "12.4"}, step{Ubuntu("22.04", "12.4.1"), "12.4"}, 1},
		{"", "12.7", old, step{Ubuntu("24.04", "12.6.3"), "12.7"}, step{Ubuntu("24.04", "12.6.3"), "12.7"}, 1},
		{"", "13.1", old, step{Ubuntu("24.04", "13.0.2"), "13.1"}, step{Ubuntu("24.04", "13.0.2"), "13.1"}, 1},
		{"", "12.2", blackwell, step{Ubuntu("24.04", "12.8.1"), "12.8"}, step{Ubuntu("24.04", "12.8.1"), "12.8"}, 1},
		{"mine:1", "", old, step{"mine:1", "12.9"}, step{"mine:1", "12.9"}, 1},
		{"nvidia/cuda:12.6.3-devel-ubuntu24.04", "", old, step{"nvidia/cuda:12.6.3-devel-ubuntu24.04", "12.6"}, step{"nvidia/cuda:12.6.3-devel-ubuntu24.04", "12.6"}, 1},
		{"mine:1", "12.1", blackwell, step{"mine:1", "12.1"}, step{"mine:1", "12.1"}, 1},
		{"", "10.2", old, step{}, step{}, 0},
	} {
		all := steps(tt.image, tt.cuda, tt.a)
		if len(all) != tt.n || tt.n > 0 && (all[0] != tt.first || all[tt.n-1] != tt.last) {
			t.Errorf("%q, %q, %v: %v", tt.image, tt.cuda, tt.a, all)
		}
	}
}

// A create always has the kind, and never ports or a command.
func TestCreate(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.ClusterID, cfg.Image, cfg.MinCUDAVersion, cfg.RootFSSize = "us-ca-6", "mine:1", "12.2", 70
	spec := rtx4090
	spec.Accelerator.Count = 2
	cloudtest.MustLaunch(t, cloudtest.Open(t, cfg), spec.Query(), 3)
	want := create{
		Name: f.asked()[0].Name, ProductID: "4090.16c62g", GPUNum: 2, RootFSSize: 70, ImageURL: "mine:1", Kind: "gpu", BillingMode: "onDemand",
		ClusterID: "us-ca-6", MinCUDAVersion: "12.2",
	}
	if got := f.asked()[0]; got != want || !strings.HasPrefix(got.Name, "gputrain-p1-3-c") {
		t.Errorf("%+v", got)
	}
	spec.DiskGiB = 6000 // 6443 GB
	if _, err := cloudtest.Open(t, cfg).Launch(t.Context(), cloudtest.Request(t, spec.Query(), driver.Offer{ID: "onDemand/1//4090.16c62g"}, 0)); !errors.Is(err, driver.ErrInvalid) {
		t.Errorf("%v", err)
	}
}

// The answer to a create may spell the ID differently, and a 200 may be a failure.
func TestAnswersToACreate(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, body := range []row{{"Id": "29ee"}, {"instanceId": "29ee"}, {"id": "29ee"}} {
		f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Reply(200, body)})
		if in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0); in.ID != "29ee" {
			t.Errorf("%v: %s", body, in.ID)
		}
	}
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(200, "CREATE_INSTANCE_LIMIT", "too many")})
	_, err := cloudtest.Launch(t, d, rtx4090.Query(), 0)
	cloudtest.Is(t, err, driver.ErrQuota, "novita", "launch", testKey)
}

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

const registryPassword = "reg-pass-0123456789"

// A registry's login is in the create call alone.
func TestRegistry(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	cfg.Image, cfg.RegistryUser, cfg.RegistryPassword = "registry.example.com/mine:1", "robot", "env://REGISTRY_PASSWORD"
	t.Setenv("REGISTRY_PASSWORD", registryPassword+"\n")
	d := cloudtest.Open(t, cfg)
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	if got := f.asked()[0]; got.ImageAuth != "robot:"+registryPassword || got.ImageAuthID != "" {
		t.Errorf("%+v", got)
	}
	for _, r := range f.Records() {
		if r.Op != opCreate && strings.Contains(r.Body, registryPassword) {
			t.Errorf("%s has the password", r.Op)
		}
	}
	if text := fmt.Sprintf("%+v %#v %+v", d, d, in); strings.Contains(text, registryPassword) {
		t.Error("the driver shows the password")
	}
	f.Inject(fakecloud.Fault{Op: opCreate, Answer: failure(400, "IMAGE_NOT_FOUND", "cannot log in as robot:"+registryPassword)})
	_, err := cloudtest.Launch(t, d, rtx4090.Query(), 1)
	cloudtest.Is(t, err, driver.ErrInvalid, "novita", "launch", registryPassword)
	t.Setenv("REGISTRY_PASSWORD", "")
	_, err = cfg.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "novita", "open")

	stored := f.config()
	stored.Image, stored.RegistryAuthID = "mine:1", "auth-7"
	before := len(f.asked())
	cloudtest.MustLaunch(t, cloudtest.Open(t, stored), rtx4090.Query(), 2)
	if got := f.asked()[before]; got.ImageAuth != "" || got.ImageAuthID != "auth-7" {
		t.Errorf("%+v", got)
	}
	for says, change := range map[string]func(*Config){
		"without Image":        func(c *Config) { c.RegistryUser, c.RegistryPassword = "u", "p" },
		"without Image; it":    func(c *Config) { c.RegistryAuthID = "a" },
		"only one of":          func(c *Config) { c.Image, c.RegistryUser = "mine:1", "u" },
		"only one of Registry": func(c *Config) { c.Image, c.RegistryPassword = "mine:1", "p" },
		"contains a blank":     func(c *Config) { c.Image, c.RegistryUser, c.RegistryPassword = "mine:1", "a:b", "p" },
		"are both set": func(c *Config) {
			c.Image, c.RegistryUser, c.RegistryPassword, c.RegistryAuthID = "mine:1", "u", "p", "a"
		},
		`RegistryAuthID "a b" co`: func(c *Config) { c.Image, c.RegistryAuthID = "mine:1", "a b" },
	} {
		c := f.config()
		change(&c)
		_, err := c.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrInvalid, "novita", "open")
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v; want %q", err, says)
		}
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

// A node is reached through the proxy, with a password, once its SSH server runs. That is
// later than the instance runs.
func TestPasswordThroughTheProxy(t *testing.T) {
	t.Parallel()
	for _, quirk := range []func(f *fake){
		func(f *fake) {}, func(f *fake) { f.within = "instance" }, func(f *fake) { f.within = "data" }, func(f *fake) { f.older = true },
	} {
		f := startFake(t)
		f.warm = 1
		quirk(f)
		d := cloudtest.Open(t, f.config())
		in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
		now := cloudtest.Describe(t, d, in.ID)
		if !f.older && (now.State != driver.InstancePending || now.SSH.Addr != "") {
			t.Errorf("before its SSH server runs it is %v at %q", now.State, now.SSH.Addr)
		}
		now = cloudtest.Describe(t, d, in.ID)
		if _, port, err := net.SplitHostPort(now.SSH.Addr); err != nil || port == "22" || now.SSH.User != "root" || string(now.SSH.Password) != testPassword {
			t.Errorf("%v: %+v", now.State, now.SSH)
		}
		if text := fmt.Sprintf("%+v %#v", now, now); strings.Contains(text, testPassword) {
			t.Errorf("the password is printed: %s", text)
		}
	}
}

// No error shows an unreadable answer with a password in it.
func TestPasswordsInAnswers(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for field, body := range map[string]row{
		"password":    {"id": 7, "connectComponentSSH": row{"password": testPassword}},
		"sshPassword": {"id": 7, "sshPassword": testPassword},
	} {
		always := f.Inject(fakecloud.Fault{Op: opInstance, Answer: fakecloud.Reply(500, body), Times: -1})
		if _, err := d.Describe(t.Context(), "29ee"); err == nil || strings.Contains(fmt.Sprintf("%v %+v", err, err), testPassword) || !strings.Contains(err.Error(), field) {
			t.Errorf("%v", err)
		}
		always.Remove()
	}
}

// A restarted instance has another port and another password.
func TestEndpointIsReadAgain(t *testing.T) {
	in := instance{Status: "running"}
	in.SSH.Command, in.SSH.Password = "ssh -p 1 root@a", "one"
	first := in.endpoint(false)
	in.SSH.Command, in.SSH.Password = "ssh root@b -p 2", "two"
	if second := in.endpoint(false); first.Addr != "a:1" || second.Addr != "b:2" || string(second.Password) != "two" {
		t.Errorf("%+v, %+v", first, second)
	}
}

// A spot instance reports when it will be preempted, and is then stopped: its disk is billed
// until it is deleted.
func TestReclaimed(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	spec := rtx4090
	spec.Allocation = driver.Spot
	in := cloudtest.MustLaunch(t, d, spec.Query(), 0)
	if mode := f.asked()[0].BillingMode; mode != "spot" || !in.Offer.Spot {
		t.Errorf("it is rented %s", mode)
	}
	f.set(in.ID, row{"spotStatus": "notified", "spotReclaimTime": "1763631000"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning || !now.PreemptAt.Equal(time.Unix(1763631000, 0)) {
		t.Errorf("%v at %v", now.State, now.PreemptAt)
	}
	f.set(in.ID, row{"status": "exited", "spotStatus": "terminated"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePreempted {
		t.Errorf("%v: %s", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
		t.Errorf("%v: %+v", err, f.account())
	}
}

// An instance fails if its image cannot be pulled, or if its container ends.
func TestFailedInstances(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	for _, status := range []string{"pulling", "exited"} {
		f.set(in.ID, row{"status": status, "statusError": row{"state": "failed", "message": "manifest unknown"}})
		if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || !strings.Contains(now.StateReason, "manifest unknown") {
			t.Errorf("%s: %v: %s", status, now.State, now.StateReason)
		}
	}
}

// The list is complete whatever the number of its first page, and however short its pages.
func TestPagesOfTheList(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 99, 100, 101, 250} {
		for _, first := range []int{0, 1, -1} {
			for _, noTotal := range []bool{false, true} {
				for _, most := range []int{0, 50} {
					f := startFake(t)
					f.firstPage, f.noTotal, f.mostRows = first, noTotal, most
					for i := range n {
						id := fmt.Sprintf("i%d", i)
						f.instances.Put(nil, id, &fakeInstance{row: row{"id": id, "name": fmt.Sprintf("gputrain-p1-%d", i), "status": "running"}})
					}
					c, err := newClient(f.config(), testKey)
					if err != nil {
						t.Fatal(err)
					}
					if all, err := c.instances(t.Context()); err != nil || len(all) != n {
						t.Errorf("%d from page %d, of %d at most: %d, %v", n, first, most, len(all), err)
					}
					c.close()
				}
			}
		}
	}
}

// A list with fewer items than its total is an error.
func TestListThatBreaksOff(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for name, answer := range map[string]fakecloud.Answer{
		"without its list": fakecloud.Reply(200, row{"total": 0}),
		"short":            fakecloud.Reply(200, row{"instances": []row{{"id": "a", "name": "gputrain-p1-0", "status": "running"}}, "total": 2}),
		"without an ID":    fakecloud.Reply(200, row{"instances": []row{{"name": "gputrain-p1-0"}}, "total": 1}),
	} {
		in := f.Inject(fakecloud.Fault{Op: opList, Times: -1, Answer: answer})
		if list, err := d.List(t.Context(), "p1"); !errors.Is(err, driver.ErrUnavailable) {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		in.Remove()
	}
}

// An answer about another instance is an error.
func TestAnotherInstance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opInstance, Answer: fakecloud.Reply(200, row{"id": "other", "status": "running"})})
	if got, err := d.Describe(t.Context(), "29ee"); !errors.Is(err, driver.ErrUnavailable) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, rtx4090.Query(), 0)
	for _, tt := range []struct {
		answer fakecloud.Answer
		kind   error
	}{
		{failure(400, "BALANCE_NOT_ENOUGH", "balance not enough"), driver.ErrBalance},
		{failure(500, "WALLET_NOT_FOUND", "wallet"), driver.ErrBalance},
		{failure(500, "", "a node of it: RESOURCE_NOT_FOUND"), driver.ErrUnavailable},
		{failure(400, "OPERATION_LIMIT", ""), driver.ErrQuota},
		{failure(403, "BANNED_USER", ""), driver.ErrAuth},
		{failure(401, "INVALID_USER_TOKEN", ""), driver.ErrAuth},
		{failure(403, "", "not for you"), driver.ErrAuth},
		{failure(400, "IMAGE_NOT_FOUND", ""), driver.ErrInvalid},
		{failure(400, "CLUSTER_STATUS", ""), driver.ErrNoCapacity},
		{failure(409, "CONFLICT", ""), driver.ErrUnavailable},
		{failure(400, "PREPAID_INSTANCE_NOT_SUPPORT_RELEASE", ""), driver.ErrUnsupported},
		{fakecloud.Reply(400, row{"code": "VALIDATOR_PARAM"}), driver.ErrInvalid},
		{fakecloud.Reply(400, row{"error": "rpc error: INSUFFICIENT_RESOURCE"}), driver.ErrNoCapacity},
		{fakecloud.Reply(400, row{"message": "INSUFFICIENT_RESOURCE: try later"}), driver.ErrNoCapacity},
		{fakecloud.Reply(400, "error: BALANCE_NOT_ENOUGH"), driver.ErrBalance},
		{fakecloud.Reply(400, row{"error": row{"type": "EXPIRED_OR_BALANCE_NOT_ENOUGH"}}), driver.ErrBalance},
		{fakecloud.Reply(200, row{"code": 403, "message": "not for you"}), driver.ErrAuth},
		{fakecloud.Reply(404, "page not found"), driver.ErrUnavailable},
	} {
		always := f.Inject(fakecloud.Fault{Op: opEnd, Times: -1, Answer: tt.answer})
		cloudtest.Is(t, d.Terminate(t.Context(), in.ID), tt.kind, "novita", "terminate", testKey)
		always.Remove()
	}
	if len(f.account()) != 1 {
		t.Errorf("%+v", f.account())
	}
}

func TestFaultsOfAConfig(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		says []string
	}{
		"all at once": {Config{ClusterID: "a b", Image: "a b", MinCUDAVersion: "12", RootFSSize: 5, RequestTimeout: 1, Endpoint: "novita"},
			[]string{"ClusterID", "Image", "MinCUDAVersion", "RootFSSize", "RequestTimeout", "Endpoint"}},
		"too old":  {Config{MinCUDAVersion: "10.2"}, []string{"set Image too"}},
		"too long": {Config{Image: strings.Repeat("a", 501)}, []string{"501"}},
	} {
		_, err := tt.cfg.Open(t.Context())
		cloudtest.Is(t, err, driver.ErrInvalid, "novita", "open")
		for _, want := range tt.says {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v does not say %q", name, err, want)
			}
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

func TestPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.warm = 2
	cloudtest.Broadcast(t, f.config(), rtx4090, nil)
	if left := f.account(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A pool whose calls fail in many ways still opens and closes, and leaves nothing.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.firstPage = 1
	for _, fault := range []fakecloud.Fault{
		{Op: opProducts, Answer: fakecloud.Failure(503, "", "")},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: failure(400, "INSUFFICIENT_RESOURCE", "insufficient resource")},
		{Op: opList, Skip: 1, Answer: fakecloud.Failure(500, "", "")},
		{Op: opInstance, Answer: failure(429, "RATE_LIMIT_EXCEEDED", "slow down")},
		{Op: opInstance, Answer: fakecloud.Garbage()},
		{Op: opEnd, After: true, Cut: true},
		{Op: opEnd, Answer: fakecloud.Failure(502, "", "")},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, f.config(), rtx4090, nil)
	if left := f.account(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

func TestParseSSH(t *testing.T) {
	for command, want := range map[string]string{
		"ssh -p 32787 root@proxy.us-ca-6.gpu-instance.novita.ai": "root proxy.us-ca-6.gpu-instance.novita.ai:32787",
		"ssh root@proxy.novita.ai -p 32787":                      "root proxy.novita.ai:32787",
		"ssh -p32787 proxy.novita.ai":                            "root proxy.novita.ai:32787",
		"ssh ubuntu@proxy.novita.ai":                             "ubuntu proxy.novita.ai:22",
		"ssh -o StrictHostKeyChecking=no -p 1 a@b":               "a b:1",
		"ssh -oStrictHostKeyChecking=no a@2001:db8::1":           "a [2001:db8::1]:22",
		"": "", "ssh": "", "ssh -p": "", "ssh -p x a@b": "", "ssh -p 0 a@b": "", "ssh -p 65536 a@b": "", "scp a@b": "", "ssh a@b c": "", "ssh -i key a@b": "", "ssh a@": "",
	} {
		addr, user, ok := parseSSH(command)
		if got := strings.TrimSpace(user + " " + addr); got != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", command, got, want)
		}
	}
}

func FuzzParseSSH(f *testing.F) {
	for _, s := range []string{"ssh -p 32787 root@proxy.novita.ai", "ssh a@b -p 1", "ssh -o x a@::1", "ssh -p", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, command string) {
		addr, user, ok := parseSSH(command)
		host, port, err := net.SplitHostPort(addr)
		if ok && (err != nil || host == "" || port == "" || user == "") || !ok && addr+user != "" {
			t.Errorf("%q is %q at %q", command, user, addr)
		}
	})
}

func FuzzFault(f *testing.F) {
	for _, s := range []string{`{"code":400,"reason":"CONFLICT"}`, `{"code":"UNKNOWN"}`, "FORBIDDEN", `{"id":"a"}`, "[]", ""} {
		f.Add(200, s)
		f.Add(400, s)
	}
	f.Fuzz(func(t *testing.T, status int, body string) {
		if said := fault(status, []byte(body)); said != nil && said.Code+said.Message == "" && said.Status == 0 {
			t.Errorf("%d %q is a failure that says nothing", status, body)
		}
	})
}
