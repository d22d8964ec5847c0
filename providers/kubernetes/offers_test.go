package kubernetes

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

// told returns the offers as texts.
func told(t *testing.T, c Config, spec gputrain.Spec) []string {
	t.Helper()
	var all []string
	for _, o := range cloudtest.AllOffers(t, cloudtest.Open(t, c), spec.Query()) {
		text := fmt.Sprintf("%s %s %v %d %v", o.InstanceType, o.Region, o.Accelerator, o.Available, o.HourlyUSD)
		if o.Spot {
			text += " spot"
		}
		if o.Rejected != "" {
			text += " rejected: " + o.Rejected
		}
		for _, w := range o.Warnings {
			text += " (" + w + ")"
		}
		all = append(all, text)
	}
	return all
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// emptyFake is a fake without cluster nodes.
func emptyFake(t *testing.T) *fake {
	f := startFake(t)
	f.Do(func() { clear(f.nodes) })
	return f
}

const waits = "(has no room now: a node waits for up to 5m0s (Config.PendingTimeout))"

func TestOffersByRoom(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	two := gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(2))}
	expect(t, told(t, f.config(), oneA100), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM 4 $0.00")
	expect(t, told(t, f.config(), two), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM:2 2 $0.00")
	f.Do(func() { f.addPods(2, "") }) // both on n1
	expect(t, told(t, f.config(), oneA100), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM 2 $0.00")
	f.Do(func() { f.addPods(1, "") })
	expect(t, told(t, f.config(), oneA100), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM 1 $0.00")
	expect(t, told(t, f.config(), two), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM:2 0 $0.00 "+waits)
	expect(t, told(t, f.config(), gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(3))}))
	expect(t, told(t, f.config(), gputrain.Spec{Accelerator: accelerators.H100()}))
	expect(t, told(t, f.config(), gputrain.Spec{}), "NVIDIA-A100-SXM4-80GB team cpu 130 $0.00") // 13 free CPUs, by a tenth
	expect(t, told(t, f.config(), gputrain.Spec{VCPUs: 4}), "NVIDIA-A100-SXM4-80GB team cpu 2 $0.00")
	expect(t, told(t, f.config(), gputrain.Spec{VCPUs: 8}), "NVIDIA-A100-SXM4-80GB team cpu 0 $0.00 "+waits)
	if n := len(f.Records(opMakeJob)); n > 0 {
		t.Errorf("%d Jobs were made", n)
	}
}

// Every vendor's labels, and cluster nodes that no pod may use.
func TestOffersByLabels(t *testing.T) {
	t.Parallel()
	f := emptyFake(t)
	any := gputrain.Spec{Accelerator: accelerators.Any(accelerators.CountBetween(1, 1))}
	label := func(name string, labels ...string) *node {
		all := map[string]string{}
		for i := 0; i < len(labels); i += 2 {
			all[labels[i]] = labels[i+1]
		}
		return f.addNode(name, 1, all)
	}
	label("a", "cloud.google.com/gke-accelerator", "nvidia-h100-80gb", "cloud.google.com/gke-spot", "true", "node.kubernetes.io/instance-type", "a3-highgpu-1g", "topology.kubernetes.io/region", "us-central1")
	label("b", "karpenter.k8s.aws/instance-gpu-name", "l40s", "karpenter.k8s.aws/instance-gpu-memory", "49152", "karpenter.sh/capacity-type", "on-demand")
	label("c", "gpu.nvidia.com/model", "RTX_A6000")
	label("d", "amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM")
	label("e", "beta.amd.com/gpu.device-id.74b5", "1")
	label("f", "nvidia.com/gpu.product", "Tesla-T4-SHARED", "nvidia.com/gpu.sharing-strategy", "time-slicing")
	label("g")
	label("h", "nvidia.com/gpu.product", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb")
	label("i", "nvidia.com/gpu.product", "Tesla-V100-SXM2-16GB").Spec.Unschedulable = true
	label("j", "nvidia.com/gpu.product", "Tesla-V100-SXM2-16GB").Status.Conditions = []condition{{Type: "Ready", Status: "False"}}
	label("k", "nvidia.com/gpu.product", "Tesla-V100-SXM2-16GB").Spec.Taints = []taint{{"team", "other", "NoSchedule"}}
	label("l", "nvidia.com/gpu.product", "NVIDIA-L4").Spec.Taints = []taint{{"nvidia.com/gpu", "present", "NoSchedule"}, {"note", "", "PreferNoSchedule"}}
	expect(t, told(t, f.config(), any),
		"a3-highgpu-1g team-us-central1 H100-80GB 1 $0.00 spot",
		"l40s team L40S-48GB 1 $0.00",
		"RTX_A6000 team A6000 1 $0.00",
		"AMD_Instinct_MI300X_OAM team MI300X-OAM 1 $0.00",
		"1 team MI300X 1 $0.00",
		"NVIDIA-L4 team L4 1 $0.00",
		"Tesla-T4-SHARED team cpu 0 $0.00 rejected: its GPUs are shared by time-slicing; GPUNames can offer them nevertheless",
		`node team cpu 0 $0.00 rejected: no label names its GPU; set GPULabel, or GPUNames[""]`,
	)
	c := f.config()
	c.GPUNames = map[string]string{"": "RTX4090", "Tesla-T4-SHARED": "T4"}
	c.Tolerations = []Toleration{{Key: "team", Operator: "Exists"}}
	got := told(t, c, any)
	for _, want := range []string{"node team RTX4090 1 $0.00", "Tesla-T4-SHARED team T4 1 $0.00", "Tesla-V100-SXM2-16GB team V100-16GB-SXM 1 $0.00"} {
		if !slices.Contains(got, want) {
			t.Errorf("%q lacks %q", got, want)
		}
	}
	c.NodeSelector = map[string]string{"kubernetes.io/hostname": "k"}
	expect(t, told(t, c, any), "Tesla-V100-SXM2-16GB team V100-16GB-SXM 1 $0.00")
	c.NodeSelector, c.GPULabel, c.GPUNames = nil, "kubernetes.io/hostname", map[string]string{"c": "H200"}
	if got := told(t, c, gputrain.Spec{Accelerator: accelerators.H200()}); len(got) == 0 || got[0] != "c team H200 1 $0.00" {
		t.Errorf("%q", got)
	}
}

// A program that may not see nodes has the configured shapes, and one that may not see pods does not
// know the room.
func TestOffersWithoutRights(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	c := f.config()
	c.Shapes = []Shape{{GPU: "H100", Count: 8, Spot: true, HourlyUSD: 16, NodeSelector: map[string]string{"size": "8"}}, {VCPUs: 4}}
	c.PriceByGPU = map[string]float64{"A100": 2, "A100-80GB": 3}
	expect(t, told(t, c, oneA100), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM 4 $3.00 (the price is that of the Config; what the cluster's owner pays depends on its machines)")
	f.Do(func() { f.rules[len(f.rules)-1].Verbs = nil })
	f.without("list", "nodes")
	const missing = "(is offered as Config.Shapes has it: the right to list nodes is missing)"
	const price = " (the price is that of the Config; what the cluster's owner pays depends on its machines)"
	expect(t, told(t, c, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(2))}), "shape-0 team H100:2 0 $4.00 spot "+missing+price)
	expect(t, told(t, c, gputrain.Spec{}), "shape-0 team cpu 0 $16.00 spot "+missing+price, "shape-1 team cpu 0 unknown "+missing+price)
	c.Shapes = nil
	_, err := first(t, cloudtest.Open(t, c), driver.Query{})
	cloudtest.Is(t, err, driver.ErrAuth, providerName, "offers", testToken)
}

func first(t *testing.T, d driver.Driver, q driver.Query) (driver.Offer, error) {
	for o, err := range d.Offers(t.Context(), q) {
		return o, err
	}
	return driver.Offer{}, nil
}

// What other pods use is not known without the right to list them.
func TestOffersWithoutPods(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.Inject(fakecloud.Fault{Op: opAllPods, Times: -1, Answer: forbidden(right{"", "pods", "list"})})
	expect(t, told(t, f.config(), oneA100), "NVIDIA-A100-SXM4-80GB team A100-80GB-SXM 0 $0.00 (what other pods use is not known: the right to list pods is missing)")
}

// With an autoscaler and a queue offers say what to expect.
func TestOffersThatGrow(t *testing.T) {
	t.Parallel()
	f := emptyFake(t)
	c := f.config()
	c.Autoscaled, c.Shapes, c.Queue, c.Istio = true, []Shape{{GPU: "L4", Count: 1, MemoryGiB: 16, VCPUs: 4}}, "research", true
	got := told(t, c, gputrain.Spec{Accelerator: accelerators.L4()})
	if len(got) != 1 || !strings.Contains(got[0], "the autoscaler makes a machine for it") || !strings.Contains(got[0], "Kueue's queue research decides") ||
		!strings.Contains(got[0], "up to 30m0s") || !strings.Contains(got[0], "Istio") {
		t.Errorf("%q", got)
	}
}

// A launch leads to all cluster nodes that have the offer's GPU, to none of spot for one on demand,
// and never to one by its name.
func TestPlaces(t *testing.T) {
	t.Parallel()
	f := emptyFake(t)
	f.addNode("a", 1, map[string]string{"nvidia.com/gpu.product": "NVIDIA-L4"})
	f.addNode("b", 1, map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4"})
	f.addNode("c", 1, map[string]string{"cloud.google.com/gke-accelerator": "nvidia-l4", "cloud.google.com/gke-spot": "true"})
	c := f.config()
	c.Affinity = full(f).Affinity
	d := cloudtest.Prepared(t, c).(*kubernetesDriver)
	want := map[bool]string{
		false: `[[{rack Exists []} {kubernetes.io/arch In [amd64]} {cloud.google.com/gke-spot NotIn [true]} {nvidia.com/gpu.product In [NVIDIA-L4]}]` +
			` [{rack Exists []} {kubernetes.io/arch In [amd64]} {cloud.google.com/gke-spot NotIn [true]} {cloud.google.com/gke-accelerator In [nvidia-l4]}]]`,
		true: `[[{rack Exists []} {kubernetes.io/arch In [amd64]} {cloud.google.com/gke-spot In [true]} {cloud.google.com/gke-accelerator In [nvidia-l4]}]]`,
	}
	for _, n := range f.nodes {
		n.Metadata.Labels["rack"] = "7"
	}
	q := gputrain.Spec{Accelerator: accelerators.L4()}.Query()
	offers := cloudtest.Offers(t, d, q)
	if len(offers) != 2 {
		t.Fatalf("%+v", offers)
	}
	for _, o := range offers {
		at, err := d.api.offers.placeOf(t.Context(), o, q)
		if err != nil {
			t.Fatal(err)
		}
		text, err := d.api.cfg.affinity(at)
		if err != nil {
			t.Fatal(err)
		}
		a, err := parseAffinity(text)
		if err != nil {
			t.Fatal(err)
		}
		var terms [][]expression
		for _, term := range a.terms {
			terms = append(terms, term.MatchExpressions)
		}
		if got := fmt.Sprint(terms); got != want[o.Spot] {
			t.Errorf("spot %v:\n%s\nwant\n%s", o.Spot, got, want[o.Spot])
		}
	}
	o := offers[0]
	o.ID = "what was there yesterday"
	_, err := d.Launch(t.Context(), cloudtest.Request(t, q, o, 0))
	cloudtest.Is(t, err, driver.ErrNotFound, providerName, "launch")
}

// Expressions compare labels as the scheduler does.
func TestExpressions(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"a": "1", "n": "7"}
	for _, tt := range []struct {
		e    expression
		want bool
	}{
		{expression{"a", "In", []string{"0", "1"}}, true}, {expression{"b", "In", []string{""}}, false},
		{expression{"a", "NotIn", []string{"1"}}, false}, {expression{"b", "NotIn", []string{"1"}}, true},
		{expression{"a", "Exists", nil}, true}, {expression{"b", "Exists", nil}, false},
		{expression{"a", "DoesNotExist", nil}, false}, {expression{"b", "DoesNotExist", nil}, true},
		{expression{"n", "Gt", []string{"6"}}, true}, {expression{"n", "Lt", []string{"6"}}, false},
		{expression{"n", "Gt", nil}, false}, {expression{"b", "Lt", []string{"6"}}, false}, {expression{"a", "Like", []string{"1"}}, false},
	} {
		if got := tt.e.fits(labels); got != tt.want {
			t.Errorf("%+v: %v", tt.e, got)
		}
	}
}

// What a pod takes is the sum of its containers, or the greatest that runs before them.
func TestRequests(t *testing.T) {
	t.Parallel()
	c := Config{}.complete()
	cpu := func(text, restart string) container {
		return container{RestartPolicy: restart, Resources: resources{Requests: map[string]string{"cpu": text, "memory": "1Gi", nvidiaResource: "1"}}}
	}
	p := pod{Spec: podSpec{Containers: []container{cpu("500m", ""), cpu("1", "")}, InitContainers: []container{cpu("4", ""), cpu("250m", "Always")}}}
	if got := c.requestsOf(p); got != (amounts{vcpus: 4, memoryGiB: 3, gpus: 3}) {
		t.Errorf("%+v", got)
	}
}
