package kubernetes

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// faultOn has all calls of an operation fail.
func faultOn(op string, code int) fakecloud.Fault {
	return fakecloud.Fault{Op: op, Times: -1, Answer: failure(code, "InternalError", "it fails")}
}

// full is a configuration with every field that a pod has.
func full(f *fake) Config {
	c := f.config()
	c.Image, c.PullSecrets, c.PullPolicy = "registry.lab/train:7", []string{"registry"}, "IfNotPresent"
	c.NodeSelector = map[string]string{"pool": "training"}
	c.Tolerations = []Toleration{{Key: "team", Value: "vision", Effect: "NoSchedule"}, {Operator: "Exists", Effect: "NoExecute"}}
	c.Affinity = json.RawMessage(`{"podAntiAffinity": {}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "rack", "operator": "Exists"}]}]}}}`)
	c.PriorityClass, c.RuntimeClass, c.Scheduler, c.ServiceAccount = "high", "nvidia", "gpu-scheduler", "trainer"
	c.ShmSizeGiB, c.EphemeralGiB = 3, 50
	c.Volumes = []Volume{{Claim: "datasets", Path: "/data", ReadOnly: true}}
	c.Labels = map[string]string{"team": "vision", keyPool: "not-ours"}
	c.Annotations = map[string]string{"note": "a b/c", keyOwner: "not-ours"}
	return c
}

func order(spec gputrain.Spec, device accelerators.Accelerator) cloud.Order {
	pool := cloudtest.Info("p1")
	pool.Tags, pool.Expires = map[string]string{"cost-center": "4711"}, noon.Add(time.Hour)
	node := driver.NodeRequest{Rank: 3, Name: "p1-3", HostKey: driver.HostKey{Private: "PRIVATE", Public: cloudtest.PoolKey + " p1-3"}}
	return cloud.Order{Pool: pool, Node: node, Spec: spec.Query(), Offer: driver.Offer{Accelerator: device, Spot: true}, Tag: pooltag.OfNode(pool, node, noon)}
}

// golden compares a text with a file of testdata/golden. It writes a missing file, and fails.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", "golden", name)
	want, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		err = errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, got, 0o644))
	}
	if err != nil || string(got) != string(want) {
		t.Errorf("%s differs (%v):\n%s", file, err, got)
	}
}

