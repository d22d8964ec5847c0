package scaleway

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	standard.With(gputrain.Spec{}, nil).Conformance(t, func(f *fake) providertest.Harness {
		wrong := f.config()
		wrong.SecretKey = "00000000-0000-0000-0000-000000000000"
		return providertest.Harness{
			Foreign:     f.foreign,
			States:      cloudtest.States(vendorStates, func(id, word string) { f.set(id, row{"state": word, "tags": f.old(id)}) }),
			Stall:       func() { f.Do(func() { f.stall = true }) },
			Room:        func(n int) { f.Do(func() { f.room = n }) },
			Allow:       func(n int) { f.Do(func() { f.quota = n }) },
			Tags:        f.userTags,
			Unpriced:    func() { f.Do(func() { f.unpriced = true }) },
			PagedOffers: true,
			WrongKey:    wrong,
			Without:     map[string]string{"Funds": "the API tells no balance: an account pays by invoice"},
		}
	})
}

// vendorStates are the API's states, and one that the API does not have.
var vendorStates = map[string]driver.InstanceState{
	"running": driver.InstanceRunning, "starting": driver.InstancePending, "stopped": driver.InstanceStopped,
	"stopped in place": driver.InstanceStopped, "stopping": driver.InstanceStopped, "locked": driver.InstanceFailed,
	"hibernating": driver.InstanceUnknown,
}

// old returns the tags of a server without its time of creation.
func (f *fake) old(id string) (tags []string) {
	_, uuid, _ := split(id)
	f.Do(func() {
		s, _ := f.servers.Get(nil, uuid)
		for _, word := range s.row["tags"].([]any) {
			if word := word.(string); !strings.HasPrefix(word, "gputrain-created-") {
				tags = append(tags, word)
			}
		}
	})
	return tags
}

// userTags returns the tags of a server that are pairs.
func (f *fake) userTags(id string) map[string]string {
	pairs := map[string]string{}
	for _, word := range f.old(id) {
		if name, value, ok := strings.Cut(word, "="); ok && name+"=" != keyTag {
			pairs[name] = value
		}
	}
	return pairs
}

func trimPrefix(name string) string { return strings.TrimPrefix(name, pooltag.Prefix) }

// foreign puts things into the project that are not gputrain's, with names and tags that
// resemble gputrain's.
func (f *fake) foreign() []string {
	server, volume := newID(0xf0, 1), newID(0xf0, 2)
	f.Do(func() {
		f.servers.Put(nil, server, &fakeServer{zone: testZone, row: row{
			"id": server, "name": "gputrain-p1-0", "state": "running", "project": testProject, "tags": []string{"gputrain"}, "zone": testZone, "volumes": row{},
		}})
		f.volumes.Put(nil, volume, row{"id": volume, "name": "data", "status": "available", "project_id": testProject, "zone": testZone, "tags": []string{"gputrain"}, "references": []row{}})
	})
	return []string{testZone + "/" + server, testZone + "/" + volume}
}
