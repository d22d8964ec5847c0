package gcp

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// at returns the value at a path of JSON, such as "disks.0.boot".
func at(v any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case row:
			v = in[key]
		case []any:
			i := int(key[0] - '0')
			if i >= len(in) {
				return nil
			}
			v = in[i]
		default:
			return nil
		}
	}
	return v
}

func TestLaunchBody(t *testing.T) {
	t.Parallel()
	t4 := gputrain.Spec{Accelerator: accelerators.T4()}
	for name, test := range map[string]struct {
		spec   gputrain.Spec
		change func(*Config)
		ttl    time.Duration
		want   row // by path; nil means that the path must be missing
	}{
		"GPU of its own": {spec: oneL4, want: row{
			"machineType": "zones/us-central1-a/machineTypes/g2-standard-4", "guestAccelerators": nil,
			"scheduling.onHostMaintenance": "TERMINATE", "scheduling.provisioningModel": "STANDARD", "scheduling.automaticRestart": false,
			"scheduling.maxRunDuration": nil, "scheduling.instanceTerminationAction": nil, "serviceAccounts": nil,
			"disks.0.boot": true, "disks.0.autoDelete": true, "disks.0.initializeParams.sourceImage": gpuImage,
			"disks.0.initializeParams.diskSizeGb": "200", "disks.0.initializeParams.diskType": "zones/us-central1-a/diskTypes/pd-balanced",
			"disks.0.initializeParams.labels.gputrain-run": "p1", "labels.gputrain-run": "p1", "labels.gputrain-managed": "true", "labels.gputrain-node": "3", "disks.0.initializeParams.labels.gputrain-lease": "60",
			"networkInterfaces.0.network": "global/networks/default", "networkInterfaces.0.nicType": "GVNIC", "networkInterfaces.0.subnetwork": nil,
			"networkInterfaces.0.accessConfigs.0.type": "ONE_TO_ONE_NAT", "tags.items.0": "gputrain-p1",
		}},
		"GPU that is added": {spec: t4, want: row{
			"machineType": "zones/us-central1-a/machineTypes/n1-standard-8", "guestAccelerators.0.acceleratorCount": 1.0,
			"scheduling.onHostMaintenance": "TERMINATE", "networkInterfaces.0.nicType": nil,
		}},
		"spot": {spec: gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}, want: row{
			"scheduling.provisioningModel": "SPOT", "scheduling.instanceTerminationAction": "DELETE", "scheduling.onHostMaintenance": "TERMINATE",
			"scheduling.automaticRestart": false, "scheduling.preemptible": nil,
		}},
		"no GPU": {want: row{
			"machineType": "zones/us-central1-a/machineTypes/n1-standard-1", "scheduling.onHostMaintenance": nil,
			"disks.0.initializeParams.sourceImage": plainImage,
		}},
		"TTL": {spec: oneL4, ttl: time.Hour, want: row{
			"scheduling.maxRunDuration.seconds": "4200", "scheduling.instanceTerminationAction": "DELETE",
		}},
		"run duration": {spec: oneL4, ttl: time.Hour, change: func(c *Config) { c.MaxRunDuration = 90 * time.Second }, want: row{
			"scheduling.maxRunDuration.seconds": "90", "scheduling.instanceTerminationAction": "DELETE",
		}},
		"disk below the image's": {spec: gputrain.Spec{Accelerator: accelerators.L4(), DiskGiB: 20}, want: row{"disks.0.initializeParams.diskSizeGb": "50"}},
		"disk of the spec":       {spec: gputrain.Spec{Accelerator: accelerators.L4(), DiskGiB: 333.2}, want: row{"disks.0.initializeParams.diskSizeGb": "334"}},
		"hyperdisk": {change: func(c *Config) { c.MachineType = "c4-standard-2" }, want: row{
			"disks.0.initializeParams.diskType": "zones/us-central1-a/diskTypes/hyperdisk-balanced",
		}},
		"parameters": {spec: oneL4, change: func(c *Config) {
			c.Zone, c.DiskSizeGB, c.DiskType, c.Subnet, c.ServiceAccount, c.PrivateIP = otherZone, 100, "pd-ssd", "inner", "node@p.iam.gserviceaccount.com", true
			c.Image = "projects/mine/global/images/lab-7"
		}, want: row{
			"machineType": "zones/us-central1-b/machineTypes/g2-standard-4", "disks.0.initializeParams.diskSizeGb": "100",
			"disks.0.initializeParams.diskType": "zones/us-central1-b/diskTypes/pd-ssd", "disks.0.initializeParams.sourceImage": "projects/mine/global/images/lab-7",
			"networkInterfaces.0.subnetwork": "regions/us-central1/subnetworks/inner", "networkInterfaces.0.accessConfigs": nil,
			"serviceAccounts.0.email": "node@p.iam.gserviceaccount.com", "serviceAccounts.0.scopes.0": cloudScope,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.noMachines = true
			var change []func(*Config)
			if test.change != nil {
				change = append(change, test.change)
			}
			d := f.open(change...)
			req := request(test.spec, cloudtest.AllOffers(t, d, test.spec.Query())[0], 3)
			if test.ttl > 0 {
				req.Pool.Expires = time.Now().Add(test.ttl)
			}
			if _, err := d.Launch(t.Context(), req); err != nil {
				t.Fatal(err)
			}
			in := f.asked()
			for path, want := range test.want {
				if have := at(in, path); have != want {
					t.Errorf("%s is %v, want %v", path, have, want)
				}
			}
		})
	}
}

