package runpod

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Without the variable, the key is read from the file of RunPod's own program.
func TestOpen(t *testing.T) {
	f := startFake(t)
	t.Setenv("HOME", t.TempDir())
	t.Setenv(keyVariable, "")
	file := filepath.Join(os.Getenv("HOME"), ".runpod", "config.toml")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("apiurl = \"x\"\napikey = \""+testKey+"\"\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	d := open(t, Config{Endpoint: f.URL + "/"})
	if caps := d.Capabilities(); caps.Account != "user_1" || !caps.Spot || caps.PrivateNetwork || caps.HostKeys != driver.HostKeyInjected {
		t.Errorf("%+v", caps)
	}
}

// GraphQL will be switched off. REST v2 still works then, and the account is named by
// its key, so that another account's resources do not count as gone.
func TestWithoutGraphQL(t *testing.T) {
	f := startFake(t)
	var gone []*fakecloud.Injected
	for _, op := range []string{"myself", "gpuTypes"} {
		gone = append(gone, f.Inject(faultAnswer(op, -1, 410, `{"message":"Gone"}`)))
	}
	d := open(t, f.config())
	account, again := d.Capabilities().Account, open(t, f.config()).Capabilities().Account
	if account != again || account == "" || strings.Contains(account, testKey) {
		t.Errorf("accounts %q and %q", account, again)
	}
	nobody := f.Inject(faultAnswer("myself", 1, 200, `{"data":{"myself":{"id":""}}}`))
	gone[0].Remove()
	if got := open(t, f.config()).Capabilities().Account; got != account || nobody.Hits() != 1 {
		t.Errorf("of a user without an ID the account is %q", got)
	}
	spec := gputrain.Spec{Accelerator: accelerators.H100(), Allocation: driver.SpotIfAvailable}
	if offers, err := offers(t, d, spec); err != nil || len(offers) == 0 {
		t.Errorf("%v, %v", offers, err)
	}
	refused := f.Inject(faultAnswer("gpuTypes", 1, 403, `{"errors":[{"message":"Forbidden"}]}`))
	for _, injected := range gone {
		injected.Remove()
	}
	if offers, err := offers(t, d, spec); err != nil || len(offers) == 0 || refused.Hits() != 1 {
		t.Errorf("a key that GraphQL does not take: %v, %v", offers, err)
	}
	f.Inject(faultAnswer("gpuTypes", 1, 410, `{"message":"Gone"}`))
	spec.Allocation = driver.Spot
	_, err := offers(t, d, spec)
	wantKind(t, "spot", err, driver.ErrUnsupported, "GraphQL", "spot")
}

// Nothing prints a key: no config, driver or error.
func TestSecrets(t *testing.T) {
	f := startFake(t)
	cfg := f.config()
	d := open(t, cfg)
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 1)
	got, err := d.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	f.Inject(faultAnswer(opPod, 1, 400, `{"said":"`+testKey+`","env":{"GPUTRAIN_HOST_KEY":"bm90IGEga2V5","RUNPOD_API_KEY":"rpa_POD_secret"}}`))
	_, failed := d.Describe(t.Context(), got[0].ID)
	for _, said := range []string{fmt.Sprintf("%+v %#v", cfg, cfg), fmt.Sprintf("%+v %#v", d, d), fmt.Sprintf("%v %+v", failed, errors.Unwrap(failed)), fmt.Sprintf("%+v", got)} {
		for _, secret := range []string{testKey, "bm90IGEga2V5", "rpa_POD_secret", string(req.Nodes[0].HostKey.Private)} {
			if strings.Contains(said, secret) {
				t.Errorf("%q is in %.300s", secret, said)
			}
		}
	}
	if failed == nil {
		t.Error("no error")
	}
}

