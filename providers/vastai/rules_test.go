package vastai

import (
	"encoding/json"
	"errors"
	"fmt"
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

// The rules of Vast.ai for training, one test each. What a rule asks of the pool, and not of its driver, is named in
// the comment of its test.

// only returns the offer of a fake's only machine, changed.
func only(t *testing.T, spec gputrain.Spec, changed row, change ...func(*Config)) driver.Offer {
	t.Helper()
	all := cloudtest.AllOffers(t, startFake(t, changed).open(change...), spec.Query())
	if len(all) != 1 {
		t.Fatalf("%d offers: %+v", len(all), all)
	}
	return all[0]
}

// body returns the last create's.
func body(t *testing.T, f *fake) (text string, in row) {
	t.Helper()
	all := f.Records(opCreate)
	text = all[len(all)-1].Body
	if err := json.Unmarshal([]byte(text), &in); err != nil {
		t.Fatal(err)
	}
	return text, in
}

// A stopped instance goes on billing its disk: it is destroyed, and nothing is ever stopped.
func TestVAST1(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil, nil, nil, nil, nil)
	f.noMachines = true
	d := prepared(t, f)
	var ids []string
	for i := range 6 {
		ids = append(ids, mustLaunch(t, d, gputrain.Spec{}, i).ID)
	}
	f.set(ids[0], row{"actual_status": "stopped"})
	if err := d.Terminate(t.Context(), ids[0]); err != nil {
		t.Error(err)
	}
	if err := d.Terminate(t.Context(), ids[1:]...); err != nil {
		t.Error(err)
	}
	if left := f.live(); len(left) != 1 { // the key
		t.Errorf("left, and billed: %v", left)
	}
	for _, r := range f.Records(opManage) {
		if strings.Contains(r.Body, "state") {
			t.Errorf("an instance is stopped: %s", r.Body)
		}
	}
}

// Destroying loses the disk for good, so that nothing but Terminate destroys: not a look at a stopped or failed
// instance, and not the end of a driver or of a pool's key. That results are copied out before is the pool's part, by
// Compute.Download before Close, and a program's.
func TestVAST2(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil)
	f.noMachines = true
	d := prepared(t, f)
	stopped, failed := mustLaunch(t, d, gputrain.Spec{}, 0).ID, mustLaunch(t, d, gputrain.Spec{}, 1).ID
	f.set(stopped, row{"actual_status": "stopped"})
	f.set(failed, row{"actual_status": "exited"})
	if _, err := d.Describe(t.Context(), stopped, failed); err != nil {
		t.Error(err)
	}
	pool := cloudtest.Info("p1")
	pool.Remaining = []string{stopped, failed}
	if err := errors.Join(d.Release(t.Context(), pool), d.Close()); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opDestroy, opBulk)); n != 0 {
		t.Errorf("%d destroys", n)
	}
}

// A stopped instance waits for its own GPU, which another user may have rented, for ever. It is reported as stopped,
// preempted or failed, within 30 seconds, and is never started again. The pool then launches elsewhere.
func TestVAST3(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	for _, bid := range []bool{false, true} {
		f.set(id, row{"actual_status": "stopped", "is_bid": bid})
		want := map[bool]driver.InstanceState{false: driver.InstanceStopped, true: driver.InstancePreempted}[bid]
		if in := cloudtest.Describe(t, d, id); in.State != want {
			t.Errorf("%+v; want %v", in, want)
		}
	}
	f.set(id, row{"actual_status": "running", "is_bid": false})
	cloudtest.Describe(t, d, id)
	waiting := row{"actual_status": nil, "intended_status": "running", "cur_state": "stopped", "next_state": "running"} // the host started it again
	f.set(id, waiting)
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstancePending {
		t.Errorf("at first: %+v", in)
	}
	d.p.mu.Lock()
	d.p.notes[id].waits = time.Now().Add(-2 * gpuWait())
	d.p.mu.Unlock()
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstanceFailed || !strings.Contains(in.StateReason, "rented its GPU") {
		t.Errorf("after %v: %+v", gpuWait(), in)
	}
	if gpuWait() > loadTimeout()/10 {
		t.Errorf("it waits for its GPU for %v", gpuWait())
	}
	for _, r := range f.Records(opManage) {
		if strings.Contains(r.Body, "state") {
			t.Errorf("it is started again: %s", r.Body)
		}
	}
}

