package massedcompute

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

var oneL40 = gputrain.Spec{Accelerator: accelerators.L40()}

// idle returns a fake whose instances are only rows.
func idle(t *testing.T) *fake {
	f := startFake(t)
	f.noMachines = true
	return f
}

// The variable of the vendor's own tools comes second.
func TestVariables(t *testing.T) {
	f := idle(t)
	cfg := f.config()
	cfg.APIKey = ""
	t.Setenv(keyVariable, "")
	t.Setenv(vendorVariable, testKey)
	cloudtest.Open(t, cfg)
	t.Setenv(keyVariable, "wrong")
	_, err := cfg.Open(t.Context())
	cloudtest.Is(t, err, driver.ErrAuth, "massedcompute", "open", testKey)
}

// Spot machines are products, marked by their names or their descriptions.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.offer("gpu_2x_h100", "2x H100 (80GB) [Spot]", 396, 1) // by the description alone
	f.offer("gpu_1x_a6000_spot_low_ram", "1x A6000 (48GB)", 45, 4)
	f.offer("gpu_1x_x900", "1x X900 (640GB)", 999, 1) // an unknown GPU
	f.offer("cpu_8x", "8x CPU", 20, 3)
	onDemand := []string{
		`cpu_8x cpu $0.20 3`,
		`gpu_1x_l40 L40-48GB $0.86 19`,
		`gpu_1x_x900 "gpu_1x_x900"-640GB $9.99 1`,
		`gpu_8x_DGX_A100 A100-80GB-SXM:8 $9.84 1`,
	}
	spot := []string{
		`gpu_1x_a6000_spot_low_ram A6000-48GB $0.45 4 spot`,
		`gpu_1x_l40_spot L40-48GB $0.67 7 spot`,
		`gpu_2x_h100 H100-80GB:2 $3.96 1 spot`,
		`gpu_4x_h200_nvl_nvlink_discount H200-141GB-NVL:4 $9.80 2 spot`,
	}
	d := cloudtest.Open(t, f.config())
	for allocation, want := range map[driver.Allocation][]string{
		driver.OnDemand: onDemand, driver.Spot: spot,
		driver.SpotIfAvailable: slices.Concat(onDemand, spot), driver.CheapestAllocation: slices.Concat(onDemand, spot),
	} {
		var got []string
		for _, o := range cloudtest.Offers(t, d, driver.Query{Allocation: allocation}) {
			line := fmt.Sprintf("%s %v %v %d", o.InstanceType, o.Accelerator, o.HourlyUSD, o.Available)
			if o.Spot {
				line += " spot"
			}
			got = append(got, line)
			if o.Region != "any" || o.DiskGiB > 583 || o.DiskGiB < 582 { // of 625 GB
				t.Errorf("%+v", o)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%v: %q\nwant %q", allocation, got, want)
		}
	}
}

// What is sold out is offered with that reason. A product's country is that of all regions that have it.
func TestCountriesAndStock(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.Do(func() {
		f.inventory["gpu_8x_DGX_A100"]["regions_with_capacity_available"] = []row{{"name": "us-central-1", "description": "Wichita, KS"}, {"name": "ca-east-1", "description": "Montreal"}}
	})
	d := cloudtest.Open(t, f.config())
	if got := cloudtest.Rejected(t, d, driver.Query{}); !slices.Equal(got, []string{"gpu_1x_a30 in any is sold out"}) {
		t.Errorf("%q", got)
	}
	for _, tt := range []struct {
		query driver.Query
		want  []string
	}{
		{driver.Query{}, []string{"gpu_1x_l40 US", "gpu_8x_DGX_A100 "}},
		{driver.Query{Countries: []string{"us"}}, []string{"gpu_1x_l40 US"}},
		{driver.Query{Regions: []string{"US"}}, []string{"gpu_1x_l40 US"}},
		{driver.Query{Countries: []string{"CA"}}, nil},
		{driver.Query{Regions: []string{"any"}}, []string{"gpu_1x_l40 US", "gpu_8x_DGX_A100 "}},
	} {
		var got []string
		for _, o := range cloudtest.Offers(t, d, tt.query) {
			got = append(got, o.InstanceType+" "+o.Country)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.query, got, tt.want)
		}
	}
	for name, want := range map[string]string{"us-central-1": "US", "eu-west-1": "", "any": "", "": "", "ca-1": "CA"} {
		if got := (region{Name: name}).country(); got != want {
			t.Errorf("%q is in %q", name, got)
		}
	}
}

// If the number of free machines is missing, a region with stock counts.
func TestUnknownCapacity(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.Do(func() {
		for _, it := range f.inventory {
			delete(it, "capacity_available")
		}
	})
	for _, o := range cloudtest.Offers(t, cloudtest.Open(t, f.config()), driver.Query{}) {
		if o.Available != 0 || o.InstanceType == "gpu_1x_a30" {
			t.Errorf("%+v", o)
		}
	}
}