func TestOffers(t *testing.T) {
	f := startFake(t)
	anyH100 := accelerators.H100(accelerators.Count(2))
	for _, tt := range []struct {
		name   string
		change func(*Config)
		spec   gputrain.Spec
		want   []string
	}{
		{"on demand", nil, gputrain.Spec{Accelerator: anyH100}, []string{
			"individual/secure/on-demand/global/2/" + h100 + " $5.98", "individual/secure/on-demand/global/2/" + ada + " $1.38",
		}},
		{"spot", func(c *Config) { c.Cloud = AllClouds }, gputrain.Spec{Accelerator: anyH100, Allocation: driver.CheapestAllocation}, []string{
			"individual/secure/on-demand/global/2/" + h100 + " $5.98", "individual/secure/spot/global/2/" + h100 + " $3.00",
			"individual/secure/on-demand/global/2/" + ada + " $1.38", "individual/secure/spot/global/2/" + ada + " $0.40",
			"individual/community/on-demand/global/2/" + h100 + " $5.38", "individual/community/spot/global/2/" + h100 + " $3.00",
			"individual/community/on-demand/global/2/" + ada + " $0.68", "individual/community/spot/global/2/" + ada + " $0.40",
		}},
		{"bid", func(c *Config) { c.BidMultiplier = 1.1 }, gputrain.Spec{Accelerator: accelerators.RTX4090(), Allocation: driver.Spot, VCPUs: 4}, []string{
			"individual/secure/spot/global/1/" + h100 + " $1.65", "individual/secure/spot/global/1/" + ada + " $0.22",
		}},
		{"AMD", nil, gputrain.Spec{Accelerator: accelerators.MI300X(accelerators.Count(8))}, []string{
			"individual/secure/on-demand/global/8/" + h100 + " $23.92", "individual/secure/on-demand/global/8/" + ada + " $5.52", "individual/secure/on-demand/global/8/" + amd + " $19.92",
		}},
		{"data centres", func(c *Config) { c.DataCenterIDs = []string{"EU-RO-1", "US-TX-3"} }, gputrain.Spec{Accelerator: anyH100}, []string{
			"individual/secure/on-demand/EU-RO-1/2/" + h100 + soldOut("EU-RO-1"),
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
		}},
		{"countries", func(c *Config) { c.ExcludeCountryCodes = []string{"US"} }, gputrain.Spec{Accelerator: anyH100}, []string{
			"individual/secure/on-demand/FR/2/" + h100 + " $5.98", "individual/secure/on-demand/FR/2/" + ada + " $1.38",
		}},
		{"countries named twice", func(c *Config) { c.CountryCodes = []string{"FR", "FR"} }, gputrain.Spec{Accelerator: anyH100}, []string{
			"individual/secure/on-demand/FR/2/" + h100 + " $5.98", "individual/secure/on-demand/FR/2/" + ada + " $1.38",
		}},
		{"region of the spec", nil, gputrain.Spec{Accelerator: anyH100, Regions: []string{"us-tx-3"}}, []string{
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
		}},
		{"regions of the spec", nil, gputrain.Spec{Accelerator: anyH100, Regions: []string{"us", "EU-RO-1"}}, []string{
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
			"individual/secure/on-demand/US-KS-2/2/" + h100 + soldOut("US-KS-2"), "individual/secure/on-demand/EU-RO-1/2/" + h100 + soldOut("EU-RO-1"),
		}},
		{"countries of the spec", nil, gputrain.Spec{Accelerator: anyH100, Countries: []string{"us"}, Regions: []string{"US-TX"}}, []string{
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
		}},
		{"a country by its continent", nil, gputrain.Spec{Accelerator: anyH100, Countries: []string{"RO"}}, []string{"individual/secure/on-demand/EU-RO-1/2/" + h100 + soldOut("EU-RO-1")}},
		{"countries of both", func(c *Config) { c.CountryCodes = []string{"FR", "US"} }, gputrain.Spec{Accelerator: anyH100, Countries: []string{"US"}}, []string{
			"individual/secure/on-demand/US/2/" + h100 + " $5.98", "individual/secure/on-demand/US/2/" + ada + " $1.38",
		}},
		{"what only begins as a region does", nil, gputrain.Spec{Accelerator: anyH100, Regions: []string{"US-T"}}, nil},
		{"regions of the spec, community", func(c *Config) { c.Cloud = AllClouds }, gputrain.Spec{Accelerator: anyH100, Regions: []string{"fr", "fr", "EU-RO-1"}}, []string{
			"individual/secure/on-demand/EU-RO-1/2/" + h100 + soldOut("EU-RO-1"),
			"individual/community/on-demand/FR/2/" + h100 + " $5.38", "individual/community/on-demand/FR/2/" + ada + " $0.68",
		}},
		{"network volume", nil, gputrain.Spec{Accelerator: anyH100, Mounts: []driver.Mount{{Source: "data", Target: "/data"}}}, []string{
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
		}},
		{"networking", func(c *Config) { c.GlobalNetworking = NetworkingOn }, gputrain.Spec{Accelerator: accelerators.MI300X()}, []string{
			"individual/secure/on-demand/global/1/" + h100 + " $2.99", "individual/secure/on-demand/global/1/" + ada + " $0.69",
			"individual/secure/on-demand/global/1/" + amd + " cannot be joined by global networking, which Config.GlobalNetworking asks for", "individual/secure/on-demand/global/1/" + mig + " $0.50",
		}},
		{"networking of the spec", func(c *Config) { c.Cloud = AllClouds }, gputrain.Spec{Accelerator: accelerators.MI300X(), Nodes: 2, Network: gputrain.NetworkPrivate}, []string{
			"individual/secure/on-demand/global/1/" + h100 + " $2.99", "individual/secure/on-demand/global/1/" + ada + " $0.69",
			"individual/secure/on-demand/global/1/" + amd + " cannot be joined by global networking: it is not NVIDIA's, or its data centre has none" + private,
			"individual/secure/on-demand/global/1/" + mig + " $0.50",
			"individual/community/on-demand/global/1/" + amd + " is not in RunPod's community cloud",
		}},
		{"networking of the spec, community", func(c *Config) { c.Cloud = Community }, gputrain.Spec{Accelerator: anyH100, Nodes: 2, Network: gputrain.NetworkPrivate}, []string{
			"individual/community/on-demand/global/2/" + h100 + " is in RunPod's community cloud, which has no global networking" + private,
		}},
		{"networking of the spec, off", func(c *Config) { c.GlobalNetworking = NetworkingOff }, gputrain.Spec{Accelerator: anyH100, Nodes: 2, Network: gputrain.NetworkPrivate}, []string{
			"individual/secure/on-demand/global/2/" + h100 + " has no private network, as Config.GlobalNetworking is off" + private,
		}},
		{"networking of the spec, spot", nil, gputrain.Spec{Accelerator: anyH100, Nodes: 2, Network: gputrain.NetworkPrivate, Allocation: driver.Spot}, []string{
			"individual/secure/spot/global/2/" + h100 + " is spot, which global networking does not join" + private,
		}},
		{"networking of the spec, countries", func(c *Config) { c.CountryCodes = []string{"FR"} }, gputrain.Spec{Accelerator: anyH100, Nodes: 2, Network: gputrain.NetworkPrivate}, []string{
			"individual/secure/on-demand/FR/2/" + h100 + " is rented by countries, line speeds or TerminateAfter, which exclude global networking" + private,
		}},
		{"networking of the spec, data centre", func(c *Config) { c.DataCenterIDs = []string{"EU-RO-1", "US-TX-3"} }, gputrain.Spec{Accelerator: anyH100, Nodes: 2, Network: gputrain.NetworkPrivate}, []string{
			"individual/secure/on-demand/EU-RO-1/2/" + h100 + " cannot be joined by global networking: it is not NVIDIA's, or its data centre has none" + private,
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
		}},
		{"networking of the spec, CPU", nil, gputrain.Spec{Nodes: 2, Network: gputrain.NetworkPrivate}, []string{
			"individual/secure/on-demand/global/2/cpu3c has no GPU, so global networking cannot join it" + private,
		}},
		{"networking of the spec, one node", nil, gputrain.Spec{Accelerator: accelerators.MI300X(accelerators.Count(8)), Network: gputrain.NetworkPrivate}, []string{
			"individual/secure/on-demand/global/8/" + h100 + " $23.92", "individual/secure/on-demand/global/8/" + ada + " $5.52", "individual/secure/on-demand/global/8/" + amd + " $19.92",
		}},
		{"network volume, community", func(c *Config) { c.Cloud = AllClouds }, gputrain.Spec{Accelerator: anyH100, Mounts: []driver.Mount{{Source: "data", Target: "/data"}}}, []string{
			"individual/secure/on-demand/US-TX-3/2/" + h100 + " $5.98", "individual/secure/on-demand/US-TX-3/2/" + ada + " $1.38",
			"individual/community/on-demand/global/2/" + h100 + " is in RunPod's community cloud, which has no network volumes",
		}},
		{"sold out", nil, gputrain.Spec{Accelerator: accelerators.B200()}, []string{
			"individual/secure/on-demand/global/1/" + h100 + " $2.99", "individual/secure/on-demand/global/1/" + ada + " $0.69",
			"individual/secure/on-demand/global/1/NVIDIA B200 is sold out on hosts whose driver supports CUDA 12.8", "individual/secure/on-demand/global/1/" + mig + " $0.50",
		}},
		{"sold out as spot", nil, gputrain.Spec{Accelerator: accelerators.MI300X(), Allocation: driver.Spot}, []string{
			"individual/secure/spot/global/1/" + h100 + " $1.50", "individual/secure/spot/global/1/" + ada + " $0.20",
			"individual/secure/spot/global/1/" + amd + " is sold out as spot",
		}},
		{"more than a pod has", func(c *Config) { c.Cloud = Community }, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))}, []string{
			"individual/community/on-demand/global/8/" + h100 + " is not rented with 8 GPUs in RunPod's community cloud, but with 4 at most",
		}},
		{"not in that cloud", func(c *Config) { c.Cloud = Community }, gputrain.Spec{Accelerator: accelerators.MI300X()}, []string{
			"individual/community/on-demand/global/1/" + h100 + " $2.69", "individual/community/on-demand/global/1/" + ada + " $0.34",
			"individual/community/on-demand/global/1/" + amd + " is not in RunPod's community cloud",
		}},
		{"cluster", func(c *Config) { c.ClusterMode = Instant }, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8)), Nodes: 2}, []string{
			"instant/secure/on-demand/global/8/" + h100 + " $28.00", "instant/secure/on-demand/global/8/" + ada + " $28.00",
		}},
		{"CPU", nil, gputrain.Spec{}, []string{"individual/secure/on-demand/global/2/cpu3c $0.06"}},
		{"CPU of a size", func(c *Config) { c.CPUClock = "5c" }, gputrain.Spec{VCPUs: 3, MemoryGiB: 12}, []string{"individual/secure/on-demand/global/8/cpu5c $0.24"}},
	} {
		cfg := f.config()
		if tt.change != nil {
			tt.change(&cfg)
		}
		got, err := offers(t, open(t, cfg), tt.spec)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		var said []string
		for _, o := range got {
			if o.Rejected != "" {
				said = append(said, o.ID+" "+o.Rejected)
				continue
			}
			usd, _ := machineUSD(o)
			said = append(said, o.ID+" "+driver.USD(usd).String())
		}
		if !slices.Equal(said, tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, said, tt.want)
		}
	}
}

