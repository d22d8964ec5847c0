package lambda

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	standard.With(gputrain.Spec{}, nil).Conformance(t, func(f *fake) providertest.Harness {
		return providertest.Harness{
			Foreign: f.foreign,
			States:  f.states,
			Stall:   func() { f.Do(func() { f.stalled = true }) },
			Tags:    f.userTags,
			Room:    func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Unpriced: func() {
				f.Do(func() {
					for _, it := range f.items {
						it["instance_type"].(row)["price_cents_per_hour"] = 0
					}
				})
			},
			Secrets: []string{"jupyter-secret-"},
			Without: map[string]string{"PagedOffers": "the API has no pages", "Funds": "the API tells no balance", "Allow": "the API tells no quotas"},
		}
	})
}

// userTags returns the tags of an instance that are not gputrain's.
func (f *fake) userTags(id string) map[string]string {
	tags := map[string]string{}
	f.Do(func() {
		r, _ := f.instances.Get(nil, id)
		for _, t := range r.row["tags"].([]row) {
			if key := t["key"].(string); !strings.HasPrefix(key, pooltag.Prefix) {
				tags[key] = t["value"].(string)
			}
		}
	})
	return tags
}

// foreign puts things into the account that are not gputrain's, some with names that resemble
// gputrain's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, name := range []string{"web", "gputrain-p1-0"} {
			id := f.nextID()
			f.instances.Put(nil, id, &rental{row: row{
				"id": id, "name": name, "status": "active", "ip": "198.51.100.9", "ssh_key_names": []string{"laptop"}, "file_system_names": []string{},
				"region": regionRow("us-west-1"), "instance_type": f.items["gpu_1x_a10"]["instance_type"], "actions": actions(), "tags": []row{},
			}})
			ids = append(ids, id)
		}
		for _, name := range []string{"laptop", "gputrain", "gputrain-Mine"} {
			ids = append(ids, f.putKey(nil, name, "ssh-ed25519 AAAAother gputrain@home")["id"].(string))
		}
	})
	return ids
}

func (f *fake) states() []providertest.StateCase {
	return append(cloudtest.States(map[string]driver.InstanceState{
		"booting": driver.InstancePending, "active": driver.InstanceRunning, "unhealthy": driver.InstanceFailed,
		"terminating": driver.InstanceStopped, "terminated": driver.InstanceTerminated, "preempted": driver.InstancePreempted,
		"hibernating": driver.InstanceUnknown,
	}, func(id, word string) {
		f.Do(func() { f.newWord = word == "hibernating" })
		f.set(id, row{"status": word})
	})(), providertest.StateCase{Vendor: "gone", Want: driver.InstanceTerminated, Set: func(id string) {
		f.Do(func() { f.end(nil, id) })
	}})
}

func (f *fake) config() Config { return Config{APIKey: testKey, Endpoint: f.URL} }
