package kubernetes

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

var standard = cloudtest.Cloud[*fake, Config]{
	Name:    providerName,
	Spec:    gputrain.Spec{Accelerator: accelerators.A100(accelerators.Count(1))},
	Start:   func(t *testing.T) *fake { return startFake(t) },
	Config:  (*fake).config,
	Account: (*fake).account,
	// The credential is in a file.
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.Kubeconfig = filepath.Join("/nonexistent", string(key)) }},
	Secrets:    []string{testToken},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {opNodes}, providertest.OpLaunch: {opMakeJob}, providertest.OpDescribe: {opJobs}, providertest.OpList: {opJobs},
		providertest.OpTerminate: {opDeletePod, opDeleteJob},
	},
	Nothing:    "a Job has all that a node needs: Prepare and Release make no calls",
	Made:       map[string]int{"machine": 2},
	Repeats:    true, // a Job has its name only once
	EndsItself: true,
	NoMeter:    "a cluster bills nothing",
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

// A cluster has no prices: Config has them.
func TestPool(t *testing.T) { standard.Pool(t, cloudtest.Pool[*fake]{Unpriced: true}) }

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Unpriced: true, Faults: []fakecloud.Fault{
		{Op: opNodes, Answer: failure(503, "ServiceUnavailable", "the server is currently unable to handle the request")},
		{Op: opMakeJob, After: true, Cut: true},
		{Op: opMakeJob, Answer: failure(429, "TooManyRequests", "the server has received too many requests")},
		{Op: opJobs, Answer: fakecloud.Garbage()},
		{Op: opJobs, Answer: failure(500, "InternalError", "etcdserver: request timed out")},
		{Op: opDeletePod, After: true, Cut: true},
		{Op: opDeleteJob, Answer: failure(500, "InternalError", "etcdserver: request timed out")},
		{Op: opDeleteJob, After: true, Cut: true},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad(`Contexts has an empty`, Config{Contexts: []string{""}}),
		cloudtest.Bad(`"a" twice`, Config{Contexts: []string{"a", "a"}}),
		cloudtest.Bad("Namespace", Config{Namespace: "A b"}),
		cloudtest.Bad("Queue", Config{Queue: "a/b"}),
		cloudtest.Bad("Image", Config{Image: "a b"}),
		cloudtest.Bad("PullPolicy", Config{PullPolicy: "Sometimes"}),
		cloudtest.Bad("PullSecrets", Config{PullSecrets: []string{"A"}}),
		cloudtest.Bad("GPUResource", Config{GPUResource: "gpu"}),
		cloudtest.Bad("GPULabel", Config{GPULabel: "a b"}),
		cloudtest.Bad("GPUNames", Config{GPUNames: map[string]string{"x": "no such GPU"}}),
		cloudtest.Bad("NodeSelector", Config{NodeSelector: map[string]string{"a": "b c"}}),
		cloudtest.Bad("Tolerations[0].Operator", Config{Tolerations: []Toleration{{Key: "a", Operator: "Is"}}}),
		cloudtest.Bad("Tolerations[0].Effect", Config{Tolerations: []Toleration{{Key: "a", Effect: "Go"}}}),
		cloudtest.Bad("has no Key", Config{Tolerations: []Toleration{{Value: "a"}}}),
		cloudtest.Bad("has a Value", Config{Tolerations: []Toleration{{Key: "a", Operator: "Exists", Value: "b"}}}),
		cloudtest.Bad("Affinity: it is not", Config{Affinity: json.RawMessage("[]")}),
		cloudtest.Bad("no affinity has that", Config{Affinity: json.RawMessage(`{"nodeAffinty": {}}`)}),
		cloudtest.Bad("its nodeAffinity", Config{Affinity: json.RawMessage(`{"nodeAffinity": 7}`)}),
		cloudtest.Bad("cannot be read", Config{Affinity: json.RawMessage(`{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}`)}),
		cloudtest.Bad("PriorityClass", Config{PriorityClass: "A"}),
		cloudtest.Bad("RuntimeClass", Config{RuntimeClass: "A"}),
		cloudtest.Bad("Scheduler", Config{Scheduler: "A"}),
		cloudtest.Bad("ServiceAccount", Config{ServiceAccount: "A"}),
		cloudtest.Bad("ShmSizeGiB", Config{ShmSizeGiB: -1}),
		cloudtest.Bad("EphemeralGiB", Config{EphemeralGiB: math.Inf(1)}),
		cloudtest.Bad("Volumes[0].Claim", Config{Volumes: []Volume{{Claim: "A", Path: "/a"}}}),
		cloudtest.Bad("Volumes[0].Path", Config{Volumes: []Volume{{Claim: "a", Path: "/dev/shm"}}}),
		cloudtest.Bad("Path \"/a\" twice", Config{Volumes: []Volume{{Claim: "a", Path: "/a"}, {Claim: "b", Path: "/a"}}}),
		cloudtest.Bad("needs Shapes", Config{Autoscaled: true}),
		cloudtest.Bad("Shapes[0].GPU", Config{Shapes: []Shape{{GPU: "no such GPU", Count: 1}}}),
		cloudtest.Bad("Shapes[0].Count", Config{Shapes: []Shape{{GPU: "A100"}}}),
		cloudtest.Bad("amount below zero", Config{Shapes: []Shape{{VCPUs: -1}}}),
		cloudtest.Bad("Shapes.NodeSelector", Config{Shapes: []Shape{{NodeSelector: map[string]string{"": ""}}}}),
		cloudtest.Bad("PendingTimeout", Config{PendingTimeout: -1}),
		cloudtest.Bad(`PriceByGPU["A100"]`, Config{PriceByGPU: map[string]float64{"A100": -1}}),
		cloudtest.Bad("PriceByGPU: ", Config{PriceByGPU: map[string]float64{"x y z": 1}}),
		cloudtest.Bad("Labels", Config{Labels: map[string]string{"a/b/c": ""}}),
		cloudtest.Bad("Annotations", Config{Annotations: map[string]string{"": ""}}),
		cloudtest.Bad("Reach", Config{Reach: "tunnel"}),
		cloudtest.Bad("RequestTimeout", Config{RequestTimeout: time.Millisecond}),
		cloudtest.Bad("Namespace|PullPolicy|ShmSizeGiB", Config{Namespace: "A b", PullPolicy: "Sometimes", ShmSizeGiB: -1}),
	})
}

