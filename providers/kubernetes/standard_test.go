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
}

func TestReadme(t *testing.T) { standard.Readme(t) }

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
		{`Contexts has an empty`, Config{Contexts: []string{""}}},
		{`"a" twice`, Config{Contexts: []string{"a", "a"}}},
		{"Namespace", Config{Namespace: "A b"}},
		{"Queue", Config{Queue: "a/b"}},
		{"Image", Config{Image: "a b"}},
		{"PullPolicy", Config{PullPolicy: "Sometimes"}},
		{"PullSecrets", Config{PullSecrets: []string{"A"}}},
		{"GPUResource", Config{GPUResource: "gpu"}},
		{"GPULabel", Config{GPULabel: "a b"}},
		{"GPUNames", Config{GPUNames: map[string]string{"x": "no such GPU"}}},
		{"NodeSelector", Config{NodeSelector: map[string]string{"a": "b c"}}},
		{"Tolerations[0].Operator", Config{Tolerations: []Toleration{{Key: "a", Operator: "Is"}}}},
		{"Tolerations[0].Effect", Config{Tolerations: []Toleration{{Key: "a", Effect: "Go"}}}},
		{"has no Key", Config{Tolerations: []Toleration{{Value: "a"}}}},
		{"has a Value", Config{Tolerations: []Toleration{{Key: "a", Operator: "Exists", Value: "b"}}}},
		{"Affinity: it is not", Config{Affinity: json.RawMessage("[]")}},
		{"no affinity has that", Config{Affinity: json.RawMessage(`{"nodeAffinty": {}}`)}},
		{"its nodeAffinity", Config{Affinity: json.RawMessage(`{"nodeAffinity": 7}`)}},
		{"cannot be read", Config{Affinity: json.RawMessage(`{"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}`)}},
		{"PriorityClass", Config{PriorityClass: "A"}},
		{"RuntimeClass", Config{RuntimeClass: "A"}},
		{"Scheduler", Config{Scheduler: "A"}},
		{"ServiceAccount", Config{ServiceAccount: "A"}},
		{"ShmSizeGiB", Config{ShmSizeGiB: -1}},
		{"EphemeralGiB", Config{EphemeralGiB: math.Inf(1)}},
		{"Volumes[0].Claim", Config{Volumes: []Volume{{Claim: "A", Path: "/a"}}}},
		{"Volumes[0].Path", Config{Volumes: []Volume{{Claim: "a", Path: "/dev/shm"}}}},
		{"Path \"/a\" twice", Config{Volumes: []Volume{{Claim: "a", Path: "/a"}, {Claim: "b", Path: "/a"}}}},
		{"needs Shapes", Config{Autoscaled: true}},
		{"Shapes[0].GPU", Config{Shapes: []Shape{{GPU: "no such GPU", Count: 1}}}},
		{"Shapes[0].Count", Config{Shapes: []Shape{{GPU: "A100"}}}},
		{"amount below zero", Config{Shapes: []Shape{{VCPUs: -1}}}},
		{"Shapes.NodeSelector", Config{Shapes: []Shape{{NodeSelector: map[string]string{"": ""}}}}},
		{"PendingTimeout", Config{PendingTimeout: -1}},
		{`PriceByGPU["A100"]`, Config{PriceByGPU: map[string]float64{"A100": -1}}},
		{"PriceByGPU: ", Config{PriceByGPU: map[string]float64{"x y z": 1}}},
		{"Labels", Config{Labels: map[string]string{"a/b/c": ""}}},
		{"Annotations", Config{Annotations: map[string]string{"": ""}}},
		{"Reach", Config{Reach: "tunnel"}},
		{"RequestTimeout", Config{RequestTimeout: time.Millisecond}},
		{"Namespace|PullPolicy|ShmSizeGiB", Config{Namespace: "A b", PullPolicy: "Sometimes", ShmSizeGiB: -1}},
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
