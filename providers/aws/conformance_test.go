package aws

import (
	"fmt"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

// The suite runs with everything that a pool can share. pool_test.go tests a pool without it.
func TestConformance(t *testing.T) {
	standard.With(gputrain.Spec{Allocation: driver.CheapestAllocation}, func(c *Config) {
		c.ImportKeyPair, c.ClusterPlacement = true, true
		c.InstanceProfileARN, c.InstanceProfilePolicy = autoProfile, `{"Version":"2012-10-17","Statement":[]}`
		c.ExcludeBurstable = true // no placement group takes a burstable type
	}).Conformance(t, func(f *fake) providertest.Harness {
		f.pageSize, f.listPage = 5, 1
		return providertest.Harness{
			Foreign:     f.foreign,
			States:      f.states,
			Stall:       func() { f.Do(func() { f.stall = true }) },
			Allow:       func(n int) { f.allow(2 * float64(n)) }, // the first offer is of c7i.large
			Tags:        f.tags,
			Room:        func(n int) { f.Do(func() { f.room = f.running() + n }) },
			Unpriced:    func() { f.Do(func() { f.unpriced = true }) },
			PagedOffers: true,
			Without:     map[string]string{"Funds": "AWS bills by invoice: no API tells a balance"},
		}
	})
}

// tags returns the tags of an instance. Its disk has the same.
func (f *fake) tags(id string) map[string]string {
	all := map[string]string{}
	f.Do(func() {
		r, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %s", id)
		}
		for _, t := range rowTags(r.row) {
			all[t.Key] = t.Value
		}
		for _, s := range r.data.TagSpecifications {
			for _, t := range s.Tags {
				if all[t.Key] != t.Value {
					f.t.Errorf("the %s of the instance lacks the tag %s=%s", s.ResourceType, t.Key, t.Value)
				}
			}
			if s.ResourceType == "volume" && len(s.Tags) != len(all) {
				f.t.Errorf("its volume has the tags %v, and the instance %v", s.Tags, all)
			}
		}
	})
	return all
}

func (f *fake) running() (n int) {
	for _, r := range f.instances.All(nil) {
		if s := f.state(r); s == "pending" || s == "running" {
			n++
		}
	}
	return n
}

// states returns EC2's states, and one that EC2 does not have.
func (f *fake) states() []providertest.StateCase {
	set := func(state, code string) func(id string) {
		return func(id string) {
			f.Do(func() {
				r, ok := f.instances.Get(nil, id)
				if !ok {
					f.t.Errorf("there is no instance %s", id)
					return
				}
				r.row["State"] = row{"Name": state, "Code": map[string]int{"pending": 0, "running": 16, "shutting-down": 32, "terminated": 48, "stopping": 64, "stopped": 80}[state]}
				if _, known := map[string]bool{"pending": true, "running": true, "shutting-down": true, "terminated": true, "stopping": true, "stopped": true}[state]; !known {
					r.row["State"] = row{"Name": "stopping", "Code": 64, "Odd": state}
				}
				if code != "" {
					r.row["StateReason"] = row{"Code": code, "Message": fmt.Sprintf("%s: it was so", code)}
				}
			})
		}
	}
	return []providertest.StateCase{
		{Vendor: "pending", Set: set("pending", ""), Want: driver.InstancePending},
		{Vendor: "running", Set: set("running", ""), Want: driver.InstanceRunning},
		{Vendor: "stopping", Set: set("stopping", "Client.UserInitiatedShutdown"), Want: driver.InstanceStopped},
		{Vendor: "stopped", Set: set("stopped", "Client.UserInitiatedShutdown"), Want: driver.InstanceStopped},
		{Vendor: "shutting-down", Set: set("shutting-down", "Client.InstanceInitiatedShutdown"), Want: driver.InstanceTerminated},
		{Vendor: "terminated", Set: set("terminated", "Server.InsufficientInstanceCapacity"), Want: driver.InstanceTerminated},
		{Vendor: "shutting-down", Set: set("shutting-down", "Server.SpotInstanceShutdown"), Want: driver.InstancePreempted},
		{Vendor: "terminated", Set: set("terminated", "Server.SpotInstanceTermination"), Want: driver.InstancePreempted},
		{Vendor: "hibernating", Set: set("hibernating", ""), Want: driver.InstanceUnknown},
	}
}
