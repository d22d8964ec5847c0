package hyperstack

import (
	"strconv"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	standard.With(h100, func(c *Config) { c.Regions = []string{"CANADA-1", "US-1"} }).Conformance(t, func(f *fake) providertest.Harness {
		return providertest.Harness{
			Foreign: f.foreign,
			States: cloudtest.States(map[string]driver.InstanceState{
				"CREATING": driver.InstancePending, "BUILD": driver.InstancePending, "RESTORING": driver.InstancePending,
				"ACTIVE": driver.InstanceRunning, "active": driver.InstanceRunning, "SHUTOFF": driver.InstanceStopped,
				"HIBERNATING": driver.InstanceStopped, "HIBERNATED": driver.InstanceStopped, "ERROR": driver.InstanceFailed,
				"DELETING": driver.InstanceStopped, "DELETED": driver.InstanceTerminated, "RESCUED": driver.InstanceUnknown,
			}, func(id, word string) { f.set(id, row{"status": word}) }),
			Stall:       func() { f.Do(func() { f.status = "BUILD" }) },
			Room:        func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Funds:       func(usd float64) { f.Do(func() { f.credit = usd }) },
			Tags:        f.userLabels,
			Without:     map[string]string{"Allow": "the API tells how many addresses an environment has, and no quota of GPUs"},
			Unpriced:    func() { f.Do(func() { f.prices = []row{} }) },
			PagedOffers: true, // each region is a list of its own
		}
	})
}

// userLabels returns the labels of a machine that are pairs.
func (f *fake) userLabels(id string) map[string]string {
	pairs := map[string]string{}
	f.Do(func() {
		r, _ := f.machines.Get(nil, id)
		for _, word := range r.row["labels"].([]string) {
			if name, value, ok := strings.Cut(word, "="); ok {
				pairs[name] = value
			}
		}
	})
	return pairs
}

// foreign puts things into the account that look like gputrain's and are not.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		for _, e := range [][2]string{{"lab", "CANADA-1"}, {"gputrain-p1-us-1", "CANADA-1"}, {"gputrain--us-1", "US-1"}} {
			made := f.putEnvironment(nil, e[0], e[1])
			key := f.putKey(nil, made, "gputrain-p1", cloudtest.PoolKey)
			vm := f.put(nil, made, createMachine{Name: "gputrain-p1-0", Labels: []string{"gputrain", "gputrain-pool-", "team-x"}, FlavorName: "n3-H100x1"})
			for _, thing := range []row{made, key, vm.row} {
				ids = append(ids, strconv.Itoa(thing["id"].(int)))
			}
		}
		ids = append(ids, f.foreignSnapshot())
	})
	return ids
}