func TestLaunchSaysWhatConfigSays(t *testing.T) {
	t.Parallel()
	f := idle(t)
	cfg := f.config()
	cloudtest.MustLaunch(t, cloudtest.Prepared(t, cfg), oneL40.Query(), 0)
	cfg.Coupon, cfg.KeepPassword = "SPRING", true
	cloudtest.MustLaunch(t, cloudtest.Prepared(t, cfg), driver.Query{Accelerator: accelerators.A100(accelerators.AtLeast(1))}, 1)
	plain, other := f.launched()[0], f.launched()[1]
	if plain.ImageID != 184 || plain.Product != "gpu_1x_l40" || plain.Coupon != "" || !strings.HasPrefix(plain.Name, "gputrain-p1-0-c") ||
		!slices.Equal(plain.SSHKeys, []string{"gputrainXpoolXp1"}) || !strings.Contains(plain.Command, "passwd --lock") {
		t.Errorf("%+v", plain)
	}
	if other.Product != "gpu_8x_DGX_A100" || other.Coupon != "SPRING" || other.Command != "" || !strings.HasPrefix(other.Name, "gputrain-p1-1-c") {
		t.Errorf("%+v", other)
	}
}

// A launch with an image that does not fit the product is not repeated.
func TestImageThatDoesNotFit(t *testing.T) {
	t.Parallel()
	f := idle(t)
	cfg := f.config()
	cfg.ImageID = 7
	_, err := cloudtest.Launch(t, cloudtest.Prepared(t, cfg), oneL40.Query(), 0)
	cloudtest.Is(t, err, driver.ErrInvalid, "massedcompute", "launch", testKey)
	if n := len(f.Records(opLaunch)); n != 1 || !strings.Contains(fmt.Sprint(err), "ImageID") {
		t.Errorf("%d launches; %v", n, err)
	}
}

// If the user has registered the same key under another name, launches use that name, and the
// key is not removed.
func TestKeyThatIsThereUnderAnotherName(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.Do(func() { f.putKey(nil, "my laptop", cloudtest.PoolKey+" me@laptop") })
	cloudtest.UsersKey(t, f.Server, f.config(), oneL40.Query(), "my laptop", func() []string { return f.launched()[0].SSHKeys }, opAddKey, opDelKey)
}

func TestLaunchWithoutTheKey(t *testing.T) {
	t.Parallel()
	f := idle(t)
	cloudtest.NoKey(t, f.Server, f.config(), oneL40.Query(), opLaunch)
}

// Names of keys have only letters and digits, and still identify the pool.
func TestKeyNames(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"p1", "train-7", "a--b-", "x0"} {
		if got, ok := keyPool(keyName(id)); !ok || got != id {
			t.Errorf("%q becomes %q, and that %q", id, keyName(id), got)
		}
	}
	for _, name := range []string{"", "gputrain", "gputrain p1", "gputrainXpoolX", "gputrainXpoolX7", "gputrainXpoolXp_1", "my gputrainXpoolXp1"} {
		if id, ok := keyPool(name); ok {
			t.Errorf("%q is taken for a key of pool %q", name, id)
		}
	}
}

// A machine is answered in a list of one, or alone as in the description. Its user is reported
// as "Ubuntu", which no image has.
func TestBothEnvelopes(t *testing.T) {
	t.Parallel()
	for _, described := range []bool{false, true} {
		f := idle(t)
		f.described = described
		d := cloudtest.Prepared(t, f.config())
		id := cloudtest.MustLaunch(t, d, oneL40.Query(), 0).ID
		f.Inject(fakecloud.Fault{Op: opList, Lag: fakecloud.Lag{Calls: 100}}) // so that the machine is read by its ID
		in := cloudtest.Describe(t, d, id)
		if in.State != driver.InstanceRunning || in.SSH.User != "ubuntu" || in.SSH.Addr != "203.0.113.7:22" || in.SSH.Password != "" || in.Offer.Region != "us-central-1" {
			t.Errorf("described %v: %+v", described, in)
		}
		if n := len(f.Records(opShow)); n != 1 {
			t.Errorf("%d calls for one machine", n)
		}
	}
}

// A coupon makes a machine cheaper than its offer. Only the machine shows that.
func TestPriceAfterCoupon(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneL40.Query(), 0).ID
	f.Do(func() {
		r, _ := f.instances.Get(nil, id)
		r.row["product"].(row)["final_price_hr"] = "0.430000"
	})
	if in := cloudtest.Describe(t, d, id); in.Offer.HourlyUSD != driver.USD(0.43) {
		t.Errorf("%v", in.Offer.HourlyUSD)
	}
}

// An end that is repeated because its answer was lost finds nothing to end.
func TestEndThatWasDone(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneL40.Query(), 0).ID
	f.Inject(fakecloud.Fault{Op: opTerminate, After: true, Answer: fakecloud.Failure(502, "", "")})
	if err := d.Terminate(t.Context(), id); err != nil || len(f.launched()) != 0 {
		t.Errorf("%v; left: %+v", err, f.launched())
	}
}

// A page with status 404 does not mean that a machine is gone.
func TestNotFoundByTheEdgeIsNotGone(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneL40.Query(), 0).ID
	f.Inject(fakecloud.Fault{Op: opTerminate, Answer: fakecloud.Failure(404, "<!DOCTYPE html><html>Not Found</html>", "")})
	cloudtest.Is(t, d.Terminate(t.Context(), id), driver.ErrUnavailable, "massedcompute", "terminate", testKey)
}
