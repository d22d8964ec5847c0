//go:build unix

package runpod

import (
	"cmp"
	"maps"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
)

// Pods pass the suite, by each way to create them. An instant cluster has its own
// tests: it has at least two nodes, which end together.
func TestConformance(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // where runpodctl would have left a key
	spot := oneH100
	spot.Allocation = driver.Spot
	for i, tt := range []struct {
		name, create string
		spec         gputrain.Spec
		change       func(*Config)
	}{
		{"on demand", opCreate, oneH100, nil},
		{"on demand in a data centre", opCreate, oneH100, func(c *Config) { c.DataCenterIDs = []string{"US-TX-3"} }},
		{"spot", opSpot, spot, nil},
		{"on demand by GraphQL", opRent, oneH100, abroad},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if i > 0 {
				cloudtest.Variant(t)
			}
			c := made(tt.create, tt.spec, tt.change)
			c.Conformance(t, func(f *fake) providertest.Harness { return hooks(f, c.Config(f), tt.spec) })
		})
	}
}

func hooks(f *fake, cfg Config, spec gputrain.Spec) providertest.Harness {
	h := providertest.Harness{
		Foreign: f.foreign,
		States: cloudtest.States(map[string]driver.InstanceState{
			"PROVISIONING": driver.InstancePending, "STARTING": driver.InstancePending, "RUNNING": driver.InstanceRunning, "EXITED": exited(spec),
			"ERROR": driver.InstanceFailed, "TERMINATED": driver.InstanceTerminated, "HIBERNATING": driver.InstanceUnknown,
		}, func(id, word string) { f.set(id, object{"status": word}) }),
		Stall:    func() { f.Do(func() { f.stall = true }) },
		Room:     func(n int) { f.Do(func() { f.room = n }) },
		Funds:    func(usd float64) { f.Do(func() { f.balance = usd }) },
		Allow:    func(n int) { f.Do(func() { f.spent = 80 - float64(n)*1.1*hour(cfg, spec) }) },
		Unpriced: func() { f.Do(func() { f.unpriced = true }) },
		Without:  map[string]string{"PagedOffers": "the catalogue has no pages", "Tags": "RunPod has no tags"},
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