const private = "; the spec's Network is private"

func soldOut(center string) string {
	return " is sold out in " + center + " on hosts whose driver supports CUDA 12.8"
}

func TestOffersAreWhatTheySay(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	got, err := offers(t, d, gputrain.Spec{Accelerator: accelerators.Exact(mig)})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range got {
		if o.InstanceType == mig && !accelerators.Exact(mig).Matches(o.Accelerator) {
			t.Errorf("%+v", o)
		}
		if o.InstanceType == h100 && !accelerators.H100(accelerators.Memory(80), accelerators.Form(accelerators.SXM)).Matches(o.Accelerator) {
			t.Errorf("%+v", o)
		}
		if o.Available != 0 || o.Provider != "runpod" || o.Region != "global" {
			t.Errorf("%+v", o)
		}
	}
	got, err = offers(t, d, gputrain.Spec{Accelerator: accelerators.RTXPRO6000(accelerators.Count(0.25))})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range got { // a slice does not match a whole GPU
		if o.InstanceType == mig && (o.Accelerator.Count != 0.25 || o.Accelerator.MemoryGiB != 24 || accelerators.RTXPRO6000().Matches(o.Accelerator)) {
			t.Errorf("%+v", o)
		}
	}
	f.Do(func() { f.unpriced = true })
	got, err = offers(t, d, gputrain.Spec{Accelerator: accelerators.H100()})
	if err != nil || len(got) == 0 {
		t.Fatal(got, err)
	}
	for _, o := range got {
		if price, known := o.HourlyUSD.USD(); known {
			t.Errorf("a price that is not told is %v", price)
		}
	}
	for range d.Offers(t.Context(), driver.Query{Accelerator: accelerators.H100(), Allocation: driver.Spot}) {
		break
	}
}

