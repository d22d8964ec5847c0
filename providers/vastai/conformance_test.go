package vastai

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
	"github.com/gputrain/gputrain/providers/providertest"
)

// These tests do not run in parallel with others: the suite looks for leaked goroutines.

func TestConformance(t *testing.T) {
	conform(t, nil, func(*Config, *gputrain.Spec) {}, nil)
}

// The suite also passes if rentals are bids.
func TestConformanceOfBids(t *testing.T) {
	cloudtest.Variant(t)
	conform(t, nil, func(_ *Config, s *gputrain.Spec) { s.Allocation = driver.Spot }, cloudtest.Reads())
}

// The suite also passes if a pool's nodes are on an overlay network, in one cluster.
func TestConformanceOfOverlays(t *testing.T) {
	cloudtest.Variant(t)
	conform(t, row{"cluster_id": 42}, func(c *Config, s *gputrain.Spec) { c.UseOverlay, s.Nodes = true, 2 }, cloudtest.Reads())
}

// The suite also passes if the spec asks for a private network.
func TestConformanceOfPrivateNetworks(t *testing.T) {
	cloudtest.Variant(t)
	conform(t, row{"cluster_id": 42}, func(_ *Config, s *gputrain.Spec) { s.Network, s.Nodes = gputrain.NetworkPrivate, 2 }, cloudtest.Reads())
}

// conform runs the suite against machines with changed columns, Config and Spec.
func conform(t *testing.T, changed row, change func(*Config, *gputrain.Spec), without map[string]string) {
	t.Setenv("HOME", t.TempDir()) // the user's home may have a key's file
	var spec gputrain.Spec
	change(&Config{}, &spec)
	c := standard.With(spec, func(c *Config) { change(c, &gputrain.Spec{}) })
	c.Start = of(changed)
	c.Conformance(t, func(f *fake) providertest.Harness {
		h := providertest.Harness{
			Foreign:  f.foreign,
			States:   f.states,
			Stall:    func() { f.Do(func() { f.status = "loading" }) },
			Room:     func(n int) { f.Do(func() { f.full, f.room = true, n }) },
			Funds:    func(usd float64) { f.Do(func() { f.credit = usd }) },
			Unpriced: func() { f.Do(func() { f.unpriced = true }) },
			Secrets:  []string{instanceKey(0)[:24]}, // instances' own keys share this prefix, so it finds any of them
			Without: map[string]string{
				"PagedOffers": "a search has one page",
				"Allow":       "the API tells no quota",
				"Tags":        "an instance has one label, which identifies its pool",
			},
		}
		maps.Copy(h.Without, without)
		return h
	})
}

// of starts a fake of machines with changed columns.
func of(changed row) func(*testing.T) *fake {
	return func(t *testing.T) *fake { return startFake(t, slices.Repeat([]row{changed}, 8)...) }
}

// account returns all resources in the account.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		for _, r := range f.instances.All(nil) {
			name := fmt.Sprint(r.row["label"])
			if t, ok := labels.Parse(name); ok {
				name = t.Name
			}
			all = append(all, driver.Resource{Kind: "machine", ID: fmt.Sprint(r.row["id"]), Name: name})
		}
		for _, k := range f.keys.All(nil) {
			name := k["text"].(string)
			if t := (sshKey{Key: name}).key().Tag; t.Pool != "" {
				name = pooltag.SharedName(t.Pool)
			}
			all = append(all, driver.Resource{Kind: "key", ID: fmt.Sprint(k["id"]), Name: name})
		}
		for _, n := range f.networks.All(nil) {
			all = append(all, driver.Resource{Kind: "network", ID: fmt.Sprint(n["overlay_id"]), Name: fmt.Sprint(n["name"])})
		}
	})
	return all
}

// foreign puts resources that are not gputrain's into the account, with names that
// resemble gputrain's.
func (f *fake) foreign() []string {
	f.Do(func() {
		for i, label := range []any{nil, "gputrain-p1-0"} {
			id := 500 + i
			f.instances.Put(nil, strconv.Itoa(id), &rental{row: row{"id": id, "actual_status": "running", "label": label, "dph_total": 0.5}})
		}
		f.keys.Put(nil, "502", row{"id": 502, "text": "ssh-ed25519 AAAAother gputrain@home"})
		f.networks.Put(nil, "503", row{"overlay_id": 503, "name": "lab", "subnet": "10.0.1.0/24", "cluster_id": 42, "instance_count": 1, "instances": []int{500}})
	})
	return []string{"500", "501", "502", "503"}
}

// states returns all states of the API, and one that the API does not have.
func (f *fake) states() []providertest.StateCase {
	var all []providertest.StateCase
	for _, s := range []struct {
		vendor  string
		columns row
		want    driver.InstanceState
	}{
		{"placing", row{"actual_status": nil}, driver.InstancePending},
		{"created", row{"actual_status": "created"}, driver.InstancePending},
		{"created, OCI runtime create failed", row{"actual_status": "created", "status_msg": "Error response from daemon: OCI runtime create failed: runc"}, driver.InstanceFailed},
		{"loading", row{"actual_status": "loading"}, driver.InstancePending},
		{"running", row{"actual_status": "running"}, driver.InstanceRunning},
		{"stopped", row{"actual_status": "stopped", "is_bid": false}, driver.InstanceStopped},
		{"frozen", row{"actual_status": "frozen"}, driver.InstanceStopped},
		{"exited", row{"actual_status": "exited"}, driver.InstanceFailed},
		{"rebooting", row{"actual_status": "rebooting"}, driver.InstancePending},
		{"unknown", row{"actual_status": "unknown"}, driver.InstanceFailed},
		{"offline", row{"actual_status": "offline"}, driver.InstanceFailed},
		{"outbid", row{"actual_status": "exited", "is_bid": true, "intended_status": "stopped", "cur_state": "stopped", "next_state": "stopped"}, driver.InstancePreempted},
		{"stopped for want of credit", row{"actual_status": "exited", "is_bid": false, "intended_status": "stopped", "cur_state": "stopped", "next_state": "stopped"}, driver.InstanceStopped},
		{"hibernating", row{"actual_status": "hibernating"}, driver.InstanceUnknown},
	} {
		all = append(all, providertest.StateCase{Vendor: s.vendor, Want: s.want, Set: func(id string) {
			f.Do(func() { f.newWord = s.want == driver.InstanceUnknown })
			f.set(id, s.columns)
		}})
	}
	return append(all, providertest.StateCase{Vendor: "gone", Want: driver.InstanceTerminated, Set: func(id string) {
		f.Do(func() { f.end(nil, id) })
	}})
}