// A bid can be lost without notice: no notice is claimed, every look asks the API, and an outbid instance is preempted
// whatever its other states are. Checkpoints by time are the task's part; that its node is replaced and the task is
// started again is the pool's.
func TestVAST4(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	if n := d.Capabilities().PreemptionNotice; n != 0 {
		t.Errorf("a notice of %v is claimed", n)
	}
	spec := gputrain.Spec{Allocation: driver.Spot}
	id := mustLaunch(t, d, spec, 0).ID
	for _, status := range []any{"running", "loading", "exited", nil} {
		f.set(id, row{"actual_status": status, "intended_status": "running", "cur_state": "running", "next_state": "running"})
		if in := cloudtest.Describe(t, d, id); in.State == driver.InstancePreempted {
			t.Errorf("%v is preempted: %+v", status, in)
		}
		f.set(id, row{"intended_status": "stopped", "cur_state": "stopped", "next_state": "stopped"})
		if in := cloudtest.Describe(t, d, id); in.State != driver.InstancePreempted {
			t.Errorf("%v, outbid: %+v", status, in)
		}
	}
}

// The image's CUDA must not be newer than what the host's driver supports: MinCUDA follows the image.
func TestVAST5(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		image string
		least float64 // Config.MinCUDA
		host  float64
		good  bool
	}{
		{"", 0, 12.8, false},
		{"", 0, 12.9, true},
		{"", 0, 13.0, true},
		{Ubuntu("22.04", "12.4.1"), 0, 12.4, true},
		{Ubuntu("22.04", "12.4.1"), 0, 12.3, false},
		{"pytorch/pytorch:2.5.1-cuda12.6-cudnn9-runtime", 0, 12.4, false},
		{"pytorch/pytorch:2.5.1-cuda12.6-cudnn9-runtime", 0, 12.6, true},
		{"me/train:7", 0, 11.8, false}, // without a version in its name
		{"me/train:7", 0, 12.0, true},
		{"me/train:7", 12.8, 12.6, false},
		{"", -1, 11.0, true},
		{"", 12.4, 12.6, true}, // the user's word
	} {
		o := only(t, gputrain.Spec{Accelerator: accelerators.RTX4090()}, row{"cuda_max_good": tt.host}, func(c *Config) { c.Image, c.MinCUDA = tt.image, tt.least })
		if (o.Rejected == "") != tt.good || !tt.good && !strings.Contains(o.Rejected, fmt.Sprintf("supports CUDA %.1f", tt.host)) {
			t.Errorf("%q with MinCUDA %v on a host for CUDA %v: rejected %q", tt.image, tt.least, tt.host, o.Rejected)
		}
	}
}

// A GPU of AMD has no CUDA.
func TestVAST5OfAMD(t *testing.T) {
	t.Parallel()
	if o := only(t, gputrain.Spec{Accelerator: accelerators.MI250X()}, row{"gpu_name": "InstinctMI250X", "gpu_ram": 131072, "cuda_max_good": "-"}); o.Rejected != "" {
		t.Errorf("rejected as %q", o.Rejected)
	}
}

// Ports are mapped at random, and 64 at most: they are asked for in the create, and read when the instance runs.
func TestVAST6(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	d := prepared(t, f, func(c *Config) { c.Ports = []int{8000, 6006} })
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	_, in := body(t, f)
	if env := fmt.Sprint(in["env"]); env != "map[-p 6006:6006:1 -p 8000:8000:1]" {
		t.Errorf("the create asks for %s", env)
	}
	for _, d := range []*vastaiDriver{d, f.open(func(c *Config) { c.TrustFirstContact = true })} { // another program's, too
		in := cloudtest.Describe(t, d, id)
		if len(in.Ports) != 3 || in.Ports[22] != in.SSH.Addr || !strings.HasPrefix(in.Ports[8000], in.PublicAddr+":4000") || !strings.HasPrefix(in.Ports[6006], in.PublicAddr+":4000") {
			t.Errorf("%v of %+v", in.Ports, in)
		}
	}
	f.set(id, row{"actual_status": "loading"})
	if in := cloudtest.Describe(t, d, id); in.Ports != nil {
		t.Errorf("before it runs: %v", in.Ports)
	}
	most := make([]int, maxPorts-1)
	for i := range most {
		most[i] = 5000 + i
	}
	if err := (Config{Ports: most}).validate(); err != nil {
		t.Error(err)
	}
	is(t, second(Config{APIKey: testKey, Endpoint: f.URL, Ports: append(most, 80)}.Open(t.Context())), driver.ErrInvalid, "open")
	if o := only(t, gputrain.Spec{Accelerator: accelerators.RTX4090()}, row{"direct_port_count": 63}, func(c *Config) { c.Ports = most }); o.Rejected == "" {
		t.Error("a machine with 63 direct ports is to map 64")
	}
}