func TestOffersRefuse(t *testing.T) {
	f := startFake(t)
	gpu := accelerators.H100()
	mount := func(source string, more ...driver.Mount) gputrain.Spec {
		return gputrain.Spec{Accelerator: gpu, Mounts: append([]driver.Mount{{Source: source, Target: "/data"}}, more...)}
	}
	for _, tt := range []struct {
		says   string
		kind   error
		change func(*Config)
		spec   gputrain.Spec
	}{
		{"two nodes at least", driver.ErrNoOffers, func(c *Config) { c.ClusterMode = Instant }, gputrain.Spec{Accelerator: gpu}},
		{"pods without GPU", driver.ErrNoOffers, func(c *Config) { c.CountryCodes = []string{"FR"} }, gputrain.Spec{}},
		{"rented on demand", driver.ErrNoOffers, nil, gputrain.Spec{Allocation: driver.Spot}},
		{"clusters are rented on demand", driver.ErrNoOffers, func(c *Config) { c.ClusterMode = Instant }, gputrain.Spec{Accelerator: gpu, Nodes: 2, Allocation: driver.Spot}},
		{"no global networking", driver.ErrNoOffers, func(c *Config) { c.GlobalNetworking = NetworkingOn }, gputrain.Spec{Accelerator: gpu, Allocation: driver.Spot}},
		{"has no network volume", driver.ErrNotFound, nil, mount("none")},
		{"2 network volumes", driver.ErrInvalid, nil, mount("twice")},
		{"one network volume", driver.ErrInvalid, nil, mount("vol1", driver.Mount{Source: "vol2", Target: "/b"})},
		{"read-only", driver.ErrUnsupported, nil, gputrain.Spec{Accelerator: gpu, Mounts: []driver.Mount{{Source: "vol1", Target: "/a", ReadOnly: true}}}},
		{"secure cloud", driver.ErrInvalid, func(c *Config) { c.Cloud = Community }, mount("vol1")},
		{"leave countries out", driver.ErrInvalid, func(c *Config) { c.CountryCodes = []string{"FR"} }, mount("vol1")},
		{"does not have", driver.ErrInvalid, func(c *Config) { c.DataCenterIDs = []string{"EU-RO-1"} }, mount("vol1")},
	} {
		cfg := f.config()
		if tt.change != nil {
			tt.change(&cfg)
		}
		_, err := offers(t, open(t, cfg), tt.spec)
		wantKind(t, tt.says, err, tt.kind, tt.says)
	}
}

