package gcp

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// The documented permissions suffice for the life of a pool, and all are needed. The fake refuses
// everything else.
func TestPermissions(t *testing.T) {
	t.Parallel()
	documented := documentedPermissions(t)
	for name, test := range map[string]struct {
		groups []string // beside those that every pool needs
		change func(*Config)
	}{
		"the least":       {change: func(c *Config) { c.NoFirewall, c.PrivateIP = true, true }},
		"everything":      {groups: []string{"unless NoFirewall", "unless PrivateIP", "with ServiceAccount", "for quotas and places"}, change: func(c *Config) { c.ServiceAccount = "node@p.iam.gserviceaccount.com" }},
		"no account":      {groups: []string{"unless NoFirewall", "unless PrivateIP", "for quotas and places"}},
		"no quotas asked": {groups: []string{"unless NoFirewall", "unless PrivateIP"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.granted = map[string]bool{}
			for _, group := range append(test.groups, "") {
				for _, p := range documented[group] {
					f.granted[p] = true
				}
			}
			d := f.open(func(c *Config) {
				if test.change != nil {
					test.change(c)
				}
			})
			pool := info("p1")
			if err := d.Prepare(t.Context(), pool); err != nil {
				t.Fatal(err)
			}
			spot := gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}
			q := spot.Query()
			if slices.Contains(test.groups, "for quotas and places") {
				q.Countries = []string{"US"}
			}
			o := cloudtest.AllOffers(t, d, q)[0]
			if _, err := d.Quota(t.Context(), o); slices.Contains(test.groups, "for quotas and places") {
				if err != nil {
					t.Error(err)
				}
			} else {
				is(t, err, driver.ErrAuth, "quota")
			}
			got, err := d.Launch(t.Context(), request(spot, o, 0, 1))
			if err != nil || len(got) != 2 {
				t.Fatalf("%+v, %v", got, err)
			}
			if err := d.MarkLease(t.Context(), pool, time.Now(), got[0].ID); err != nil {
				t.Error(err)
			}
			cloudtest.Describe(t, d, got[0].ID)
			f.preempt(got[1].ID)
			if in := cloudtest.Describe(t, d, got[1].ID); in.State != driver.InstancePreempted {
				t.Errorf("%+v", in)
			}
			if err := d.Terminate(t.Context(), got[0].ID); err != nil {
				t.Error(err)
			}
			f.Do(func() {
				f.disks.Put(nil, testZone+"/left", row{"name": "left", "zone": "projects/p/zones/" + testZone, "labels": row{labelManaged: "true", labelPool: "p1"}})
			})
			if _, err := d.List(t.Context(), ""); err != nil {
				t.Error(err)
			}
			if err := d.Release(t.Context(), pool); err != nil {
				t.Error(err)
			}
			if live := f.live(); len(live) != 0 {
				t.Errorf("left: %v", live)
			}
			f.Do(func() {
				for _, p := range slices.Sorted(maps.Keys(f.granted)) {
					if !f.used[p] {
						t.Errorf("%s is documented, and nothing needs it", p)
					}
				}
			})
		})
	}
}

// documentedPermissions returns the permissions in doc.go, by the condition under which they are
// needed.
func documentedPermissions(t *testing.T) map[string][]string {
	t.Helper()
	source, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(source), "// # Permissions")
	section, _, _ = strings.Cut(section, "// # Parameters")
	all := map[string][]string{}
	for line := range strings.Lines(section) {
		code, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "//\t")
		if !ok {
			continue
		}
		list, condition, _ := strings.Cut(code, "   ")
		for one := range strings.SplitSeq(list, ", ") {
			prefix, names, several := strings.Cut(strings.TrimSpace(one), "{")
			if !several {
				all[strings.TrimSpace(condition)] = append(all[strings.TrimSpace(condition)], prefix)
			}
			for name := range strings.SplitSeq(strings.TrimSuffix(names, "}"), ",") {
				if several {
					all[strings.TrimSpace(condition)] = append(all[strings.TrimSpace(condition)], prefix+name)
				}
			}
		}
	}
	return all
}
