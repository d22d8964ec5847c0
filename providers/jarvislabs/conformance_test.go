package jarvislabs

import (
	"maps"
	"strconv"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

// These tests are not parallel to others: the suite looks for goroutines that are left.

func TestConformance(t *testing.T) { conform(t, gputrain.OnDemand, nil) }

// The same of spot machines, of which a paused one was preempted.
func TestConformanceOfSpot(t *testing.T) { conform(t, gputrain.Spot, cloudtest.Reads()) }

func conform(t *testing.T, allocation gputrain.Allocation, without map[string]string) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
			providertest.OpOffers:    {opGroups},
			providertest.OpPrepare:   {opAddKey},
			providertest.OpLaunch:    {opCreate},
			providertest.OpDescribe:  {opShow, opList},
			providertest.OpList:      {opList},
			providertest.OpTerminate: {opDestroy},
			providertest.OpRelease:   {opDelKey},
		})
		cfg := f.config()
		if allocation == gputrain.OnDemand { // with clients of the driver's own
			cfg = Config{APIKey: testKey, Endpoint: f.URL}
		}
		wrong, missing := cfg, cfg
		wrong.APIKey, missing.APIKey = "wrong", ""
		words := map[string]gputrain.InstanceState{
			"Creating": gputrain.InstancePending, "Resuming": gputrain.InstancePending, "Running": gputrain.InstanceRunning, "running": gputrain.InstanceRunning,
			"Failed": gputrain.InstanceFailed, "Destroying": gputrain.InstanceTerminated, "Migrating": gputrain.InstanceUnknown,
			"Pausing": gputrain.InstanceStopped, "Paused": gputrain.InstanceStopped, "vanished": gputrain.InstanceTerminated,
		}
		if allocation == gputrain.Spot {
			for _, word := range []string{"Pausing", "Paused", "Destroying", "vanished"} {
				words[word] = gputrain.InstancePreempted
			}
		}
		h := providertest.Harness{
			Provider:   cfg,
			Spec:       gputrain.Spec{Accelerator: accelerators.L4(), Allocation: allocation},
			Account:    f.everything,
			Calls:      calls,
			Fault:      fault,
			Foreign:    f.foreign,
			States:     cloudtest.States(words, f.become),
			Stall:      func() { f.Do(func() { f.status = "Creating" }) },
			Room:       func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Unpriced:   func() { f.Do(f.forgetPrices) },
			MissingKey: &providertest.MissingKey{Provider: missing, Names: keyVariable},
			WrongKey:   wrong,
			Secrets:    []string{testKey},
			Without:    map[string]string{"PagedOffers": "all that there is comes in one answer"},
		}
		if allocation == gputrain.Spot { // which a price of null says that there is none of
			h.Unpriced, h.Without["Unpriced"] = nil, "where there is no spot price there is no spot"
		}
		maps.Copy(h.Without, without)
		return h
	})
}

// become brings an instance into a state.
func (f *fake) become(id, state string) {
	if state == "vanished" {
		f.Do(func() { f.instances.Delete(nil, id) })
		return
	}
	f.set(id, row{"status": state})
}

func (f *fake) forgetPrices() {
	for _, g := range f.groups {
		g["price_per_hour"], g["spot_price"] = nil, nil
	}
}

// foreign puts into the account what looks like gputrain's and is not.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, name := range []string{"gputrain", "gputrain-p1", "mine", "gputrain-P1-0"} {
			f.put(nil, createInstance{GPU: "L4", GPUs: 1, Region: noida, Name: name}, "pytorch")
			ids = append(ids, strconv.Itoa(f.lastID))
		}
		worker := f.put(nil, createInstance{GPU: "L4", GPUs: 1, Region: noida, Name: "gputrain-p1-0"}, "pytorch")
		worker.row["deployment_id"] = "d-1" // of a serverless deployment
		ids = append(ids, strconv.Itoa(f.lastID), f.putKey(nil, "laptop", cloudtest.PoolKey), f.putKey(nil, "gputrain", cloudtest.PoolKey))
	})
	return ids
}