// The node's metadata has what its agents need. Without enable-oslogin=FALSE, a
// project's OS Login ignores the key.
func TestMetadata(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open(func(c *Config) { c.SSHUser = "gpu_train" })
	mustLaunch(t, d, oneL4, 0)
	have := map[string]string{}
	for _, item := range at(f.asked(), "metadata.items").([]any) {
		have[text(item.(row)["key"])] = text(item.(row)["value"])
	}
	for key, want := range map[string]string{
		"ssh-keys": "gpu_train:" + cloudtest.PoolKey + " gputrain", "enable-oslogin": "FALSE", "block-project-ssh-keys": "TRUE",
		"enable-guest-attributes": "TRUE", "install-nvidia-driver": "True",
	} {
		if have[key] != want {
			t.Errorf("%s is %q, want %q", key, have[key], want)
		}
	}
	if got, ok := parseTag(have[tagKey]); !ok || got.Owner != "Host.12ab34cd/1/2" || got.Lease != 60 || got.Type != "g2-standard-4" {
		t.Errorf("tag %q", have[tagKey])
	}
}

// A stock-out is read from any error of the finished operation. No other answer reports it.
func TestStockOutIsReadFromTheOperation(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		errors []row
		want   error
		says   string
	}{
		"stock-out":     {[]row{{"code": "ZONE_RESOURCE_POOL_EXHAUSTED", "message": "The zone 'us-central1-a' does not have enough resources."}}, driver.ErrNoCapacity, "does not have enough"},
		"summary first": {[]row{{"code": "VM_MIN_COUNT_NOT_REACHED", "message": "0 of 1"}, {"code": "ZONE_RESOURCE_POOL_EXHAUSTED_WITH_DETAILS", "message": "gone"}}, driver.ErrNoCapacity, "WITH_DETAILS"},
		"by its reason": {[]row{{"code": "SOMETHING_NEW", "message": "sorry", "errorDetails": []row{{"errorInfo": row{"reason": "stockout"}}}}}, driver.ErrNoCapacity, "sorry"},
		"quota": {[]row{{"code": "QUOTA_EXCEEDED", "message": "Quota 'GPUS_ALL_REGIONS' exceeded.", "errorDetails": []row{{"quotaInfo": row{"metricName": "compute.googleapis.com/gpus_all_regions", "limit": 0}}}}},
			driver.ErrQuota, "a new project may have no GPU"},
		"busy":        {[]row{{"code": "CONCURRENT_OPERATIONS_QUOTA_EXCEEDED", "message": "wait"}}, driver.ErrRateLimited, ""},
		"unsupported": {[]row{{"code": "UNSUPPORTED_OPERATION", "message": "not with this machine"}}, driver.ErrUnsupported, ""},
	} {
		for status, told := range map[int]string{503: "told", 0: "not told"} {
			t.Run(name+", status "+told, func(t *testing.T) {
				t.Parallel()
				f := startFake(t)
				f.room, f.stockout, f.slow = 0, test.errors, 3
				d := f.open()
				f.failStatus = status
				got, err := launch(t, d, oneL4, 0)
				is(t, err, test.want, "launch")
				if len(got) != 0 || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%+v, %v", got, err)
				}
				var e *driver.Error
				if errors.As(err, &e); !strings.HasPrefix(e.RequestID, "operation-") {
					t.Errorf("RequestID is %q, want the operation's name", e.RequestID)
				}
				if s := cloudtest.Describe(t, d, testZone+"/p1-0"); s.State != driver.InstanceTerminated {
					t.Errorf("%+v", s)
				}
			})
		}
	}
}