func TestStates(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090(), Allocation: driver.Spot}
	onDemand, spot := launchOne(t, d, spec, false), launchOne(t, d, spec, true)
	other := open(t, f.config()) // a driver that has launched nothing, and knows only the API's data
	for _, tt := range []struct {
		status     string
		want, spot driver.InstanceState
	}{
		{"PROVISIONING", driver.InstancePending, driver.InstancePending},
		{"STARTING", driver.InstancePending, driver.InstancePending},
		{"RUNNING", driver.InstanceRunning, driver.InstanceRunning},
		{"EXITED", driver.InstanceFailed, driver.InstancePreempted},
		{"ERROR", driver.InstanceFailed, driver.InstanceFailed},
		{"TERMINATED", driver.InstanceTerminated, driver.InstanceTerminated},
		{"HIBERNATING", driver.InstanceUnknown, driver.InstanceUnknown},
	} {
		for _, id := range []string{onDemand.ID, spot.ID} {
			f.set(id, object{"status": tt.status})
		}
		for _, d := range []driver.Driver{d, other} {
			got, err := d.Describe(t.Context(), onDemand.ID, spot.ID)
			if err != nil || len(got) != 2 || got[0].State != tt.want || got[1].State != tt.spot {
				t.Errorf("%s: %+v, %v", tt.status, got, err)
				continue
			}
			if got[0].Name != onDemand.Name || got[1].Rank != spot.Rank || !got[1].Offer.Spot || got[0].Offer.Spot {
				t.Errorf("%s: %+v", tt.status, got)
			}
			if up := tt.status == "RUNNING"; up != (got[0].SSH.Addr != "" && len(got[0].SSH.HostKeys) == 1) {
				t.Errorf("%s: SSH is %+v", tt.status, got[0].SSH)
			}
			if tt.status != "RUNNING" && !strings.HasPrefix(got[0].StateReason, tt.status) {
				t.Errorf("%s: the reason is %q", tt.status, got[0].StateReason)
			}
		}
	}
}

