//go:build unix

package runpod

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

var oneH100 = gputrain.Spec{Accelerator: accelerators.H100()}

var standard = cloudtest.Cloud[*fake, Config]{
	Name:       providerName,
	Spec:       oneH100,
	Start:      startFake,
	Still:      func(f *fake) { f.noMachines = true },
	Config:     (*fake).config,
	Account:    (*fake).account,
	Client:     func(c *Config, client *http.Client) { c.HTTPClient = client },
	Credential: cloudtest.Credential[Config]{Set: func(c *Config, key driver.Secret) { c.APIKey = key }, Name: keyVariable},
	Secrets:    []string{testKey},
	Ops: map[providertest.Op][]string{
		providertest.OpOffers: {"GET /v2/catalog/gpus", "GET /v2/catalog/cpus", "gpuTypes"}, providertest.OpPrepare: {"GET /v2/registries"},
		providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opPod, opPods}, providertest.OpList: {opPods}, providertest.OpTerminate: {opDelete},
	},
	Nothing:    "Prepare makes nothing, and so Release makes no call",
	Alone:      true,
	Made:       map[string]int{"machine": 2},
	EndsItself: true,
	// By the second; a disk of 0.10 USD a GB and month (fact sheet, section 7).
	Tariff: fakecloud.Tariff{Free: []string{"EXITED", "TERMINATED"}},
	Meters: (*fake).meters,
}

// made returns the standard set for machines that are made by one of the API's calls.
func made(create string, spec gputrain.Spec, change func(*Config)) cloudtest.Cloud[*fake, Config] {
	c := standard.With(spec, change)
	c.Ops = maps.Clone(c.Ops)
	c.Ops[providertest.OpLaunch] = []string{create}
	return c
}

func TestReadme(t *testing.T) { standard.Readme(t) }

func TestOddRows(t *testing.T) { standard.OddRows(t) }

func TestUnseen(t *testing.T) { standard.Unseen(t, opPods, opPod) }

func TestUnseenPool(t *testing.T) { standard.UnseenPool(t, opPods, opPod) }

func TestGolden(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // where runpodctl would have left a key
	standard.Golden(t,
		cloudtest.Written[Config]{File: "runpod", Query: oneH100.Query()},
		cloudtest.Written[Config]{File: "runpod-graphql", Query: oneH100.Query(), Change: abroad},
		cloudtest.Written[Config]{File: "runpod-cluster", Query: clusterSpec.Query(), Change: func(c *Config) { c.ClusterMode = Instant }, Together: true})
}

// abroad has machines of hosts in two countries, which only GraphQL rents.
func abroad(c *Config) { c.Cloud, c.CountryCodes = Community, []string{"US", "FR"} }

func TestStrangers(t *testing.T) { standard.Strangers(t) }

func TestDetach(t *testing.T) { standard.Detach(t) }

func TestKey(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	standard.Key(t)
}

func TestPool(t *testing.T) {
	standard.With(gputrain.Spec{TTL: time.Hour}, nil).Pool(t, cloudtest.Pool[*fake]{Open: func(t *testing.T, f *fake, pool *gputrain.Compute) {
		if live := f.live(); len(live) != 2 || !strings.HasPrefix(live[0], "gputrain-"+pool.ID()+"-") {
			t.Errorf("%v", live)
		}
	}})
}

func TestPoolUnderFaults(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{Faults: []fakecloud.Fault{
		{Op: "gpuTypes", Answer: fakecloud.Failure(503, "", "")},
		{Op: "GET /v2/catalog/gpus", Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: problemAnswer(400, noCapacity)},
		{Op: opPods, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opPods, Answer: fakecloud.Failure(500, "", "")},
		{Op: opPod, Answer: fakecloud.Garbage()},
		{Op: opDelete, Answer: fakecloud.Failure(429, "", "")},
		{Op: opDelete, After: true, Cut: true},
	}})
}

func TestConfigFaults(t *testing.T) {
	standard.ConfigFaults(t, []cloudtest.BadConfig[Config]{
		cloudtest.Bad("Cloud is", Config{Cloud: "private"}),
		cloudtest.Bad("ClusterMode is \"x\"", Config{ClusterMode: "x"}),
		cloudtest.Bad("GlobalNetworking is", Config{GlobalNetworking: 7}),
		cloudtest.Bad("like US-TX-3", Config{DataCenterIDs: []string{"texas"}}),
		cloudtest.Bad("capital letters", Config{CountryCodes: []string{"fr"}}),
		cloudtest.Bad("has its country", Config{CountryCodes: []string{"FR"}, DataCenterIDs: []string{"US-TX-3"}}),
		cloudtest.Bad("cannot be negative", Config{MinDownloadMbps: -1}),
		cloudtest.Bad("not an image name", Config{Image: "a b"}),
		cloudtest.Bad("Ubuntu is", Config{Ubuntu: "18.04"}),
		cloudtest.Bad("MinCUDAVersion", Config{MinCUDAVersion: "12"}),
		cloudtest.Bad("ContainerDiskGB", Config{ContainerDiskGB: -1}),
		cloudtest.Bad("the minimum is 10", Config{VolumeGB: 9}),
		cloudtest.Bad("is not absolute", Config{VolumeMountPath: "data"}),
		cloudtest.Bad("like 8888/http", Config{Ports: []string{"22"}}),
		cloudtest.Bad("like 3c", Config{CPUClock: "fast"}),
		cloudtest.Bad("BidMultiplier is", Config{BidMultiplier: 0.5}),
		cloudtest.Bad("timeout is negative", Config{RequestTimeout: -1}),
		cloudtest.Bad("is instant, which", Config{ClusterMode: Instant, Cloud: Community}),
		cloudtest.Bad("is on, which", Config{GlobalNetworking: NetworkingOn, TerminateAfter: true}),
		cloudtest.Bad("Endpoint is not like", Config{Endpoint: "ftp://x"}),
		cloudtest.Bad("PodEndpoint is not", Config{PodEndpoint: "https://user:s3cret@x"}),
		cloudtest.Bad("Cloud is|Ubuntu is|BidMultiplier is", Config{Cloud: "private", Ubuntu: "18.04", BidMultiplier: 0.5}),
	})
}

