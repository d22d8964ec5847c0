package verda

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

// These tests do not run in parallel with others: the suite looks for leaked goroutines.

func TestConformance(t *testing.T) { conform(t, driver.OnDemand, nil) }

// The suite also passes on spot, where machines end by themselves.
func TestConformanceOfSpot(t *testing.T) {
	cloudtest.Variant(t)
	const why = "TestConformance has it: it is the same whatever is rented"
	without := map[string]string{"read that waits for Retry-After": why, "keys are never in errors": why}
	for kind := providertest.Failed; kind < providertest.Hang; kind++ {
		without["read that is never answered well: "+kind.String()] = why
		if kind <= providertest.Cut {
			without["read that is answered well the second time: "+kind.String()] = why
		}
	}
	conform(t, driver.Spot, without)
}

func conform(t *testing.T, allocation driver.Allocation, without map[string]string) {
	spot := allocation == driver.Spot
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		f.quoted = spot
		fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
			providertest.OpOffers:    {opTypes},
			providertest.OpPrepare:   {opAddKey},
			providertest.OpLaunch:    {opCreate},
			providertest.OpDescribe:  {opGet},
			providertest.OpList:      {opList},
			providertest.OpTerminate: {opAct},
			providertest.OpRelease:   {opDelKey},
		})
		cfg := f.config()
		wrong, missing := cfg, cfg
		wrong.ClientSecret, missing.ClientSecret = "wrong", ""
		h := providertest.Harness{
			Provider: cfg,
			Spec:     gputrain.Spec{Accelerator: accelerators.H100(), Allocation: allocation},
			Account:  f.everything,
			Calls:    calls,
			Fault:    fault,
			Foreign:  f.foreign,
			States:   f.states(spot),
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
			MissingKey: &providertest.MissingKey{Provider: missing, Names: "VERDA_CLIENT_SECRET"},
			WrongKey:   wrong,
			Secrets:    []string{testSecret, testToken},
			Dial:       fakecloud.Dial,
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
