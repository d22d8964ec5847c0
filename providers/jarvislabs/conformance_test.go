package jarvislabs

import (
	"maps"
	"strconv"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) { conform(t, driver.OnDemand, nil) }

// The suite also passes on spot, where a paused machine was preempted.
func TestConformanceOfSpot(t *testing.T) {
	cloudtest.Variant(t)
	conform(t, driver.Spot, cloudtest.Reads())
}

func conform(t *testing.T, allocation driver.Allocation, without map[string]string) {
	var own func(*Config)
	if allocation == driver.OnDemand { // with clients of the driver's own
		own = ownClient
	}
	standard.With(gputrain.Spec{Accelerator: accelerators.L4(), Allocation: allocation}, own).Conformance(t, func(f *fake) providertest.Harness {
		words := map[string]driver.InstanceState{
			"Creating": driver.InstancePending, "Resuming": driver.InstancePending, "Running": driver.InstanceRunning, "running": driver.InstanceRunning,
			"Failed": driver.InstanceFailed, "Destroying": driver.InstanceTerminated, "Migrating": driver.InstanceUnknown,
			"Pausing": driver.InstanceStopped, "Paused": driver.InstanceStopped, "vanished": driver.InstanceTerminated,
		}
		if allocation == driver.Spot {
			for _, word := range []string{"Pausing", "Paused", "Destroying", "vanished"} {
				words[word] = driver.InstancePreempted
			}
		}
		h := providertest.Harness{
			Foreign:  f.foreign,
			States:   cloudtest.States(words, f.become),
			Stall:    func() { f.Do(func() { f.status = "Creating" }) },
			Room:     func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Funds:    func(usd float64) { f.Do(func() { f.wallet = usd - 0.25 }) },
			Unpriced: func() { f.Do(f.forgetPrices) },
			Without: map[string]string{
				"PagedOffers": "all offers come in one answer", "Allow": "the API tells no quota", "Tags": "there are no tags, and a name has no room for them",
			},
		}
		if allocation == driver.Spot { // a price of null means that there is no spot
			h.Unpriced, h.Without["Unpriced"] = nil, "without a spot price there is no spot"
		}
		maps.Copy(h.Without, without)
		return h
	})
}

// become puts an instance into a state.
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

// foreign puts things into the account that look like gputrain's and are not.
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

// ownClient has a driver make its calls by a client of its own.
func ownClient(c *Config) {
	client := c.HTTPClient.Transport.(toFake)
	c.HTTPClient, c.Endpoint = nil, client.to.String()
}
