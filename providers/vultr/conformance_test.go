package vultr

import (
	"maps"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	conform(t, Cloud, gputrain.Spec{Accelerator: accelerators.L40S()}, standard.Ops, nil)
}

// The suite also passes on bare metal.
func TestConformanceOfMetal(t *testing.T) {
	cloudtest.Variant(t)
	without := cloudtest.Reads()
	without["images of machines"] = "Vultr makes no snapshots of bare metal"
	conform(t, BareMetal, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))}, map[providertest.Op][]string{
		providertest.OpOffers: {opStock}, providertest.OpLaunch: {opMetalCreate}, providertest.OpDescribe: {opMetalShow},
		providertest.OpList: {opList}, providertest.OpTerminate: {opMetalEnd},
	}, without)
}

func conform(t *testing.T, mode Mode, spec gputrain.Spec, ops map[providertest.Op][]string, without map[string]string) {
	c := standard.With(spec, in(mode))
	c.Ops = ops
	c.Conformance(t, func(f *fake) providertest.Harness {
		h := providertest.Harness{
			Foreign:  f.foreign,
			States:   f.states(mode),
			Stall:    func() { f.Do(func() { f.status = "pending" }) },
			Room:     func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Funds:    func(usd float64) { f.Do(func() { f.owes, f.broke = 1.25-usd, usd <= 0 }) },
			Tags:     f.userTags,
			Unpriced: func() { f.Do(func() { f.unpriced = true }) },
			// The stock of each region is a list of its own.
			PagedOffers: true,
			Secrets:     []string{testPassword},
			Without: map[string]string{
				"Allow": "the API tells no quota", "the account's money is known": "an account without credit may have a card: TestBalance has the rest",
			},
		}
		maps.Copy(h.Without, without)
		return h
	})
}

// in has a mode rent anywhere.
func in(mode Mode) func(*Config) {
	return func(c *Config) { c.Mode, c.Region = mode, Anywhere }
}

// userTags returns the tags of a machine that are not gputrain's, of which none has a dash in its value.
func (f *fake) userTags(id string) map[string]string {
	tags := map[string]string{}
	f.Do(func() {
		mode, name := parseID(id)
		r, _ := f.machines[mode].Get(nil, name)
		for _, word := range r.row["tags"].([]string) {
			if at := strings.LastIndex(word, "-"); at > 0 && !strings.HasPrefix(word, "gputrain") {
				tags[word[:at]] = word[at+1:]
			}
		}
	})
	return tags
}

// foreign puts things into both lists that are not gputrain's, some with names that resemble
// gputrain's.
func (f *fake) foreign() []string {
	web := row{"id": "web", "status": "active", "power_status": "running", "main_ip": "198.18.255.1", "label": "web-1", "tags": []string{"web"}}
	near := row{"id": "near", "status": "active", "main_ip": "198.18.255.2", "label": "gputrain-web", "tags": []string{"gputrain", "gputrain-node-p1-0"}}
	f.Do(func() {
		f.machines[Cloud].Put(nil, "web", &rental{row: web})
		f.machines[BareMetal].Put(nil, "near", &rental{row: near})
		f.snapshots.Put(nil, "nightly", &disk{row: row{"id": "nightly", "date_created": "2026-10-10T01:56:20+00:00", "description": "nightly", "size": 42949672960, "status": "complete", "os_id": 215, "app_id": 0}})
	})
	return []string{"web", "metal/near", "nightly"}
}

// states returns the API's states of a mode, and one that the API does not have.
func (f *fake) states(mode Mode) func() []providertest.StateCase {
	type words struct {
		columns row
		want    driver.InstanceState
	}
	all := map[string]words{
		"pending":     {row{"status": "pending"}, driver.InstancePending},
		"no address":  {row{"main_ip": "0.0.0.0"}, driver.InstancePending},
		"active":      {row{"status": "active"}, driver.InstanceRunning},
		"suspended":   {row{"status": "suspended"}, driver.InstanceStopped},
		"failed":      {row{"status": "failed"}, driver.InstanceFailed},
		"closed":      {row{"status": "closed"}, driver.InstanceFailed},
		"hibernating": {row{"status": "hibernating"}, driver.InstanceUnknown},
	}
	if mode == Cloud {
		all["resizing"] = words{row{"status": "resizing"}, driver.InstancePending}
		all["halted"] = words{row{"power_status": "stopped"}, driver.InstanceStopped}
		all["restarted"] = words{row{"power_status": "stopped", "server_status": "installingbooting"}, driver.InstancePending}
		all["smoking"] = words{row{"power_status": "smoking"}, driver.InstanceUnknown}
	}
	return func() (cases []providertest.StateCase) {
		for word, w := range all {
			cases = append(cases, providertest.StateCase{Vendor: word, Want: w.want, Set: func(id string) { f.set(id, w.columns) }})
		}
		return append(cases, providertest.StateCase{Vendor: "gone", Want: driver.InstanceTerminated, Set: func(id string) {
			m, name := parseID(id)
			f.Do(func() { f.end(nil, m, name) })
		}})
	}
}