func second(_ driver.Driver, err error) error { return err }

// Hosts are verified and reliable, and have a direct port, unless the user wants others. One that goes offline is gone.
func TestVAST7(t *testing.T) {
	t.Parallel()
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090()}
	any := func(c *Config) { c.AllowUnverified, c.MinReliability, c.AllowProxy = true, -1, true }
	for why, changed := range map[string]row{
		"not verified":          {"verification": "unverified"},
		"reliability is 0.94":   {"reliability2": 0.94},
		"Vast's proxy alone":    {"direct_port_count": 0},
		"not verified by Vast;": {"verification": "deverified"},
	} {
		if o := only(t, spec, changed); !strings.Contains(o.Rejected, why) {
			t.Errorf("%v: rejected as %q", changed, o.Rejected)
		}
		if o := only(t, spec, changed, any); o.Rejected != "" {
			t.Errorf("%v, which is wanted: %q", changed, o.Rejected)
		}
	}
	f := startFake(t, nil, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, spec, 0).ID
	f.set(id, row{"actual_status": "offline"})
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstanceFailed {
		t.Errorf("%+v", in)
	}
	f.Do(func() { f.asks = append(f.asks, askRow(0, nil)) }) // Vast offers it again
	for _, o := range cloudtest.AllOffers(t, d, spec.Query()) {
		if (o.Host == "88000") != (o.Rejected != "") {
			t.Errorf("%+v", o)
		}
	}
}

// The SSH proxy is slow: a machine behind it has a warning, and a machine with a direct port is reached by that. That
// more than a GB is not sent through the proxy is the user's choice, by AllowProxy.
func TestVAST8(t *testing.T) {
	t.Parallel()
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090()}
	for ports, want := range map[int]bool{0: true, 1: false} {
		o := only(t, spec, row{"direct_port_count": ports}, func(c *Config) { c.AllowProxy = true })
		if got := strings.Contains(fmt.Sprint(o.Warnings), "proxy, which is slow"); got != want || o.Rejected != "" {
			t.Errorf("with %d direct ports: %q, warned %v of %q", ports, o.Rejected, got, o.Warnings)
		}
	}
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f, func(c *Config) { c.TrustFirstContact = true })
	id := mustLaunch(t, d, spec, 0).ID
	if in := cloudtest.Describe(t, d, id); in.SSH.Addr != "" {
		t.Errorf("it is reached by the proxy: %+v", in.SSH)
	}
	f.set(id, row{"public_ipaddr": "203.0.113.9", "ports": row{"22/tcp": []row{{"HostIp": "0.0.0.0", "HostPort": "41022"}}}})
	if in := cloudtest.Describe(t, d, id); in.SSH.Addr != "203.0.113.9:41022" {
		t.Errorf("%+v", in.SSH)
	}
}

// Traffic is billed in every state, in both directions: offers have its price, or a warning that it is unknown, and
// MaxTrafficUSDPerGB bounds it. That it counts in the cost is the pool's part, by Spec.IngressGiB and EgressGiB.
func TestVAST9(t *testing.T) {
	t.Parallel()
	spec := gputrain.Spec{Accelerator: accelerators.RTX4090()}
	if o := only(t, spec, row{"inet_down_cost": 0.01, "inet_up_cost": 0.02}); !near(o.IngressUSD, 0.01*1.073741824) || !near(o.EgressUSD, 0.02*1.073741824) {
		t.Errorf("%+v", o)
	}
	for _, column := range []string{"inet_down_cost", "inet_up_cost"} {
		if o := only(t, spec, row{column: "-"}); !strings.Contains(fmt.Sprint(o.Warnings), "price of its traffic is unknown") {
			t.Errorf("without %s: %q", column, o.Warnings)
		}
		for _, price := range []any{0.02, "-"} {
			if o := only(t, spec, row{column: price}, func(c *Config) { c.MaxTrafficUSDPerGB = 0.01 }); o.Rejected == "" {
				t.Errorf("%s of %v is accepted", column, price)
			}
		}
	}
}