// A repeated insert has the same request ID, and different machines have different ones.
func TestRequestID(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	f.Inject(fakecloud.Fault{Op: opInsert, After: true, Cut: true})
	got, err := launch(t, d, gputrain.Spec{Allocation: driver.SpotIfAvailable}, 0, 1)
	if err != nil || len(got) != 2 || len(f.live()) != 2 {
		t.Fatalf("%+v, %v; there are %v", got, err, f.live())
	}
	ids := map[string]int{}
	for _, r := range f.Records(opInsert) {
		ids[r.Query.Get("requestId")]++
	}
	if len(ids) != 2 || len(f.Records(opInsert)) != 3 {
		t.Errorf("request IDs: %v; want one twice and another once", ids)
	}
}

// If an insert's answer is lost and the repeat is rejected, the first one's machine is adopted.
func TestRefusedAfterAnswerWasLost(t *testing.T) {
	t.Parallel()
	for name, refusal := range map[string]fakecloud.Answer{
		"rate limit":    fakecloud.GoogleError(403, "rateLimitExceeded", "Rate Limit Exceeded"),
		"permission":    fakecloud.GoogleError(403, "forbidden", "Required 'compute.instances.create' permission"),
		"no token then": fakecloud.GoogleError(401, "authError", "Invalid Credentials"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.noMachines = true
			d := f.open()
			f.Inject(fakecloud.Fault{Op: opInsert, After: true, Cut: true})
			f.Inject(fakecloud.Fault{Op: opInsert, Answer: refusal, Times: -1})
			if got, err := launch(t, d, oneL4, 0); err != nil || len(got) != 1 {
				t.Errorf("%+v, %v; there is %v", got, err, f.live())
			}
		})
	}
}

// On demand after spot is a new request, with the same name and token. The answer of
// the old one is that there is no capacity.
func TestOnDemandAfterSpot(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines, f.room = true, 0
	d := f.open()
	both := cloudtest.AllOffers(t, d, driver.Query{Accelerator: accelerators.L4(), Allocation: driver.SpotIfAvailable})
	_, err := d.Launch(t.Context(), request(oneL4, both[0], 0))
	is(t, err, driver.ErrNoCapacity, "launch")
	f.Do(func() { f.room = 1 })
	if got, err := d.Launch(t.Context(), request(oneL4, both[1], 0)); err != nil || len(got) != 1 || got[0].Offer.Spot {
		t.Errorf("%+v, %v", got, err)
	}
}

