package novita

import (
	"maps"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) { conform(t, gputrain.Spec{}, nil) }

// The suite also passes on spot.
func TestConformanceOfSpot(t *testing.T) {
	cloudtest.Variant(t)
	without := cloudtest.Reads()
	without["Unpriced"] = "what has no spot price is not to be had on spot"
	conform(t, gputrain.Spec{Allocation: driver.Spot}, without)
}

func conform(t *testing.T, spec gputrain.Spec, without map[string]string) {
	standard.With(spec, func(c *Config) {
		c.Image, c.RegistryUser, c.RegistryPassword = "registry.example.com/mine:1", "robot", registryPassword
	}).Conformance(t, func(f *fake) providertest.Harness {
		h := providertest.Harness{
			Foreign:  f.foreign,
			States:   f.states,
			Stall:    func() { f.Do(func() { f.stall = true }) },
			Room:     func(n int) { f.Do(func() { f.room = n }) },
			Funds:    func(usd float64) { f.Do(func() { f.usd = usd }) },
			Unpriced: func() { f.Do(func() { f.unpriced = true }) },
			Without: map[string]string{
				"the bill of a failed boot": "none of Novita's states is a failure: its error is told beside the state",
				"PagedOffers":               "the products have one page", "Allow": "the API tells no quota", "Tags": "there are no tags, and a name has no room for them",
			},
		}
		if maps.Copy(h.Without, without); without["Unpriced"] != "" {
			h.Unpriced = nil
		}
		return h
	})
}

func (f *fake) states() []providertest.StateCase {
	cases := cloudtest.States(vendorStates, func(id, word string) {
		f.Do(func() { f.newWord = vendorStates[word] == driver.InstanceUnknown })
		f.set(id, row{"status": word})
	})()
	return append(cases, providertest.StateCase{Vendor: "exited, and taken back", Want: driver.InstancePreempted, Set: func(id string) {
		f.set(id, row{"status": "exited", "spotStatus": "reclaimed", "spotReclaimTime": "1763631000"})
	}})
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
