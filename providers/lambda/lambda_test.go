package lambda

import (
	"encoding/json"
	"fmt"
	"os"
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

var oneA10 = gputrain.Spec{Accelerator: accelerators.A10()}

// idle returns a fake whose instances are only rows.
func idle(t *testing.T) *fake {
	f := startFake(t)
	f.noMachines = true
	return f
}

// Prices are for the complete machine. A type that no region has, or not the region of Config, is
// offered with that reason.
func TestOffers(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.offer("gpu_2x_x900", "X900 (640 GB)", 999, 2, "mars-1") // an unknown GPU in an unknown region
	for _, tt := range []struct {
		region string
		want   []string
	}{
		{"", []string{
			"cpu_4x_general us-west-1 cpu amd64 $0.20",
			"gpu_1x_a10 us-west-1 A10-24GB amd64 $0.75",
			"gpu_1x_a10 us-east-1 A10-24GB amd64 $0.75",
			"gpu_1x_gh200 us-east-3 GH200-96GB arm64 $1.49",
			"gpu_1x_h100_pcie us-west-3 H100-80GB-PCIe amd64 $2.49",
			`gpu_2x_x900 mars-1 "gpu_2x_x900"-640GB:2 amd64 $9.99`,
			"gpu_8x_a100 us-west-1 A100-40GB:8 amd64 $10.32",
			"gpu_8x_a100_80gb_sxm4  A100-80GB-SXM:8 amd64 $14.32 is sold out",
		}},
		{"us-east-1", []string{
			"gpu_1x_a10 us-east-1 A10-24GB amd64 $0.75",
			"cpu_4x_general us-east-1 cpu amd64 $0.20 is sold out",
			"cpu_4x_general us-west-1 cpu amd64 $0.20 is in us-west-1; Config.Region is us-east-1",
			"gpu_1x_a10 us-west-1 A10-24GB amd64 $0.75 is in us-west-1; Config.Region is us-east-1",
			"gpu_1x_gh200 us-east-1 GH200-96GB arm64 $1.49 is sold out",
			"gpu_1x_gh200 us-east-3 GH200-96GB arm64 $1.49 is in us-east-3; Config.Region is us-east-1",
			"gpu_1x_h100_pcie us-east-1 H100-80GB-PCIe amd64 $2.49 is sold out",
			"gpu_1x_h100_pcie us-west-3 H100-80GB-PCIe amd64 $2.49 is in us-west-3; Config.Region is us-east-1",
			`gpu_2x_x900 us-east-1 "gpu_2x_x900"-640GB:2 amd64 $9.99 is sold out`,
			`gpu_2x_x900 mars-1 "gpu_2x_x900"-640GB:2 amd64 $9.99 is in mars-1; Config.Region is us-east-1`,
			"gpu_8x_a100 us-east-1 A100-40GB:8 amd64 $10.32 is sold out",
			"gpu_8x_a100 us-west-1 A100-40GB:8 amd64 $10.32 is in us-west-1; Config.Region is us-east-1",
			"gpu_8x_a100_80gb_sxm4 us-east-1 A100-80GB-SXM:8 amd64 $14.32 is sold out",
		}},
	} {
		cfg := f.config()
		cfg.Region = tt.region
		f.Inject(fakecloud.Fault{Op: opTypes, Answer: data(f.items)}) // the contract does not have that region
		var got []string
		rejected := false
		for _, o := range cloudtest.AllOffers(t, cloudtest.Open(t, cfg), driver.Query{}) {
			got = append(got, strings.TrimSpace(fmt.Sprintf("%s %s %v %s %v %s", o.InstanceType, o.Region, o.Accelerator, o.Arch, o.HourlyUSD, o.Rejected)))
			if o.Rejected != "" {
				rejected = true
			} else if rejected {
				t.Errorf("in %q %s comes after what cannot be launched", tt.region, o.InstanceType)
			}
		}
		slices.Sort(got)
		slices.Sort(tt.want)
		if !slices.Equal(got, tt.want) {
			t.Errorf("in %q: %q\nwant %q", tt.region, got, tt.want)
		}
	}
}

// The cloud's words for a region name its country, or else its name does.
func TestCountries(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, words, want string }{
		{"us-west-3", "Utah, USA", "US"}, {"us-west-3", "", "US"}, {"europe-central-1", "Frankfurt, Germany", "DE"}, {"asia-northeast-2", "Tokyo", "JP"},
		{"europe-north-9", "Reykjavik, Iceland", ""}, {"europe-north-9", "Munich, Germany", "DE"}, {"", "", ""},
	} {
		if got := (region{tt.name, tt.words}).country(); got != tt.want {
			t.Errorf("%s (%s) is in %q; want %q", tt.name, tt.words, got, tt.want)
		}
	}
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, oneA10.Query(), 0)
	if now := cloudtest.Describe(t, cloudtest.Open(t, f.config()), in.ID); now.Offer.Country != "US" || now.Offer.HourlyUSD != driver.USD(0.75) {
		t.Errorf("%+v", now.Offer)
	}
}

