//go:build unix

package runpod

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
)

// Pods pass the suite, by each way to create them. An instant cluster has its own
// tests: it has at least two nodes, which end together.
func TestConformance(t *testing.T) {
	h100 := gputrain.Spec{Accelerator: accelerators.H100()}
	spot := h100
	spot.Allocation = driver.Spot
	for i, tt := range []struct {
		name, create string
		config       Config
		spec         gputrain.Spec
	}{
		{"on demand", opCreate, Config{}, h100},
		{"on demand in a data centre", opCreate, Config{DataCenterIDs: []string{"US-TX-3"}}, h100},
		{"spot", opSpot, Config{}, spot},
		{"on demand by GraphQL", opRent, Config{Cloud: Community, CountryCodes: []string{"US", "FR"}}, h100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if i > 0 {
				cloudtest.Variant(t)
			}
			providertest.RunParallel(t, func(t *testing.T) providertest.Harness { return conformance(t, tt.create, tt.config, tt.spec) })
		})
	}
}

func conformance(t *testing.T, create string, cfg Config, spec gputrain.Spec) providertest.Harness {
	f := startFake(t)
	t.Setenv("HOME", t.TempDir()) // where runpodctl would have left a key
	cfg.APIKey, cfg.Endpoint, cfg.PodEndpoint = testKey, f.URL, f.URL
	missing, wrong := cfg, cfg
	missing.APIKey, wrong.APIKey = "", "rpa_WRONG"
	fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
		providertest.OpOffers:    {"GET /v2/catalog/gpus", "GET /v2/catalog/cpus", "gpuTypes"},
		providertest.OpPrepare:   {"GET /v2/registries"},
		providertest.OpLaunch:    {create},
		providertest.OpDescribe:  {opPod, opPods},
		providertest.OpList:      {opPods},
		providertest.OpTerminate: {opDelete},
	})
	const nothing = "Prepare makes nothing, and so Release makes no call"
	h := providertest.Harness{
		Provider: cfg,
		Spec:     spec,
		Account:  f.account,
		Calls:    calls,
		Fault:    fault,
		Foreign:  f.foreign,
		States: func() (cases []providertest.StateCase) {
			for status, want := range map[string]driver.InstanceState{
				"PROVISIONING": driver.InstancePending,
				"STARTING":     driver.InstancePending,
				"RUNNING":      driver.InstanceRunning,
				"EXITED":       exited(spec),
				"ERROR":        driver.InstanceFailed,
				"TERMINATED":   driver.InstanceTerminated,
				"HIBERNATING":  driver.InstanceUnknown,
			} {
				cases = append(cases, providertest.StateCase{Vendor: status, Set: func(id string) { f.set(id, object{"status": status}) }, Want: want})
			}
			return cases
		},
		Stall:      func() { f.Do(func() { f.stall = true }) },
		Room:       func(n int) { f.Do(func() { f.room = n }) },
		Funds:      func(usd float64) { f.Do(func() { f.balance = usd }) },
		Allow:      func(n int) { f.Do(func() { f.spent = 80 - float64(n)*1.1*hour(cfg, spec) }) },
		Unpriced:   func() { f.Do(func() { f.unpriced = true }) },
		MissingKey: &providertest.MissingKey{Provider: missing, Names: keyVariable},
		WrongKey:   wrong,
		Secrets:    []string{testKey},
		Without: map[string]string{
			"PagedOffers":                        "the catalogue has no pages",
			"Tags":                               "RunPod has no tags",
			"release: failed before it was done": nothing,
			"release: failed after it was done":  nothing,
			"release: cut after it was done":     nothing,
			"release: html after it was done":    nothing,
			"cancel in the midst of release":     nothing,
		},
	}
	if spec.Allocation == driver.Spot {
		h.Unpriced, h.Without["Unpriced"] = nil, "what has no lowest bid cannot be bid for"
	}
	if cfg.DataCenterIDs == nil && cfg.CountryCodes == nil {
		h.Without["offers name their country"] = "an offer of no region is for all data centres: RunPod chooses the place"
	}
	return h
}

// hour returns the price of the machine of the first offer.
func hour(cfg Config, spec gputrain.Spec) float64 {
	if spec.Allocation == driver.Spot {
		return 1.5
	}
	return price(h100, strings.ToUpper(string(cmp.Or(cfg.Cloud, Secure))))
}

// exited returns the state of a pod that has stopped.
func exited(spec gputrain.Spec) driver.InstanceState {
	if spec.Allocation == driver.Spot {
		return driver.InstancePreempted
	}
	return driver.InstanceFailed
}

// account returns all pods and clusters.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		for _, k := range f.clusters.All(nil) {
			all = append(all, driver.Resource{Kind: "machine", ID: clusterID + k.object["id"].(string), Name: strings.TrimPrefix(k.object["name"].(string), pooltag.Prefix)})
		}
		for _, p := range f.pods.All(nil) {
			all = append(all, driver.Resource{Kind: "machine", ID: p.object["id"].(string), Name: strings.TrimPrefix(p.object["name"].(string), pooltag.Prefix)})
		}
	})
	return all
}

// foreign makes pods and a cluster that are not gputrain's, some with names like a pool's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, name := range []string{"training", "gputrain-", "gputrain-Pool-0", "my-gputrain-pool-a-0"} {
			p := maps.Clone(always("2026-01-02T03:04:05Z"))
			id := "foreign-" + name
			maps.Copy(p, object{
				"id": id, "name": name, "status": "RUNNING", "image": "x", "args": "", "disk": 10, "ports": []string{}, "env": object{}, "cloud": "SECURE",
				"registry": nil, "mounts": object{}, "gpu": object{"id": h100, "count": 1, "vcpuCount": 8, "memory": 64}, "cost": 2.99, "dataCenterId": "US-TX-3",
				"ssh": object{"proxy": nil, "direct": nil}, "runtime": nil,
			})
			f.pods.Put(nil, id, fakePod{object: p})
			ids = append(ids, id)
		}
		f.clusters.Put(nil, "foreign", fakeCluster{object{
			"id": "foreign", "name": "training-0-cluster", "type": "TRAINING", "compute": compute{h100, 8, 2}, "createdAt": "2026-01-02T03:04:05Z",
			"pods": object{"total": 0, "byStatus": object{}},
		}})
		ids = append(ids, clusterID+"foreign")
	})
	return ids
}
