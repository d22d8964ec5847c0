package tensordock

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

// This test is not parallel to others: the suite looks for goroutines that are left.
func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
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
			Secrets:    []string{testToken},
			Without:    map[string]string{"PagedOffers": "all locations are one answer"},
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

// states are all that the API has, one of them in each way of writing, and one more.
func (f *fake) states() []providertest.StateCase {
	words := map[string]gputrain.InstanceState{
		"Stopped_Disassociated": gputrain.InstancePreempted, "RUNNING": gputrain.InstanceRunning, "relocating": gputrain.InstanceUnknown,
	}
	maps.Copy(words, states)
	return cloudtest.States(words, func(id, word string) { f.set(id, row{"status": word}) })()
}