// A disk's size is fixed at creation: it is the spec's or Config's, at least 10 GB, and free on the host, and its price
// is in the offer's.
func TestVAST10(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		gib, config float64
		want        string
	}{{0, 0, "100"}, {0, 30, "30"}, {1, 30, "10"}, {200, 30, "215"}} {
		f := startFake(t, nil)
		f.noMachines = true
		d := prepared(t, f, func(c *Config) { c.DiskGB = tt.config })
		in := mustLaunch(t, d, gputrain.Spec{DiskGiB: tt.gib}, 0)
		_, sent := body(t, f)
		if got := fmt.Sprint(sent["disk"]); got != tt.want || in.Offer.DiskGiB < tt.gib || len(in.Offer.Parts) != 2 || in.Offer.Parts[1].Name != "disk" {
			t.Errorf("%v GiB, or %v GB: %s GB, of %+v", tt.gib, tt.config, got, in.Offer)
		}
	}
	if o := only(t, gputrain.Spec{Accelerator: accelerators.RTX4090(), DiskGiB: 900}, row{"disk_space": 900}); !strings.HasPrefix(o.Rejected, "has 900 GB of disk left; a node gets 967") {
		t.Errorf("rejected as %q", o.Rejected)
	}
	is(t, second(Config{APIKey: testKey, DiskGB: 9}.Open(t.Context())), driver.ErrInvalid, "open")
}

// Vast stores the image's name, the environment and the start command: they have no secret. The registry's token is in
// its own field alone, and is printed nowhere. That a pool's secrets are not in the create is the pool's part: no driver
// gets them.
func TestVAST11(t *testing.T) {
	t.Parallel()
	const token = "dckr_pat_0123456789"
	f := startFake(t, nil)
	f.noMachines = true
	secret := func(c *Config) {
		c.Image, c.RegistryUser, c.RegistryToken = "registry.example:5000/team/train:7", "team", token
	}
	d := prepared(t, f, secret)
	in := mustLaunch(t, d, gputrain.Spec{TTL: time.Hour}, 0)
	text, sent := body(t, f)
	if sent["image_login"] != "-u team -p "+token+" registry.example:5000" || strings.Count(text, token) != 1 || strings.Contains(text, testKey) {
		t.Errorf("%s", text)
	}
	for _, column := range []string{"image", "env", "onstart", "label"} {
		if strings.Contains(fmt.Sprint(sent[column]), token) {
			t.Errorf("%s has the token", column)
		}
	}
	f.Inject(fakecloud.Fault{Op: opShow, Times: -1, Answer: fakecloud.Failure(400, row{"error": "odd", "msg": "docker login -p " + token}, "")})
	f.Inject(fakecloud.Fault{Op: opList, Times: -1, Answer: fakecloud.Failure(400, row{"error": "odd", "msg": "docker login -p " + token}, "")})
	_, err := d.Describe(t.Context(), in.ID)
	if err == nil {
		t.Error("no error")
	}
	cfg := f.config()
	secret(&cfg)
	for _, said := range []string{fmt.Sprintf("%v %+v %#v", d, d, d), fmt.Sprintf("%+v %#v", d.p, d.p), fmt.Sprintf("%+v %#v", cfg, cfg), fmt.Sprint(err), fmt.Sprintf("%+v", in), d.Scripts(in).SelfDestruct} {
		if strings.Contains(said, token) {
			t.Errorf("the token shows: %.500s", said)
		}
	}
	for _, reference := range []driver.Secret{"env://NO_SUCH_VARIABLE_OF_ANY_PROGRAM", " "} {
		cfg.RegistryToken = reference
		is(t, second(cfg.Open(t.Context())), driver.ErrAuth, "open")
	}
	// The same for the image of a spec.
	named := startFake(t, nil)
	named.noMachines = true
	spec := gputrain.Spec{Image: gputrain.Image{Docker: "registry.example:5000/team/train:7-cuda12.4"}}
	nd := prepared(t, named)
	req := request(spec, cloudtest.AllOffers(t, nd, spec.Query())[0], 0)
	req.ImageLogin = driver.ImageLogin{User: "team", Password: token}
	got, err := nd.Launch(t.Context(), req)
	cloudtest.One(t, got, err)
	text, sent = body(t, named)
	if sent["image"] != spec.Image.Docker || sent["image_login"] != "-u team -p "+token+" registry.example:5000" || strings.Count(text, token) != 1 {
		t.Errorf("%s", text)
	}
	named.Inject(fakecloud.Fault{Op: opList, Times: -1, Answer: fakecloud.Failure(400, row{"error": "odd", "msg": "docker login -p " + token}, "")})
	if _, err := nd.List(t.Context(), ""); err == nil || strings.Contains(err.Error(), token) {
		t.Errorf("got %v", err)
	}
	public := startFake(t, nil)
	public.noMachines = true
	mustLaunch(t, prepared(t, public), gputrain.Spec{}, 0)
	if text, _ := body(t, public); strings.Contains(text, "login") {
		t.Errorf("a public image: %s", text)
	}
}