// The table has each error that the API documents.
func TestErrors(t *testing.T) {
	standard.Errors(t, []cloudtest.Refusal{
		refused(opCreate, 400, problemText(noCapacity), driver.ErrNoCapacity, "no longer any instances"),
		refused(opCreate, 500, problemText(noCapacity), driver.ErrNoCapacity, ""),
		refused(opCreate, 400, problemText("There are no longer any instances available with enough disk space."), driver.ErrNoCapacity, ""),
		refused(opCreate, 400, problemText("this machine does not have the resources to deploy this pod"), driver.ErrNoCapacity, ""),
		refused(opCreate, 400, problemText("There are not enough free GPUs on the host machine to start this pod."), driver.ErrNoCapacity, ""),
		refused(opCreate, 400, problemText("gpu.count is above the maximum"), driver.ErrUnsupported, "above the maximum"),
		refused(opCreate, 400, problemText("Something went wrong. Please try again later or contact support."), driver.ErrUnavailable, "it may have taken effect"),
		refused(opCreate, 401, problemText("missing bearer token"), driver.ErrAuth, "API Keys"),
		refused(opCreate, 402, problemText(funds), driver.ErrBalance, "Billing"),
		refused(opCreate, 402, problemText("payment required"), driver.ErrBalance, "Billing"),
		refused(opCreate, 403, problemText("access denied"), driver.ErrQuota, "closed to the account"),
		refused(opCreate, 404, problemText("resource not found"), driver.ErrNotFound, ""),
		refused(opCreate, 410, problemText("gone"), driver.ErrUnsupported, "newer gputrain"),
		refused(opCreate, 413, problemText("too large"), driver.ErrInvalid, ""),
		refused(opCreate, 422, `{"title":"Unprocessable","status":422,"detail":"","errors":["$: additional properties 'X' not allowed"]}`, driver.ErrInvalid, "'X' not allowed"),
		refused(opPods, 400, problemText("include needs product"), driver.ErrInvalid, ""),
		refused(opPods, 403, problemText("access denied"), driver.ErrAuth, ""),
	})
}

func TestErrorsOfSpot(t *testing.T) {
	spot := oneH100
	spot.Allocation = driver.Spot
	made(opSpot, spot, nil).Errors(t, []cloudtest.Refusal{
		refused(opSpot, 200, graphQLText("SUPPLY_CONSTRAINT", "There are no longer any instances available with the request specifications. Please try again later."), driver.ErrNoCapacity, ""),
		refused(opSpot, 200, graphQLText("SUPPLY_CONSTRAINT", "none"), driver.ErrNoCapacity, ""),
		refused(opSpot, 200, graphQLText("INTERNAL_SERVER_ERROR", noCapacity), driver.ErrNoCapacity, ""),
		refused(opSpot, 200, graphQLText("INSUFFICIENT_BALANCE", funds), driver.ErrBalance, "Billing"),
		refused(opSpot, 200, graphQLText("INTERNAL_SERVER_ERROR", "oops"), driver.ErrUnavailable, "oops"),
		refused(opSpot, 200, graphQLText("", "Something went wrong. Please try again later or contact support."), driver.ErrUnavailable, ""),
		refused(opSpot, 400, graphQLText("GRAPHQL_VALIDATION_FAILED", "Variable"), driver.ErrUnsupported, ""),
		refused(opSpot, 401, "", driver.ErrAuth, ""),
		refused(opSpot, 410, "", driver.ErrUnsupported, "spot"),
		refused(opSpot, 200, `{"data":{"podRentInterruptable":null}}`, driver.ErrUnavailable, "no pod"),
		refused(opSpot, 200, `{"data":{}}`, driver.ErrUnavailable, ""),
	})
}

const funds = "Your account balance is too low to rent a pod. Please add funds to your account."

func refused(op string, status int, body string, want error, says string) cloudtest.Refusal {
	return cloudtest.Refusal{Op: op, Answer: faultAnswer(op, 1, status, body).Answer, Want: want, Says: says}
}

func problemText(text string) string { return `{"title":"Error","status":0,"detail":"` + text + `"}` }

func graphQLText(code, text string) string {
	return `{"errors":[{"message":"` + text + `","extensions":{"code":"` + code + `"}}],"data":null}`
}
