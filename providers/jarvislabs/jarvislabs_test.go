package jarvislabs

import (
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
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

var l4 = gputrain.Spec{Accelerator: accelerators.L4()}

// from launches a node of a region's first offer.
func from(t *testing.T, d driver.Driver, spec gputrain.Spec, region string, rank int) driver.Instance {
	t.Helper()
	for _, o := range cloudtest.Offers(t, d, spec.Query()) {
		if o.Region == region {
			got, err := d.Launch(t.Context(), cloudtest.Request(t, spec.Query(), o, rank))
			if err != nil {
				t.Fatal(err)
			}
			return got[0]
		}
	}
	t.Fatalf("%s has no offers", region)
	return driver.Instance{}
}

// All calls about a machine go to the host of its region: in the fake, no other host has it.
func TestRegionsHaveTheirOwnHosts(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	for rank, tt := range []struct {
		region, internal string
		spec             gputrain.Spec
		storage          int
	}{
		{"IN2", noida, l4, 50}, {"IN1", chennai, l4, 50}, {europe, eu, gputrain.Spec{Accelerator: accelerators.H100()}, 100},
		{europe, eu, gputrain.Spec{Accelerator: accelerators.H100(), DiskGiB: 300.5}, 301},
	} {
		in := from(t, d, tt.spec, tt.region, rank)
		asked, host := f.created()
		if asked.Region != tt.internal || host != hosts[tt.internal] || asked.Storage != tt.storage || asked.Duration != "hour" {
			t.Errorf("%s: %+v at %s", tt.region, asked, host)
		}
		if err := cloudtest.Open(t, f.config()).Terminate(t.Context(), in.ID); err != nil {
			t.Errorf("%s: %v", tt.region, err)
		}
		if ends := f.Records(opDestroy); ends[len(ends)-1].Header.Get("Host") != hosts[tt.internal] {
			t.Errorf("%s: destroyed at %s", tt.region, ends[len(ends)-1].Header.Get("Host"))
		}
	}
	if n := len(f.everything()); n != 1 { // the key
		t.Errorf("%+v", f.everything())
	}
}

func TestRegionThatIsNotKnown(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	var id string
	f.Do(func() {
		f.put(nil, createInstance{GPU: "L4", GPUs: 1, Region: "mars-01", Name: "gputrain-p1-0"}, "pytorch")
		id = fmt.Sprint(f.lastID)
	})
	d := cloudtest.Prepared(t, f.config())
	err := d.Terminate(t.Context(), id)
	cloudtest.Is(t, err, driver.ErrUnsupported, providerName, "terminate", testKey)
	if all, err := d.List(t.Context(), "p1"); err != nil || len(all) != 2 || all[0].Region != "mars-01" {
		t.Errorf("%+v, %v", all, err)
	}
	_, err = d.Launch(t.Context(), cloudtest.Request(t, l4.Query(), driver.Offer{ID: "mars-01/L4/1/on-demand"}, 0))
	cloudtest.Is(t, err, driver.ErrUnsupported, providerName, "launch", testKey)
	cfg := f.config()
	cfg.RegionEndpoints = map[string]string{"mars-01": f.URL}
	if err := cloudtest.Open(t, cfg).Terminate(t.Context(), id); err != nil {
		t.Error(err)
	}
}

// A failure under a 200 is found in all its spellings.
func TestFailureUnderAGoodStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answer any
		kind   error
	}{
		{row{"success": false, "message": "Requested GPU is not available at the moment"}, driver.ErrNoCapacity},
		{row{"sucess": false, "error": "out of stock"}, driver.ErrNoCapacity},
		{row{"success": "False", "detail": "no capacity"}, driver.ErrNoCapacity},
		{row{"success": "false", "message": "Insufficient balance"}, driver.ErrBalance},
		{row{"message": "Maximum number of instances reached"}, driver.ErrQuota}, // without an ID
		{row{"success": true, "machine_id": 0, "message": "no capacity"}, driver.ErrNoCapacity},
		{row{"success": true, "machine_id": nil}, driver.ErrUnavailable},
		{row{"success": false}, driver.ErrUnavailable},
		{row{"success": false, "message": "Something else"}, driver.ErrUnavailable},
	} {
		f := startFake(t)
		d := cloudtest.Prepared(t, f.config())
		f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Reply(200, tt.answer)})
		got, err := cloudtest.Launch(t, d, l4.Query(), 0)
		cloudtest.Is(t, err, tt.kind, providerName, "launch", testKey)
		if len(got) > 0 || len(f.Records(opCreate)) != 1 {
			t.Errorf("%v: %+v after %d creates", tt.answer, got, len(f.Records(opCreate)))
		}
	}
}