// No volume follows a job to another machine: none is offered or asked for.
func TestVAST12(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	mustLaunch(t, d, gputrain.Spec{}, 0)
	if text, _ := body(t, f); d.Capabilities().Mounts || strings.Contains(text, "volume") {
		t.Errorf("mounts %v: %s", d.Capabilities().Mounts, text)
	}
	spec := gputrain.Spec{Mounts: []driver.Mount{{Source: "data", Target: "/data"}}}
	plan, err := gputrain.Plan(t.Context(), startFake(t, nil).config(), spec)
	if err != nil || len(plan) != 1 || !strings.Contains(plan[0].Rejected, "mounts") {
		t.Errorf("%+v, %v", plan, err)
	}
}

// An instance that is stuck in loading is given up, its machine is not tried again, and the reason has the end of
// Vast's log.
func TestVAST13(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"machine_id": 7}, row{"machine_id": 7}, row{"machine_id": 8})
	f.noMachines, f.status = true, "loading"
	f.daemonLog = "Pulling layer 1\nPulling layer 2\x1b[31m\nerror: " + testKey + ": i/o timeout\n"
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	f.Do(func() {
		r, _ := f.instances.Get(nil, id)
		r.log = "" // the container has not started
	})
	isFresh(d, id)
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstancePending || len(f.Records(opLogs)) != 0 {
		t.Errorf("at first: %+v", in)
	}
	d.p.mu.Lock()
	d.p.notes[id].launched = time.Now().Add(-2 * loadTimeout())
	d.p.mu.Unlock()
	for range 2 {
		in := cloudtest.Describe(t, d, id)
		if in.State != driver.InstanceFailed || !strings.Contains(in.StateReason, "; its log ends with: Pulling layer 1 | Pulling layer 2") ||
			!strings.Contains(in.StateReason, "i/o timeout") || strings.Contains(in.StateReason, testKey) || strings.ContainsAny(in.StateReason, "\x1b\n") {
			t.Errorf("%v: %q", in.State, in.StateReason)
		}
	}
	if n := len(f.Records(opLogs)); n != 2 {
		t.Errorf("%d requests for logs", n)
	}
	for _, o := range cloudtest.AllOffers(t, d, driver.Query{}) {
		if (o.Host == "7") != (o.Rejected != "") {
			t.Errorf("%+v", o)
		}
	}
	// A container that ended has a log of its own. One that cannot be read hides nothing.
	f.Do(func() { f.status = "running" })
	id = mustLaunch(t, d, gputrain.Spec{}, 1).ID
	f.set(id, row{"actual_status": "exited", "status_msg": "exit code 127"})
	f.Inject(fakecloud.Fault{Op: opLogs, Times: 1, Answer: fakecloud.Failure(404, row{"error": "no_such_instance"}, "")})
	if in := cloudtest.Describe(t, d, id); in.State != driver.InstanceFailed || !strings.Contains(in.StateReason, "exit code 127") {
		t.Errorf("%v: %q", in.State, in.StateReason)
	}
}

