package massedcompute

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) { conform(t, gputrain.Spec{}, nil) }

// The suite also passes with a spot product, which differs in its launch and in its end.
func TestConformanceOfSpot(t *testing.T) {
	cloudtest.Variant(t)
	without := cloudtest.Reads()
	for _, op := range []providertest.Op{providertest.OpOffers, providertest.OpPrepare, providertest.OpDescribe, providertest.OpList, providertest.OpTerminate, providertest.OpRelease} {
		without["cancel in the midst of "+string(op)] = "TestConformance has it: this is the same whatever is rented"
	}
	conform(t, gputrain.Spec{Allocation: driver.Spot}, without)
}

func conform(t *testing.T, spec gputrain.Spec, without map[string]string) {
	standard.With(spec, nil).Conformance(t, func(f *fake) providertest.Harness {
		h := providertest.Harness{
			Foreign: f.foreign,
			States:  func() []providertest.StateCase { return f.states(spec.Allocation == driver.Spot) },
			Stall:   func() { f.Do(func() { f.stalled = true }) },
			Room:    func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Unpriced: func() {
				f.Do(func() {
					for _, it := range f.inventory {
						it["instance_type"].(row)["price_cents_per_hour"] = 0
					}
				})
			},
			Secrets: []string{password},
			Without: map[string]string{
				"PagedOffers": "the API has no pages", "Funds": "the API tells no balance", "Allow": "the API tells no quota",
				"Tags": "there are no tags, and a name has no room for them",
			},
		}
		maps.Copy(h.Without, without)
		return h
	})
}

// foreign puts things into the account that are not gputrain's, some with names that resemble
// gputrain's.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for i, name := range []string{"web", "gputrain-web", "gputrain", "Gputrain-p1-0"} {
			uuid := []string{"one", "two", "three", "four"}[i]
			f.instances.Put(nil, uuid, &rental{row: row{"uuid": uuid, "name": name, "status": "rented", "ip": "203.0.113.9", "os_booted": 1}})
			ids = append(ids, uuid)
		}
		for _, name := range []string{"laptop", "gputrain", "gputrain laptop", "gputrainlaptop", "gputrainXpoolX"} {
			ids = append(ids, f.putKey(nil, name, "ssh-ed25519 AAAAother gputrain@home")["id"].(string))
		}
	})
	return ids
}

func (f *fake) states(spot bool) []providertest.StateCase {
	vanished := driver.InstanceTerminated
	if spot {
		vanished = driver.InstancePreempted
	}
	words := map[string]driver.InstanceState{
		"pending": driver.InstancePending, "booting": driver.InstancePending, "provisioning": driver.InstancePending, "starting": driver.InstancePending,
		"active": driver.InstanceRunning, "Running": driver.InstanceRunning, "RENTED": driver.InstanceRunning,
		"stopping": driver.InstanceStopped, "Stopped": driver.InstanceStopped, "terminating": driver.InstanceStopped, "deleting": driver.InstanceStopped,
		"failed": driver.InstanceFailed, "error": driver.InstanceFailed, "terminated": driver.InstanceTerminated, "deleted": driver.InstanceTerminated,
		"hibernating": driver.InstanceUnknown,
	}
	return append(cloudtest.States(words, func(id, word string) { f.set(id, row{"status": word}) })(),
		providertest.StateCase{Vendor: "rented, not booted", Want: driver.InstancePending, Set: func(id string) { f.set(id, row{"os_booted": 0}) }},
		providertest.StateCase{Vendor: "rented, without address", Want: driver.InstancePending, Set: func(id string) { f.set(id, row{"ip": ""}) }},
		providertest.StateCase{Vendor: "gone", Want: vanished, Set: func(id string) { f.Do(func() { f.end(nil, id) }) }})
}

func (f *fake) config() Config { return Config{APIKey: testKey, Endpoint: f.URL} }
