package verda

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) { conform(t, driver.OnDemand, nil) }

// The suite also passes on spot, where machines end by themselves.
func TestConformanceOfSpot(t *testing.T) {
	cloudtest.Variant(t)
	conform(t, driver.Spot, cloudtest.Reads())
}

func conform(t *testing.T, allocation driver.Allocation, without map[string]string) {
	spot := allocation == driver.Spot
	standard.With(gputrain.Spec{Accelerator: accelerators.H100(), Allocation: allocation}, nil).Conformance(t, func(f *fake) providertest.Harness {
		f.quoted = spot
		h := providertest.Harness{
			Foreign: f.foreign,
			States:  f.states(spot),
			Stall: func() {
				f.Do(func() { f.status, f.busy = "provisioning", 2 })
			},
			Room:  func(n int) { f.Do(func() { f.room = n }) },
			Funds: func(usd float64) { f.Do(func() { f.funds = usd }) },
			Tags:  f.userTags,
			Unpriced: func() {
				f.Do(func() {
					for _, r := range f.types {
						r["price_per_hour"], r["spot_price"] = "", nil
					}
				})
			},
			Secrets: []string{testToken},
			Without: map[string]string{
				"PagedOffers": "a list has one page",
				"Allow":       "the API tells no quotas",
			},
		}
		maps.Copy(h.Without, without)
		return h
	})
}

// states returns the API's states, and one that the API does not have.
func (f *fake) states(spot bool) func() []providertest.StateCase {
	words := map[string]driver.InstanceState{"rebuilding": driver.InstanceUnknown, "unknown": driver.InstanceUnknown, "discontinued": driver.InstanceTerminated}
	maps.Copy(words, states)
	if spot {
		words["discontinued"] = driver.InstancePreempted
	}
	return cloudtest.States(words, func(id, word string) {
		f.set(id, row{"status": word})
		if word == "discontinued" {
			f.Do(func() {
				r, _ := f.instances.Get(nil, id)
				f.setVolume(r.row["os_volume_id"].(string), "detached")
			})
		}
	})
}