// Tags that the API does not take are refused before anything is made.
func TestUserTags(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	o := cloudtest.AllOffers(t, d, oneA10.Query())[0]
	for name, value := range map[string]string{"Team": "a", "t": "a", "cost_center": "1", "": "x", strings.Repeat("k", 56): "x", "team": strings.Repeat("v", 129)} {
		info := cloudtest.Info("p1")
		info.Tags = map[string]string{name: value}
		cloudtest.Is(t, d.Prepare(t.Context(), info), driver.ErrInvalid, "lambda", "prepare")
		req := cloudtest.Request(t, oneA10.Query(), o, 0)
		req.Pool.Tags = info.Tags
		_, err := d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, "lambda", "launch")
	}
	if len(f.launched()) > 0 {
		t.Errorf("%+v", f.launched())
	}
}

// A list of all kinds of products, with made-up prices, is read completely.
func TestOffersOfTheSample(t *testing.T) {
	t.Parallel()
	f := idle(t)
	var sample struct{ Data map[string]row }
	b, err := os.ReadFile("testdata/instance-types.json")
	if err == nil {
		err = json.Unmarshal(b, &sample)
	}
	if err != nil {
		t.Fatal(err)
	}
	f.Inject(fakecloud.Fault{Op: opTypes, Answer: data(sample.Data)})
	all := cloudtest.AllOffers(t, cloudtest.Open(t, f.config()), driver.Query{})
	if len(all) == 0 {
		t.Error("no offers")
	}
	for _, o := range all {
		if o.Rejected == "" && (o.Country == "" || (o.Country == "US") != strings.HasPrefix(o.Region, "us-")) {
			t.Errorf("%s is in %q", o.Region, o.Country)
		}
		if usd, known := o.HourlyUSD.USD(); !known || usd <= 0 || o.DiskGiB == 0 || o.MemoryGiB == 0 || o.VCPUs == 0 || o.Accelerator.Exact || (o.Accelerator.IsZero() != strings.HasPrefix(o.InstanceType, "cpu_")) {
			t.Errorf("%+v", o)
		}
	}
}

func TestLaunchSaysWhatConfigSays(t *testing.T) {
	t.Parallel()
	f := idle(t)
	cfg := f.config()
	cfg.Region, cfg.ImageFamily, cfg.FileSystems = "us-west-1", "gpu-base-24-04", []string{"data"}
	cloudtest.MustLaunch(t, cloudtest.Prepared(t, cfg), oneA10.Query(), 0)
	got := f.launched()[0]
	if got.Region != "us-west-1" || got.Type != "gpu_1x_a10" || got.Image == nil || got.Image.Family != "gpu-base-24-04" ||
		!slices.Equal(got.FileSystems, []string{"data"}) || !slices.Equal(got.SSHKeys, []string{"gputrain-p1"}) || got.Name != "gputrain-p1-0" {
		t.Errorf("%+v", got)
	}
	if plain := f.Records(opLaunch)[0].Body; strings.Contains(plain, "quantity") {
		t.Errorf("a launch asks for a quantity, which is gone: %s", plain)
	}
}

// If the user has registered the same key under another name, launches use that name, and the
// key is not removed.
func TestKeyThatIsThereUnderAnotherName(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.Do(func() { f.putKey(nil, "macbook", cloudtest.PoolKey+" me@macbook") })
	cloudtest.UsersKey(t, f.Server, f.config(), oneA10.Query(), "macbook", func() []string { return f.launched()[0].SSHKeys }, opAddKey, opDelKey)
}

func TestLaunchWithoutTheKey(t *testing.T) {
	t.Parallel()
	f := idle(t)
	cloudtest.NoKey(t, f.Server, f.config(), oneA10.Query(), opLaunch)
}

// All drivers of a key together keep Lambda's interval between launches.
func TestLaunchesAreSpaced(t *testing.T) {
	t.Parallel()
	f := idle(t)
	cfg := f.config()
	cfg.LaunchInterval = 300 * time.Millisecond
	begun := time.Now()
	for rank := range 3 {
		cloudtest.MustLaunch(t, cloudtest.Prepared(t, cfg), oneA10.Query(), rank)
	}
	if took := time.Since(begun); took < 2*cfg.LaunchInterval {
		t.Errorf("three launches took %v", took)
	}
}

