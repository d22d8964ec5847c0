package aws

import (
	"encoding/json"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// Each documented policy suffices for the life of a pool, and has nothing that is not used, except
// the role that spot and fleets need once per account. The fake refuses everything else.
func TestPolicies(t *testing.T) {
	t.Parallel()
	policies := documentedPolicies(t)
	if len(policies) != 2 || len(policies[1]) >= len(policies[0]) {
		t.Fatalf("%d policies; want one, and a shorter one", len(policies))
	}
	for i, policy := range policies {
		f := startFake(t)
		f.only = policy
		f.allow(100)
		d := prepared(t, f)
		spec := a10g
		spec.Allocation = driver.CheapestAllocation
		offers := cloudtest.AllOffers(t, d, spec.Query())
		if _, known := offers[1].HourlyUSD.USD(); len(offers) != 2 || known != (i == 0) {
			t.Errorf("%+v", offers)
		}
		if _, err := d.Quota(t.Context(), offers[1]); i == 0 && err != nil || i == 1 && !errors.Is(err, driver.ErrAuth) {
			t.Error(err)
		}
		got := mustLaunch(t, d, request(a10g, offers[1], 1))
		f.Do(func() {
			f.noFleets = true
			f.volumes.Put(nil, "vol-00000001", row{"VolumeId": "vol-00000001", "Size": 1, "Tags": []tagRow{{tagPool, "p1"}, {tagManaged, "true"}}})
		})
		req := request(spec, offers[0], 2)
		req.Nodes, req.Token = req.Nodes[1:], "other"
		got = append(got, mustLaunch(t, d, req)...)
		for _, in := range got {
			if err := d.MarkLease(t.Context(), cloudtest.Info("p1"), time.Now(), in.ID); err != nil {
				t.Error(err)
			}
			cloudtest.Describe(t, d, in.ID)
			if err := d.Terminate(t.Context(), in.ID); err != nil {
				t.Error(err)
			}
		}
		if _, err := d.List(t.Context(), ""); err != nil {
			t.Error(err)
		}
		if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
			t.Error(err)
		}
		if live := f.live(); len(live) != 0 {
			t.Errorf("left: %v", live)
		}
		f.Do(func() {
			f.used["iam:CreateServiceLinkedRole"] = true
			for _, action := range slices.Sorted(maps.Keys(policy)) {
				if !f.used[action] {
					t.Errorf("policy %d has %s, which nothing needs", i+1, action)
				}
			}
		})
	}
}

// documentedPolicies returns the actions of each policy in doc.go.
func documentedPolicies(t *testing.T) (all []map[string]bool) {
	t.Helper()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var policies []string
	inside := false
	for line := range strings.Lines(string(text)) {
		code, ok := strings.CutPrefix(line, "//\t")
		switch {
		case ok && strings.HasPrefix(code, `{"Version"`):
			policies, inside = append(policies, code), true
		case ok && inside:
			policies[len(policies)-1] += code
		default:
			inside = false
		}
	}
	for _, text := range policies {
		var policy struct {
			Version   string
			Statement []struct {
				Effect    string
				Action    any // one, or a list
				Resource  string
				Condition map[string]map[string]any
			}
		}
		if err := json.Unmarshal([]byte(text), &policy); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		actions := map[string]bool{}
		for _, s := range policy.Statement {
			switch action := s.Action.(type) {
			case string:
				actions[action] = true
			case []any:
				for _, a := range action {
					actions[a.(string)] = true
				}
			}
		}
		all = append(all, actions)
	}
	return all
}
