package tensordock

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

// This test does not run in parallel with others: the suite looks for leaked goroutines.
func TestConformance(t *testing.T) {
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
			providertest.OpOffers:    {opLocations},
			providertest.OpLaunch:    {opCreate},
			providertest.OpDescribe:  {opGet},
			providertest.OpList:      {opList},
			providertest.OpTerminate: {opDelete},
		})
		cfg := f.config()
		wrong, missing := cfg, cfg
		wrong.APIToken, missing.APIToken = "wrong", ""
		h := providertest.Harness{
			Provider: cfg,
			Spec:     gputrain.Spec{Accelerator: accelerators.RTX4090()},
			Account:  f.everything,
			Calls:    calls,
			Fault:    fault,
			Foreign:  f.foreign,
			States:   f.states,
			Stall:    func() { f.Do(func() { f.status = "queued" }) },
			Room:     func(n int) { f.Do(func() { f.room = n }) },
			Funds:    func(usd float64) { f.Do(func() { f.usd = usd }) },
			Unpriced: func() {
				f.Do(func() {
					for _, l := range f.locations {
						for _, g := range l["gpus"].([]row) {
							g["pricing"] = row{"per_vcpu_hr": 0.003}
						}
					}
				})
			},
			MissingKey: &providertest.MissingKey{Provider: missing, Names: "TENSORDOCK_API_TOKEN"},
			WrongKey:   wrong,
			Secrets:    []string{testToken, testKey},
			Without: map[string]string{
				"PagedOffers": "all locations are one answer",
				"Allow":       "the API tells no quota",
				"Tags":        "there are no tags, and a name has no room for them",
			},
		}
		const why = "nothing is made for a pool but its machines: the create call has its key"
		for _, op := range []string{"prepare", "release"} {
			for _, f := range []providertest.Fault{{Kind: providertest.Failed}, {Kind: providertest.Failed, After: true}, {Kind: providertest.Cut, After: true}, {Kind: providertest.HTML, After: true}} {
				h.Without[op+": "+f.String()] = why
			}
			h.Without["cancel in the midst of "+op] = why
		}
		return h
	})
}

// states returns the API's states, one of them in each spelling, and one that the API does not
// have.
func (f *fake) states() []providertest.StateCase {
	words := map[string]driver.InstanceState{
		"Stopped_Disassociated": driver.InstancePreempted, "RUNNING": driver.InstanceRunning, "relocating": driver.InstanceUnknown,
	}
	maps.Copy(words, states)
	return cloudtest.States(words, func(id, word string) { f.set(id, row{"status": word}) })()
}