// A caller with too many calls is shut out for a minute, which only the answer's text shows.
func TestBanIsWaitedFor(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	f.Inject(fakecloud.Fault{Op: opList, Answer: fakecloud.Failure(429, "Too many requests: you have been temporarily banned.", "")})
	begun := time.Now()
	if _, err := d.List(t.Context(), "p1"); err != nil {
		t.Error(err)
	}
	if took := time.Since(begun); took < 600*time.Millisecond { // a minute, as the test's seconds are a hundredth
		t.Errorf("the call was repeated after %v", took)
	}
}

// An address may change with a restart.
func TestAddressIsReadAgain(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneA10.Query(), 0).ID
	for ip, want := range map[string]string{"198.51.100.7": "198.51.100.7:22", "198.51.100.8": "198.51.100.8:22"} {
		f.set(id, row{"ip": ip})
		if in := cloudtest.Describe(t, d, id); in.SSH.Addr != want || in.PublicAddr != ip || in.PrivateAddr != "" {
			t.Errorf("at %s: %+v", ip, in)
		}
	}
	f.set(id, row{"ip": nil})
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstancePending || in.SSH.Addr != "" {
		t.Errorf("active, without an address: %+v", in)
	}
}

// Tags come first. The name counts only if the answer has no tags at all.
func TestTagsBeforeName(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneA10.Query(), 0).ID
	for _, tt := range []struct {
		tags any
		want int
	}{{nil, 1}, {[]row{}, 0}, {[]row{{"key": "gputrain-pool", "value": "p2"}}, 0}} {
		f.set(id, row{"tags": tt.tags})
		machines := 0
		all, err := d.List(t.Context(), "p1")
		for _, r := range all {
			if r.Kind == "machine" {
				machines++
			}
		}
		if err != nil || machines != tt.want {
			t.Errorf("with the tags %v %d machines are p1's: %v", tt.tags, machines, err)
		}
	}
}

// A gateway in front of the API answers 404 too: no machine is gone because of that.
func TestNotFoundByTheEdgeIsNotGone(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneA10.Query(), 0).ID
	edge := fakecloud.Failure(404, "<html>Not Found</html>", "").With("Content-Type", "text/html")
	f.Inject(fakecloud.Fault{Op: opTerminate, Answer: edge})
	cloudtest.Is(t, d.Terminate(t.Context(), id), driver.ErrUnavailable, "lambda", "terminate", testKey)
	f.Inject(fakecloud.Fault{Op: opList, Lag: fakecloud.Lag{Calls: 100}})
	f.Inject(fakecloud.Fault{Op: opShow, Answer: edge})
	_, err := d.Describe(t.Context(), id)
	cloudtest.Is(t, err, driver.ErrUnavailable, "lambda", "describe", testKey)
}

// An end that ends nothing is a success only if the machine is ending already.
func TestEndThatEndsNothing(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	id := cloudtest.MustLaunch(t, d, oneA10.Query(), 0).ID
	f.Inject(fakecloud.Fault{Op: opTerminate, Answer: data(row{"terminated_instances": []row{}}), Times: 2})
	cloudtest.Is(t, d.Terminate(t.Context(), id), driver.ErrUnavailable, "lambda", "terminate", testKey)
	f.set(id, row{"status": "terminating"})
	if err := d.Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// One wrong ID would fail a call for several machines.
func TestEachMachineIsEndedByItself(t *testing.T) {
	t.Parallel()
	f := idle(t)
	d := cloudtest.Prepared(t, f.config())
	a, b := cloudtest.MustLaunch(t, d, oneA10.Query(), 0).ID, cloudtest.MustLaunch(t, d, oneA10.Query(), 1).ID
	if err := d.Terminate(t.Context(), a, "no-such-machine", b); err != nil || len(f.launched()) != 0 {
		t.Errorf("%v; left: %+v", err, f.launched())
	}
}

// The service may repeat a request, with the private host key: no error shows it.
func TestHostKeyIsNotInErrors(t *testing.T) {
	t.Parallel()
	f := idle(t)
	f.echoes = true
	d := cloudtest.Prepared(t, f.config())
	req := cloudtest.Request(t, oneA10.Query(), cloudtest.AllOffers(t, d, oneA10.Query())[0], 0)
	_, err := d.Launch(t.Context(), req)
	lines := strings.Split(string(req.Nodes[0].HostKey.Private), "\n")
	cloudtest.Is(t, err, driver.ErrInvalid, "lambda", "launch", testKey, lines[1], lines[2])
}
