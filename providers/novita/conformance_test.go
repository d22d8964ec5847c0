package novita

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

// These tests do not run in parallel with others: the suite looks for leaked goroutines.

func TestConformance(t *testing.T) {
	conform(t, gputrain.Spec{}, nil)
}

// The suite also passes on spot.
func TestConformanceOfSpot(t *testing.T) {
	cloudtest.Variant(t)
	without := cloudtest.Reads()
	without["Unpriced"] = "what has no spot price is not to be had on spot"
	conform(t, gputrain.Spec{Allocation: driver.Spot}, without)
}

func conform(t *testing.T, spec gputrain.Spec, without map[string]string) {
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		h, cfg := f.harness(), f.config()
		cfg.Image, cfg.RegistryUser, cfg.RegistryPassword = "registry.example.com/mine:1", "robot", registryPassword
		h.Provider, h.Spec = cfg, spec
		cfg.APIKey = "wrong"
		h.WrongKey = cfg
		cfg.APIKey = ""
		h.MissingKey = &providertest.MissingKey{Provider: cfg, Names: "NOVITA_API_KEY"}
		maps.Copy(h.Without, without)
		if without["Unpriced"] != "" {
			h.Unpriced = nil
		}
		return h
	})
}

func (f *fake) harness() providertest.Harness {
	fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
		providertest.OpOffers:    {opProducts},
		providertest.OpLaunch:    {opCreate},
		providertest.OpDescribe:  {opInstance},
		providertest.OpList:      {opList},
		providertest.OpTerminate: {opEnd},
	})
	const nothing = "Prepare makes nothing: the API has no keys"
	h := providertest.Harness{
		Account: f.account, Calls: calls, Fault: fault, Foreign: f.foreign,
		States: func() []providertest.StateCase {
			cases := cloudtest.States(vendorStates, func(id, word string) {
				f.Do(func() { f.newWord = vendorStates[word] == driver.InstanceUnknown })
				f.set(id, row{"status": word})
			})()
			return append(cases, providertest.StateCase{Vendor: "exited, and taken back", Want: driver.InstancePreempted, Set: func(id string) {
				f.set(id, row{"status": "exited", "spotStatus": "reclaimed", "spotReclaimTime": "1763631000"})
			}})
		},
		Stall:    func() { f.Do(func() { f.stall = true }) },
		Room:     func(n int) { f.Do(func() { f.room = n }) },
		Funds:    func(usd float64) { f.Do(func() { f.usd = usd }) },
		Unpriced: func() { f.Do(func() { f.unpriced = true }) },
		Secrets:  []string{testKey, testPassword, registryPassword},
		Without: map[string]string{
			"PagedOffers":                    "the products have one page",
			"Allow":                          "the API tells no quota",
			"Tags":                           "there are no tags, and a name has no room for them",
			"cancel in the midst of prepare": nothing,
			"cancel in the midst of release": nothing,
		},
	}
	for _, kind := range []string{"failed before it was done", "failed after it was done", "cut after it was done", "html after it was done"} {
		h.Without["prepare: "+kind], h.Without["release: "+kind] = nothing, nothing
	}
	return h
}

// vendorStates are the API's states, and one that the API does not have.
var vendorStates = map[string]driver.InstanceState{
	"toCreate": driver.InstancePending, "creating": driver.InstancePending, "pulling": driver.InstancePending,
	"running": driver.InstanceRunning, "toStart": driver.InstancePending, "starting": driver.InstancePending,
	"toStop": driver.InstanceStopped, "stopping": driver.InstanceStopped, "exited": driver.InstanceStopped,
	"toRestart": driver.InstancePending, "restarting": driver.InstancePending, "toRemove": driver.InstanceStopped,
	"removing": driver.InstanceStopped, "removed": driver.InstanceTerminated, "toReset": driver.InstancePending,
	"resetting": driver.InstancePending, "migrating": driver.InstancePending, "freezing": driver.InstanceStopped,
	"hibernating": driver.InstanceUnknown,
}