// An existing instance of the node's name is adopted if it is this node, and left alone if not.
func TestExistingName(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	o := cloudtest.AllOffers(t, d, oneL4.Query())[0]
	first, err := d.Launch(t.Context(), request(oneL4, o, 0))
	if err != nil {
		t.Fatal(err)
	}
	again := request(oneL4, cloudtest.AllOffers(t, d, oneL4.Query())[1], 0) // an offer of a larger machine
	again.Token = "token-2"
	got, err := f.open().Launch(t.Context(), again)
	if err != nil || len(got) != 1 || got[0].ID != first[0].ID || got[0].Offer.InstanceType != "g2-standard-4" || got[0].Offer.HourlyUSD != o.HourlyUSD {
		t.Errorf("%+v, %v; want the machine that is there, as it is", got, err)
	}
	f.Do(func() { f.put(nil, testZone, "p1-7", row{"labels": row{}}) })
	got, err = d.Launch(t.Context(), request(oneL4, o, 7))
	is(t, err, driver.ErrInvalid, "launch")
	if len(got) != 0 {
		t.Errorf("another pool's machine is adopted: %+v", got)
	}
}

// Launch does not wait for ever: Describe reports the result of a slow operation.
func TestSlowOperation(t *testing.T) {
	t.Parallel()
	for name, room := range map[string]int{"made": 1, "stock-out": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.room, f.slow, f.noMachines, f.status = room, 1<<30, true, "STAGING"
			d := f.open()
			got, err := launch(t, d, oneL4, 0)
			if err != nil || len(got) != 1 {
				t.Fatalf("%+v, %v", got, err)
			}
			if s := cloudtest.Describe(t, d, got[0].ID); s.State != driver.InstancePending {
				t.Errorf("while it is being made: %+v", s)
			}
			f.Do(func() {
				for _, op := range f.ops {
					op.polls = 0
				}
			})
			s := cloudtest.Describe(t, d, got[0].ID)
			if room == 1 && s.State != driver.InstancePending || room == 0 && (s.State != driver.InstanceTerminated || !strings.Contains(s.StateReason, "POOL_EXHAUSTED")) {
				t.Errorf("when that is done: %+v", s)
			}
		})
	}
}

// A caller that cancels while Google looks for capacity still learns of the machine.
func TestLaunchGivenUp(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.slow, f.noMachines = 1<<30, true
	d := f.open()
	o := cloudtest.AllOffers(t, d, oneL4.Query())[0]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	polled := f.Inject(fakecloud.Fault{Op: opZoneOp, After: true})
	go func() {
		<-polled.Reached()
		cancel()
	}()
	got, err := d.Launch(ctx, request(oneL4, o, 0))
	if len(got) != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v", got, err)
	}
}

// If the operation may not be read, its machine is still adopted.
func TestOperationMayNotBeRead(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	f.Inject(fakecloud.Fault{Op: opZoneOp, Answer: fakecloud.GoogleError(403, "forbidden", "Required 'compute.zoneOperations.get' permission"), Times: -1})
	if got, err := launch(t, d, oneL4, 0); err != nil || len(got) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
}

// If a zone lacks a type or GPU, the error is ErrNoCapacity, so that other zones are tried.
func TestMachineTypeThatAZoneLacks(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	o := cloudtest.AllOffers(t, d, driver.Query{Accelerator: accelerators.T4()})[0]
	f.Do(func() { f.gpus[testZone] = nil })
	_, err := d.Launch(t.Context(), request(oneL4, o, 0))
	is(t, err, driver.ErrNoCapacity, "launch")
	o = cloudtest.AllOffers(t, d, oneL4.Query())[0]
	f.Do(func() { f.zones[testZone] = nil })
	_, err = d.Launch(t.Context(), request(oneL4, o, 0))
	is(t, err, driver.ErrNoCapacity, "launch")
}