// IDs come as numbers and as texts.
func TestMachineIDs(t *testing.T) {
	t.Parallel()
	for _, id := range []any{123456, "123456", " 123456 "} {
		f := startFake(t)
		d := cloudtest.Prepared(t, f.config())
		f.Inject(fakecloud.Fault{Op: opCreate, Answer: fakecloud.Reply(200, row{"machine_id": id})})
		if in := cloudtest.MustLaunch(t, d, l4.Query(), 0); in.ID != "123456" {
			t.Errorf("%v is %q", id, in.ID)
		}
		f.Inject(fakecloud.Fault{Op: opShow, Answer: fakecloud.Reply(200, row{"instance": row{"machine_id": id, "status": "Creating"}})})
		if in := cloudtest.Describe(t, d, "123456"); in.State != driver.InstancePending {
			t.Errorf("%+v", in)
		}
	}
}

// A machine that the API does not find by its ID is gone only if the list of all machines
// lacks it, too.
func TestNotFoundByItsID(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	for _, answer := range []fakecloud.Answer{
		fakecloud.Reply(200, row{"success": false}), fakecloud.Reply(200, row{"success": true}), refuse(200, "Machine not found"),
		fakecloud.Reply(404, row{"detail": "Not Found"}), fakecloud.Reply(403, row{"message": "Machine does not belong to this user"}),
	} {
		f.Inject(fakecloud.Fault{Op: opShow, Answer: answer})
		if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning {
			t.Errorf("%s: %+v", answer.Body, now)
		}
		f.Inject(fakecloud.Fault{Op: opShow, Answer: answer})
		f.Inject(fakecloud.Fault{Op: opList, Answer: fakecloud.Reply(200, row{"success": false})})
		_, err := d.Describe(t.Context(), in.ID)
		cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "describe", testKey)
	}
	for _, answer := range []fakecloud.Answer{fakecloud.Reply(404, "<html>"), refuse(200, "Database error"), fakecloud.Reply(200, row{"instance": row{"machine_id": 8}})} {
		f.Inject(fakecloud.Fault{Op: opShow, Answer: answer})
		_, err := d.Describe(t.Context(), in.ID)
		cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "describe", testKey)
	}
}

func TestListsThatAreNone(t *testing.T) {
	t.Parallel()
	for op, answer := range map[string]any{
		opList: row{"success": true}, opKeys: row{"keys": []row{}}, opList + " ": row{"instances": []row{{"status": "Running"}}},
	} {
		f := startFake(t)
		d := cloudtest.Open(t, f.config())
		f.Inject(fakecloud.Fault{Op: strings.TrimSpace(op), Answer: fakecloud.Reply(200, answer), Times: -1})
		_, err := d.List(t.Context(), "")
		cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "list", testKey)
	}
}