// A pod's address is its published port, never the proxy's.
func TestEndpoint(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	in := launchOne(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, false)
	ports := func(private int, kind string) object {
		return object{"uptime": 1, "ports": []object{{"private": private, "public": 34446, "type": kind, "ip": "203.0.113.7"}}}
	}
	proxy := object{"direct": nil, "proxy": object{"host": "ssh.runpod.io", "port": 22, "username": "x", "command": "ssh"}}
	for want, fields := range map[string]object{
		"":                  {"ssh": proxy, "runtime": nil},
		"203.0.113.7:34446": {"ssh": proxy, "runtime": ports(22, "tcp")},
		"203.0.113.9:12":    {"ssh": object{"proxy": nil, "direct": object{"host": "203.0.113.9", "port": 12, "username": "root", "command": "ssh"}}, "runtime": ports(22, "tcp")},
		"\x00 another port": {"ssh": proxy, "runtime": ports(8888, "http")},
	} {
		want, _, _ = strings.Cut(want, "\x00")
		f.set(in.ID, fields)
		got, err := d.Describe(t.Context(), in.ID)
		if err != nil || got[0].SSH.Addr != want || got[0].State != driver.InstanceRunning {
			t.Errorf("want %q: %+v, %v", want, got, err)
		}
	}
}