// The Jobs and Secrets of other versions are found by these bytes: see testdata/golden.
func TestGolden(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	spec := gputrain.Spec{VCPUs: 4, MemoryGiB: 16, DiskGiB: 20, Mounts: []gputrain.Mount{{Source: "pvc:results", Target: "/results"}, {Source: "pvc:datasets", Target: "/again"}}}
	at := place{terms: []term{{MatchExpressions: []expression{{"nvidia.com/gpu.product", "In", []string{"NVIDIA-A100-SXM4-80GB"}}}}}, selector: map[string]string{"size": "large"}}
	plain, unprivileged := f.config(), f.config()
	unprivileged.Unprivileged, unprivileged.Queue, unprivileged.Istio = true, "research", true
	for name, c := range map[string]Config{"plain": plain, "full": full(f), "unprivileged": unprivileged} {
		made := recipe{c.complete()}
		o := order(spec, accelerators.A100(accelerators.Count(2)))
		if name == "plain" {
			o = order(gputrain.Spec{}, accelerators.Accelerator{})
			o.Offer.Spot, o.Pool.Tags = false, nil
		}
		j, err := made.jobOf(o, at, noon)
		if err != nil {
			t.Fatal(err)
		}
		s := made.secretOf(o, "the-uid")
		keys := slices.Sorted(maps.Keys(s.Data))
		s.Data = nil
		got, err := json.MarshalIndent(map[string]any{"job": j, "secret": s, "keys": keys}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", got)
		if text := string(got); strings.Contains(text, "PRIVATE") || strings.Contains(text, "not-ours") {
			t.Errorf("%s has a key, or what is not ours: %s", name, text)
		}
	}
}

// A Job of the same name is adopted if it was made for this node, and else left alone.
func TestConflict(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := launched(t, f, f.config())
	req := cloudtest.Request(t, oneA100.Query(), cloudtest.AllOffers(t, d, oneA100.Query())[0], 0)
	_, err := d.Launch(t.Context(), req) // of another host key
	cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch", testToken)
	if n := len(f.account()); n != 1 {
		t.Errorf("there are %d Jobs", n)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceRunning {
		t.Errorf("the first is %v", now.State)
	}
	req.Nodes[0].Name, req.Nodes[0].Rank = "p1-1", 1
	for range 2 { // as after an answer that was lost
		if got, err := d.Launch(t.Context(), req); err != nil || len(got) != 1 || got[0].ID != "p1-1" {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if n := len(f.account()); n != 2 {
		t.Errorf("there are %d Jobs", n)
	}
}

// A Job whose Secret cannot be made is removed.
func TestNoSecret(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	all := cloudtest.AllOffers(t, d, oneA100.Query())
	f.without("create", "secrets")
	got, err := d.Launch(t.Context(), cloudtest.Request(t, oneA100.Query(), all[0], 0))
	cloudtest.Is(t, err, driver.ErrAuth, providerName, "launch", testToken)
	if left := f.account(); len(left) > 0 || len(got) > 0 {
		t.Errorf("%v and %v are left", left, got)
	}
}

// Mounts and tags that a pod cannot have are refused before anything is made.
func TestRefusedBefore(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	o := cloudtest.AllOffers(t, d, oneA100.Query())[0]
	for _, m := range []gputrain.Mount{{Source: "/data", Target: "/data"}, {Source: "pvc:Data", Target: "/data"}, {Source: "pvc:data", Target: "data"}, {Source: "pvc:data", Target: "/run/gputrain"}} {
		spec := oneA100
		spec.Mounts = []gputrain.Mount{m}
		_, err := d.Launch(t.Context(), cloudtest.Request(t, spec.Query(), o, 0))
		cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch")
	}
	for key, value := range map[string]string{"a b": "c", "team": "a/b", keyPool: "p2", keyMade: "me", "": "x", "team2": strings.Repeat("x", 64)} {
		info := cloudtest.Info("p1")
		info.Tags = map[string]string{key: value}
		cloudtest.Is(t, d.Prepare(t.Context(), info), driver.ErrInvalid, providerName, "prepare")
		req := cloudtest.Request(t, oneA100.Query(), o, 0)
		req.Pool.Tags = info.Tags
		_, err := d.Launch(t.Context(), req)
		cloudtest.Is(t, err, driver.ErrInvalid, providerName, "launch")
	}
	if left := f.account(); len(left) > 0 {
		t.Errorf("%v was made", left)
	}
}

// A Job without a TTL has a deadline nevertheless, and one never has less than a second.
func TestDeadlines(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		ttl     time.Duration
		expires time.Duration
		want    int64
	}{{0, 0, 30 * 24 * 3600}, {time.Hour, 0, 3600}, {time.Hour, 90 * time.Minute, 5400}, {0, 500 * time.Millisecond, 1}, {0, -time.Hour, 1}} {
		o := order(gputrain.Spec{TTL: tt.ttl}, accelerators.Accelerator{})
		o.Pool.Expires = time.Time{}
		if tt.expires != 0 {
			o.Pool.Expires = noon.Add(tt.expires)
		}
		if got := deadline(o, noon); got != tt.want {
			t.Errorf("%+v: %d", tt, got)
		}
	}
}

// A copy of the configuration shares nothing with the caller's.
func TestCompleteCopies(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	c := full(f)
	c.GPUNames, c.PriceByGPU, c.Contexts = map[string]string{"x": "A100"}, map[string]float64{"A100": 1}, []string{"team"}
	c.Shapes = []Shape{{GPU: "T4", Count: 1, NodeSelector: map[string]string{"a": "b"}}}
	done := c.complete()
	v := reflect.ValueOf(done)
	for i := range v.NumField() {
		of := reflect.ValueOf(c).Field(i)
		if k := of.Kind(); (k == reflect.Map || k == reflect.Slice) && of.Len() > 0 && of.Pointer() == v.Field(i).Pointer() {
			t.Errorf("%s is shared", v.Type().Field(i).Name)
		}
	}
	if done.Shapes[0].NodeSelector["a"] = "c"; c.Shapes[0].NodeSelector["a"] != "b" {
		t.Error("Shapes.NodeSelector is shared")
	}
	if _, err := os.Stat(c.Kubeconfig); err != nil {
		t.Error(err)
	}
}