// Each kind of machine is destroyed at its own path, and none is ever paused.
func TestDestroyByKind(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for _, tt := range []struct{ template, gpu, op string }{
		{"pytorch", "L4", opDestroy}, {"vm", "L4", opDestroyVM}, {"vm", "CPU", opDestroyCPU},
	} {
		var id string
		f.Do(func() {
			f.put(nil, createInstance{GPU: tt.gpu, GPUs: 1, Region: chennai, Name: "gputrain-p1-0"}, tt.template)
			id = fmt.Sprint(f.lastID)
		})
		if err := d.Terminate(t.Context(), id); err != nil || len(f.Records(tt.op)) != 1 {
			t.Errorf("%+v: %v, %d calls", tt, err, len(f.Records(tt.op)))
		}
	}
}

// A failed destroy may be under way: whether the machine still exists decides.
func TestDestroyThatFails(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.Inject(fakecloud.Fault{Op: opDestroy, Times: -1, Answer: refuse(200, "try again")})
	err := d.Terminate(t.Context(), in.ID)
	cloudtest.Is(t, err, driver.ErrUnavailable, providerName, "terminate", testKey)
	if n := len(f.Records(opShow)); n != destroyTries+2 { // the first is the driver's, of a machine that it has not seen
		t.Errorf("it was looked at %d times", n)
	}
	f.set(in.ID, row{"status": "Destroying"})
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
}

// A destroy is repeated while the machine shows no sign of it.
func TestDestroyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.Inject(fakecloud.Fault{Op: opDestroy, Times: 2, Answer: refuse(200, "try again")})
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if n := len(f.Records(opDestroy)); n != 3 {
		t.Errorf("it was asked for %d times", n)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
		t.Errorf("it is %v", now.State)
	}
}

// If the key is refused, End does not wait.
func TestDestroyThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opDestroy, Answer: fakecloud.Reply(403, row{"message": "Not authenticated"})})
	d := cloudtest.Prepared(t, f.config())
	err := d.Terminate(t.Context(), cloudtest.MustLaunch(t, d, l4.Query(), 0).ID)
	cloudtest.Is(t, err, driver.ErrAuth, providerName, "terminate", testKey)
	if n := len(f.Records(opShow)); n != 2 { // the first is the driver's, of a machine that it has not seen
		t.Errorf("it was looked at %d times", n)
	}
}

func TestWorkersOfDeploymentsAreNotOurs(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	foreign := f.foreign()
	all, err := cloudtest.Open(t, f.config()).List(t.Context(), "p1")
	if err != nil || len(all) != 0 {
		t.Errorf("%+v, %v: of %q none is ours", all, err, foreign)
	}
}

func TestFailedMachineSaysWhy(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	in := from(t, d, l4, "IN1", 0)
	f.set(in.ID, row{"status": "Failed"})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || now.StateReason != "Failed: container failed to start 500" {
		t.Errorf("%+v", now)
	}
	f.set(in.ID, row{"status": "Creating", "ssh_str": "ssh -p 1 root@old.example.net"})
	if now := cloudtest.Describe(t, d, in.ID); now.SSH.Addr != "" {
		t.Errorf("the SSH address is outdated unless the machine runs: %+v", now)
	}
	f.set(in.ID, row{"status": "Running", "ssh_str": nil})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstancePending {
		t.Errorf("%+v", now)
	}
}

func TestPoolIDThatLeavesNoRoom(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	err := d.Prepare(t.Context(), cloudtest.Info("p"+strings.Repeat("x", maxPoolID)))
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "prepare", testKey)
	if !strings.Contains(err.Error(), "WithName") || len(f.everything()) > 0 {
		t.Errorf("%v, %+v", err, f.everything())
	}
	longest := "p" + strings.Repeat("x", maxPoolID-1)
	if err := d.Prepare(t.Context(), cloudtest.Info(longest)); err != nil {
		t.Error(err)
	}
	if name := pooltag.Prefix + longest + "-99-r99"; len(name) > maxName {
		t.Errorf("%s is too long", name)
	}
	req := cloudtest.Request(t, l4.Query(), cloudtest.Offers(t, d, l4.Query())[0], 0)
	req.Pool, req.Nodes[0].Name = cloudtest.Info(longest), longest+"-99999-r999"
	_, err = d.Launch(t.Context(), req)
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch", testKey)
}