// A pod that reads do not have yet is pending. One that they no longer have, or whose
// removal RunPod has accepted, is terminated.
func TestNotThereYet(t *testing.T) {
	f := startFake(t)
	lags := func(d driver.Driver, lag time.Duration) driver.Driver { // a fixed lag, so that a slow computer does not matter
		d.(*podDriver).api.lag = lag
		return d
	}
	describe := func(d driver.Driver, id string) driver.InstanceState {
		t.Helper()
		got, err := d.Describe(t.Context(), id)
		if err != nil || len(got) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		both, err := d.Describe(t.Context(), id, "podunknown") // by the list
		if err != nil || len(both) != 2 || both[0].State != got[0].State {
			t.Fatalf("with another: %+v, %v; want the first %v", both, err, got[0].State)
		}
		unknown := driver.InstanceUnknown
		if d.(*podDriver).api.lag == 0 {
			unknown = driver.InstanceTerminated
		}
		if both[1].State != unknown {
			t.Errorf("a pod that is in no list is %v, want %v", both[1].State, unknown)
		}
		return got[0].State
	}
	d := lags(open(t, f.config()), time.Hour)
	spec := gputrain.Spec{Accelerator: accelerators.H100()}
	in, ended := launchOne(t, d, spec, false), launchOne(t, d, spec, true)
	if err := d.Terminate(t.Context(), ended.ID); err != nil {
		t.Fatal(err)
	}
	f.Do(func() { f.remove(nil, in.ID) })
	if got := describe(d, in.ID); got != driver.InstancePending {
		t.Errorf("just launched: %v", got)
	}
	if got := describe(d, ended.ID); got != driver.InstanceTerminated {
		t.Errorf("ended: %v", got)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || describe(d, in.ID) != driver.InstancePending {
		t.Errorf("%v: a pod that reads do not have yet may be there when they say that it is not", err)
	}
	time.Sleep(2 * time.Minute / time.Second * cloud.Second) // one that was made here, and never shown, may come for a minute
	if got := describe(lags(d, 0), in.ID); got != driver.InstanceTerminated {
		t.Errorf("long ago: %v", got)
	}
	// Another program may have launched the pod just before this driver was opened.
	other := open(t, f.config())
	for lag, want := range map[time.Duration]driver.InstanceState{time.Hour: driver.InstanceUnknown, 0: driver.InstanceTerminated} {
		if got := describe(lags(other, lag), in.ID); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestList(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	req := request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 3)
	req.Pool.Owner, req.Pool.Lease, req.Pool.Expires = "host/1/2", 90*time.Second, time.Now().Add(time.Hour).Truncate(time.Second)
	got, err := d.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{"training", "gputrain-", "gputrain-Pool-0", "xgputrain-pool-a-0"} { // not gputrain's
		f.Do(func() {
			p := maps.Clone(first(f.pods.All(nil)).object)
			p["id"], p["name"], p["env"] = fmt.Sprint("foreign", i), name, object{}
			f.pods.Put(nil, p["id"].(string), fakePod{object: p, machine: first(f.pods.All(nil)).machine})
		})
	}
	f.set(got[1].ID, object{"status": "EXITED"})
	f.set(got[2].ID, object{"status": "TERMINATED"})
	other := open(t, f.config())
	for _, quirk := range []func(){func() { f.pageSize = 2 }, func() { f.pageSize = 1000 }, func() { f.noPages = true }} {
		f.Do(quirk)
		for _, pool := range []string{req.Pool.ID, ""} {
			list, err := other.List(t.Context(), pool)
			if err != nil || len(list) != 2 {
				t.Fatalf("%+v, %v", list, err)
			}
			for _, r := range list {
				if usd, _ := r.HourlyUSD.USD(); r.Kind != "machine" || r.Pool != req.Pool.ID || r.Owner != "host/1/2" || r.Lease != 90*time.Second || !r.Expires.Equal(req.Pool.Expires) ||
					time.Since(r.Created) > time.Minute || math.Abs(usd-map[driver.InstanceState]float64{driver.InstanceRunning: 2.99 + 0.1*70/720, driver.InstanceFailed: 0.2 * 20 / 720}[r.State]) > 1e-9 {
					t.Errorf("%+v", r)
				}
				if want := map[string]driver.InstanceState{got[0].ID: driver.InstanceRunning, got[1].ID: driver.InstanceFailed}[r.ID]; r.State != want {
					t.Errorf("%s is %v", r.ID, r.State)
				}
			}
		}
		if list, err := other.List(t.Context(), "pool-other"); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	}
}

func TestTerminate(t *testing.T) {
	f := startFake(t)
	d := open(t, f.config())
	got, err := d.Launch(t.Context(), request(t, d, gputrain.Spec{Accelerator: accelerators.H100()}, 3))
	if err != nil {
		t.Fatal(err)
	}
	f.set(got[1].ID, object{"status": "PROVISIONING"})
	refused := f.Inject(faultAnswer(opDelete, 1, 403, `{"title":"Forbidden","status":403,"detail":"access denied"}`))
	err = d.Terminate(t.Context(), got[0].ID, got[1].ID, got[2].ID)
	wantKind(t, "one of several", err, driver.ErrAuth, "access denied")
	if left := f.live(); len(left) != 1 || refused.Hits() != 1 {
		t.Errorf("left: %v", left)
	}
	for range 2 {
		if err := d.Terminate(t.Context(), got[0].ID, got[1].ID, got[2].ID, "podgone"); err != nil {
			t.Error(err)
		}
	}
	if left := f.live(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := d.Terminate(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Release(t.Context(), driver.PoolInfo{ID: "p1"}); err != nil {
		t.Error(err)
	}
}

func offers(t *testing.T, d driver.Driver, spec gputrain.Spec) (all []driver.Offer, err error) {
	t.Helper()
	seen := map[string]bool{}
	for o, err := range d.Offers(t.Context(), spec.Query()) {
		if err != nil {
			return all, err
		}
		if seen[o.ID] {
			t.Errorf("two offers have the ID %s", o.ID)
		}
		seen[o.ID] = true
		all = append(all, o)
	}
	return all, nil
}

func wantKind(t *testing.T, what string, err error, kind error, texts ...string) {
	t.Helper()
	e := (*driver.Error)(nil)
	if !errors.As(err, &e) || !errors.Is(err, kind) || e.Provider != "runpod" || e.Op == "" {
		t.Errorf("%s: want %v, got %v", what, kind, err)
		return
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %q is not in %v", what, text, err)
		}
	}
}

func first[T any](list []T) T { return list[0] }
func cancelled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
