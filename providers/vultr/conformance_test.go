package vultr

import (
	"maps"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestMain(m *testing.M) { cloudtest.Main(m) }

func TestConformance(t *testing.T) {
	conform(t, Cloud, gputrain.Spec{Accelerator: accelerators.L40S()}, nil)
}

// The suite also passes on bare metal.
func TestConformanceOfMetal(t *testing.T) {
	cloudtest.Variant(t)
	conform(t, BareMetal, gputrain.Spec{Accelerator: accelerators.H100(accelerators.Count(8))}, ofMetal())
}

func conform(t *testing.T, mode Mode, spec gputrain.Spec, without map[string]string) {
	providertest.RunParallel(t, func(t *testing.T) providertest.Harness {
		f := startFake(t)
		ops := map[Mode]map[providertest.Op][]string{
			Cloud: {
				providertest.OpOffers: {opStock}, providertest.OpLaunch: {opCreate}, providertest.OpDescribe: {opShow},
				providertest.OpList: {opMetalList}, providertest.OpTerminate: {opEnd},
			},
			BareMetal: {
				providertest.OpOffers: {opStock}, providertest.OpLaunch: {opMetalCreate}, providertest.OpDescribe: {opMetalShow},
				providertest.OpList: {opList}, providertest.OpTerminate: {opMetalEnd},
			},
		}
		fault, calls := providertest.OnServer(f.Server, ops[mode])
		cfg := f.config()
		cfg.Mode, cfg.Region = mode, Anywhere
		wrong, missing := cfg, cfg
		wrong.APIKey, missing.APIKey = "wrong", ""
		h := providertest.Harness{
			Provider: cfg,
			Spec:     spec,
			Account:  f.account,
			Calls:    calls,
			Fault:    fault,
			Foreign:  f.foreign,
			States:   f.states(mode),
			Stall:    func() { f.Do(func() { f.status = "pending" }) },
			Room:     func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Funds:    func(usd float64) { f.Do(func() { f.owes, f.broke = 1.25-usd, usd <= 0 }) },
			Tags:     f.userTags,
			Unpriced: func() { f.Do(func() { f.unpriced = true }) },
			// The stock of each region is a list of its own.
			PagedOffers: true,
			MissingKey:  &providertest.MissingKey{Provider: missing, Names: keyVariable},
			WrongKey:    wrong,
			Secrets:     []string{testKey, testPassword},
			Dial:        fakecloud.Dial,
			Without:     account(nothingShared()),
		}
		maps.Copy(h.Without, without)
		return h
	})
}

func account(without map[string]string) map[string]string {
	without["Allow"] = "the API tells no quota"
	without["the account's money is known"] = "an account without credit may have a card: TestBalance has the rest"
	return without
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

// nothingShared has the checks that need calls of Prepare or Release, which this driver does
// not make.
func nothingShared() map[string]string {
	all := map[string]string{}
	for _, op := range []string{"prepare", "release"} {
		for _, check := range []string{
			op + ": failed before it was done", op + ": failed after it was done", op + ": cut after it was done", op + ": html after it was done",
			"cancel in the midst of " + op,
		} {
			all[check] = "nothing is made for a pool but machines"
		}
	}
	return all
}

// ofMetal has the checks that bare metal is left out of.
func ofMetal() map[string]string {
	all := reads()
	all["images of machines"] = "Vultr makes no snapshots of bare metal"
	return all
}

// reads has the checks that are the same whatever is rented.
func reads() map[string]string {
	const why = "TestConformance has it: a read is the same whatever is rented"
	all := map[string]string{"read that waits for Retry-After": why, "keys are never in errors": why}
	for kind := providertest.Failed; kind <= providertest.Huge; kind++ {
		all["read that is never answered well: "+kind.String()] = why
		if kind <= providertest.Cut {
			all["read that is answered well the second time: "+kind.String()] = why
		}
	}
	return all
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