func TestAccountHasTenKeysAtMost(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Do(func() {
		for i := range 10 {
			f.putKey(nil, fmt.Sprint("mine", i), "ssh-ed25519 AAAA"+fmt.Sprint(i))
		}
	})
	err := cloudtest.Open(t, f.config()).Prepare(t.Context(), cloudtest.Info("p1"))
	cloudtest.Is(t, err, driver.ErrQuota, providerName, "prepare", testKey)
}

func TestOfferThatIsNotUnderstood(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	for _, id := range []string{"", "IN2/L4", noida + "/L4/0/spot", noida + "/L4/1/cheap", noida + "//1/spot", noida + "/L4/01/spot"} {
		_, err := d.Launch(t.Context(), cloudtest.Request(t, l4.Query(), driver.Offer{ID: id}, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch", testKey)
	}
	if n := len(f.Records(opCreate)); n > 0 {
		t.Errorf("%d creates", n)
	}
}

func TestVM(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Template = "vm"
	d := cloudtest.Prepared(t, cfg)
	spec := gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.SpotIfAvailable}
	in := from(t, d, spec, "IN2", 0)
	if asked, _ := f.created(); asked.Storage != 100 || asked.Spot || f.Records(opCreate)[0].Path != "/templates/vm/create" {
		t.Errorf("%+v", asked)
	}
	for _, tt := range []struct{ ssh, ip, addr, user string }{
		{"ssh 203.0.113.9", "203.0.113.9", "203.0.113.9:22", "ubuntu"}, {"ssh cloud@203.0.113.9", "", "203.0.113.9:22", "cloud"},
		{"", "203.0.113.9", "203.0.113.9:22", "ubuntu"},
	} {
		f.set(in.ID, row{"ssh_str": tt.ssh, "public_ip": tt.ip})
		if now := cloudtest.Describe(t, d, in.ID); now.SSH.Addr != tt.addr || now.SSH.User != tt.user {
			t.Errorf("%+v: %+v", tt, now.SSH)
		}
	}
	if d.Capabilities().Spot {
		t.Error("a VM is no spot machine")
	}
}

// The same instance, in the fields of other answers.
func TestAliases(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	f.Inject(fakecloud.Fault{Op: opShow, Answer: fakecloud.Reply(200, row{"success": true, "instance": row{
		"machine_id": "77", "status": "running", "name": "gputrain-p1-3", "template": "pytorch", "ssh_command": "ssh root@a.example.net -p 2201",
		"gpu_type": "L4", "num_gpus": "2", "ram": "124GB", "cores": "28", "region": chennai, "is_spot": "True",
	}})})
	in := cloudtest.Describe(t, d, "77")
	want := []string{"p1-3", "3", "running", "a.example.net:2201", "root", "IN1", "L4:2", "124", "28", "true"}
	if got := []string{in.Name, fmt.Sprint(in.Rank), in.State.String(), in.SSH.Addr, in.SSH.User, in.Offer.Region, in.Offer.Accelerator.String(),
		fmt.Sprint(in.Offer.MemoryGiB), fmt.Sprint(in.Offer.VCPUs), fmt.Sprint(in.Offer.Spot)}; !slices.Equal(got, want) {
		t.Errorf("%q; want %q", got, want)
	}
}

// A create may take longer than the timeout of a read.
func TestCreateMayTakeLong(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.RequestTimeout = time.Second
	d := cloudtest.Prepared(t, cfg)
	free := make(chan struct{})
	time.AfterFunc(1500*time.Millisecond, func() { close(free) })
	f.Inject(fakecloud.Fault{Op: opCreate, Hold: free})
	cloudtest.MustLaunch(t, d, l4.Query(), 0)
	if n := len(f.Records(opCreate)); n != 1 {
		t.Errorf("%d creates", n)
	}
}