// One name of a GPU covers several memories: the search, and each offer, have the memory. That the GPU of a running
// node is checked again is the pool's part, by nvidia-smi.
func TestVAST14(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"gpu_name": "A100 PCIE", "gpu_ram": 40960}, row{"gpu_name": "A100 PCIE", "gpu_ram": 81920})
	spec := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Memory(80))}
	all := cloudtest.AllOffers(t, f.open(), spec.Query())
	if len(all) != 1 || all[0].ID != "1001" || !spec.Accelerator.Matches(all[0].Accelerator) {
		t.Errorf("%+v", all)
	}
	all = cloudtest.AllOffers(t, f.open(), gputrain.Spec{Accelerator: accelerators.A100()}.Query())
	if len(all) != 2 || all[0].Accelerator.MemoryGiB != 40 || all[1].Accelerator.MemoryGiB != 80 || spec.Accelerator.Matches(all[0].Accelerator) {
		t.Errorf("%+v", all)
	}
}

// A destroy takes a while: an instance that Vast has agreed to destroy is reported as it is until it is gone. That the
// pool waits for that is its own part.
func TestVAST15(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.noMachines = true
	d := prepared(t, f)
	id := mustLaunch(t, d, gputrain.Spec{}, 0).ID
	f.Inject(fakecloud.Fault{Op: opDestroy, Undone: true, Times: 1})
	for _, want := range []driver.InstanceState{driver.InstanceRunning, driver.InstanceTerminated} {
		if err := d.Terminate(t.Context(), id); err != nil {
			t.Error(err)
		}
		if in := cloudtest.Describe(t, d, id); in.State != want {
			t.Errorf("%+v; want %v", in, want)
		}
	}
}

// Beside the rules: the end of a host's contract is in each offer's warnings, and offers whose contract ends before the
// TTL are rejected.
func TestContractEnds(t *testing.T) {
	t.Parallel()
	end := time.Now().Add(90 * time.Minute).UTC().Truncate(time.Minute)
	warning := "the host's contract ends at " + end.Format("2006-01-02 15:04") + " UTC"
	for _, changed := range []row{{"end_date": float64(end.Unix())}, {"end_date": float64(end.Unix()), "duration": "-"}} {
		for ttl, rejected := range map[time.Duration]bool{0: false, time.Hour: false, 2 * time.Hour: true} {
			o := only(t, gputrain.Spec{Accelerator: accelerators.RTX4090(), TTL: ttl}, changed)
			if !slices.Contains(o.Warnings, warning) || (o.Rejected != "") != rejected {
				t.Errorf("with a TTL of %v: rejected %q, warned of %q; want %q", ttl, o.Rejected, o.Warnings, warning)
			}
		}
	}
	if o := only(t, gputrain.Spec{}, row{"duration": "-"}); len(o.Warnings) != 0 {
		t.Errorf("of an unknown end: %q", o.Warnings)
	}
	if o := only(t, gputrain.Spec{}, row{"duration": 1e300}); len(o.Warnings) != 1 {
		t.Errorf("of an end that is far away: %q", o.Warnings)
	}
}

// An account without money is refused before anything is made.
func TestNoMoneyNoLaunch(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil)
	f.credit = -1.5
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{}, gputrain.WithStateDir(t.TempDir()))
	if pool != nil {
		pool.Close()
	}
	if !errors.Is(err, driver.ErrBalance) || !strings.Contains(err.Error(), "the account has -$1.50") {
		t.Errorf("%v", err)
	}
	if n := len(f.Records(opCreate, opAddKey)); n != 0 {
		t.Errorf("%d things were made", n)
	}
}

// Balance returns the field credit, or the field balance if the answer has no credit.
func TestBalance(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	for _, tt := range []struct {
		answer row
		want   driver.Balance
	}{
		{row{"id": 456, "credit": 12.5, "balance": 0.0}, driver.Balance{Known: true, USD: 12.5}},
		{row{"id": 456, "credit": 0.0, "balance": 3.0}, driver.Balance{Known: true}},
		{row{"id": 456, "balance": -3.0}, driver.Balance{Known: true, USD: -3}},
		{row{"id": 456}, driver.Balance{}},
	} {
		f.Inject(fakecloud.Fault{Op: opUser, Times: 1, Answer: fakecloud.Failure(200, tt.answer, "")})
		if got, err := d.Balance(t.Context(), driver.Offer{}); err != nil || got != tt.want {
			t.Errorf("%v: %+v, %v; want %+v", tt.answer, got, err, tt.want)
		}
	}
	f.Inject(fakecloud.Fault{Op: opUser, Times: 1, Answer: fakecloud.Failure(403, row{"error": "auth_error"}, "")})
	_, err := d.Balance(t.Context(), driver.Offer{})
	is(t, err, driver.ErrAuth, "balance")
}