// Each failure of the API is an answer to the making of a Job, and to a list.
func TestErrors(t *testing.T) {
	var all []cloudtest.Refusal
	for _, tt := range []struct {
		code          int
		reason, words string
		kind          error
		hint          string
	}{
		{401, "Unauthorized", "Unauthorized", driver.ErrAuth, "log in"},
		{403, "Forbidden", `jobs.batch is forbidden: User "me" cannot create resource "jobs"`, driver.ErrAuth, "role.yaml"},
		{403, "Forbidden", "jobs.batch \"x\" is forbidden: exceeded quota: jobs, requested: count/jobs.batch=1, used: 9, limited: 9", driver.ErrQuota, "larger quota"},
		{403, "Forbidden", "pods \"x\" is forbidden: failed quota: q: must specify limits.memory", driver.ErrInvalid, "Spec.MemoryGiB"},
		{403, "Forbidden", `pods "x" is forbidden: violates PodSecurity "restricted:latest"`, driver.ErrInvalid, "Unprivileged"},
		{403, "Forbidden", `admission webhook "policy" denied the request: no latest tag`, driver.ErrInvalid, "Image"},
		{403, "Forbidden", "unable to create new content in namespace lab because it is being terminated", driver.ErrInvalid, "is being deleted"},
		{404, "NotFound", `namespaces "lab" not found`, driver.ErrInvalid, "set Namespace"},
		{400, "BadRequest", "strict decoding error: unknown field \"spec.x\"", driver.ErrInvalid, "names the field"},
		{422, "Invalid", "Job.batch \"x\" is invalid: spec.template", driver.ErrInvalid, "names the field"},
		{429, "TooManyRequests", "the server has received too many requests", driver.ErrRateLimited, ""},
		{500, "InternalError", "etcdserver: request timed out", driver.ErrUnavailable, ""},
		{500, "InternalError", `failed calling webhook "policy": connection refused`, driver.ErrUnavailable, "webhook of the cluster does not answer"},
		{503, "ServiceUnavailable", "the server is currently unable to handle the request", driver.ErrUnavailable, ""},
		{504, "Timeout", "the server was unable to return a response in the time allotted", driver.ErrUnavailable, ""},
	} {
		answer := failure(tt.code, tt.reason, tt.words)
		list := cloudtest.Refusal{Name: fmt.Sprintf("list, %d %s", tt.code, tt.words), Op: opJobs, Answer: answer, Want: tt.kind, Says: tt.hint}
		launch := list
		launch.Op, launch.Name = opMakeJob, fmt.Sprintf("launch, %d %s", tt.code, tt.words)
		if tt.code >= 500 { // another hint: it may have been made
			launch.Says = ""
		}
		all = append(all, list, launch)
	}
	standard.Errors(t, all)
}