func TestWhatIsTriedAgain(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	d := f.open()
	for _, op := range []string{opTypes, opInsert, opZoneOp, opDelete} {
		f.Inject(fakecloud.Fault{Op: op, Answer: fakecloud.GoogleError(403, "rateLimitExceeded", "Rate Limit Exceeded")})
		f.Inject(fakecloud.Fault{Op: op, Answer: fakecloud.GoogleError(503, "backendError", "Backend Error")})
	}
	f.Inject(fakecloud.Fault{Op: opDelete, Answer: fakecloud.GoogleError(400, "resourceNotReady", "The resource is not ready")})
	got, err := launch(t, d, oneL4, 0)
	if err != nil || len(got) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	if err := d.Terminate(t.Context(), got[0].ID); err != nil || len(f.live()) != 0 {
		t.Errorf("%v; there is %v", err, f.live())
	}
	before := len(f.Records())
	f.Inject(fakecloud.Fault{Op: opInsert, Answer: fakecloud.GoogleError(403, "forbidden", "Required 'compute.instances.create' permission")})
	_, err = launch(t, d, oneL4, 1)
	is(t, err, driver.ErrAuth, "launch")
	if n := len(f.Records(opInsert)); n != 4 {
		t.Errorf("%d inserts of %d calls: what is refused is not tried again", n, len(f.Records())-before)
	}
}

// If an image family was retired, an older one is used: Google retires families at short notice.
func TestImageFamilies(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.noMachines = true
	f.families["deeplearning-platform-release/common-cu128-ubuntu-2204-nvidia-570"] = row{"selfLink": "https://older", "diskSizeGb": "50"}
	delete(f.families, "deeplearning-platform-release/common-cu129-ubuntu-2404-nvidia-580")
	d := f.open()
	for rank := range 2 {
		mustLaunch(t, d, oneL4, rank)
		if image := at(f.asked(), "disks.0.initializeParams.sourceImage"); image != "https://older" {
			t.Errorf("image %v", image)
		}
	}
	if n := len(f.Records(opFamily)); n != 3 {
		t.Errorf("%d look-ups for two nodes; want three for the first, and none for the second", n)
	}
	own := f.open(func(c *Config) { c.Image = "projects/mine/global/images/family/lab" })
	_, err := launch(t, own, oneL4, 5)
	is(t, err, driver.ErrNotFound, "launch")
	arm := f.open(func(c *Config) { c.MachineType = "t2a-standard-1" })
	f.Do(func() {
		f.families["ubuntu-os-cloud/ubuntu-2404-lts-arm64"] = row{"selfLink": "https://arm", "diskSizeGb": "10"}
	})
	mustLaunch(t, arm, gputrain.Spec{}, 6)
	if image := at(f.asked(), "disks.0.initializeParams.sourceImage"); image != "https://arm" {
		t.Errorf("image %v", image)
	}
}

func TestLaunchOfWhatIsNoOffer(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := f.open()
	good := request(oneL4, cloudtest.AllOffers(t, d, oneL4.Query())[0], 0)
	for name, change := range map[string]func(*driver.Launch){
		"offer": func(r *driver.Launch) { r.Offer.ID = "runpod-17" },
		"pool":  func(r *driver.Launch) { r.Pool.ID = "P one" },
		"key": func(r *driver.Launch) {
			r.Pool.AuthorizedKey = cloudtest.PoolKey + "\nroot:" + cloudtest.PoolKey
		},
		"name": func(r *driver.Launch) { r.Nodes[0].Name = "../p1-0" },
	} {
		t.Run(name, func(t *testing.T) {
			req := good
			req.Nodes = []driver.NodeRequest{good.Nodes[0]}
			change(&req)
			_, err := d.Launch(t.Context(), req)
			is(t, err, driver.ErrInvalid, "launch")
		})
	}
	if n := len(f.Records(opInsert)); n != 0 {
		t.Errorf("%d inserts", n)
	}
}
