package gcp

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/fakecloud"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	providertest.Run(t, func(t *testing.T) providertest.Harness {
		t.Setenv("HOME", t.TempDir()) // where gcloud keeps a user's credentials
		f := startFake(t)
		f.tokens = true
		fault, calls := providertest.OnServer(f.Server, map[providertest.Op][]string{
			providertest.OpOffers:    {opTypes},
			providertest.OpPrepare:   {opAddRule},
			providertest.OpLaunch:    {opInsert},
			providertest.OpDescribe:  {opGet},
			providertest.OpList:      {opAll},
			providertest.OpTerminate: {opDelete},
			providertest.OpRelease:   {opDelRule},
		})
		cfg := f.config()
		cfg.Region, cfg.Zone = "us-central1", testZone
		cfg.Credentials = gputrain.Secret(f.account(rightKey()))
		wrong := cfg
		wrong.Credentials = gputrain.Secret(f.account(wrongKey()))
		return providertest.Harness{
			Provider: cfg,
			Spec:     gputrain.Spec{Accelerator: accelerators.L4()},
			Account:  f.everything,
			Calls:    calls,
			Fault:    fault,
			Foreign:  f.foreign,
			States:   f.states,
			Stall:    func() { f.Do(func() { f.status = "STAGING" }) },
			Room:     func(n int) { f.Do(func() { f.room = n }) },
			Unpriced: func() { f.Do(func() { f.skus = nil }) },
			// Each zone is a list of its own.
			PagedOffers: true,
			MissingKey:  &providertest.MissingKey{Provider: Config{ProjectID: f.project}, Names: keyVariable},
			WrongKey:    wrong,
			Secrets:     []string{testToken, privateLine(t, rightKey())},
			Dial:        fakecloud.Dial,
			Without: map[string]string{
				"terminate that does not find what has ended": "only spot machines are preempted: TestPreemptedInstanceThatIsNotFound",
			},
		}
	})
}

// everything is what the project holds, whoever made it.
func (f *fake) everything() (all []gputrain.Resource) {
	f.Do(func() {
		for _, v := range f.instances.All(nil) {
			name := text(v.row["name"])
			all = append(all, gputrain.Resource{Kind: "machine", ID: instanceID(last(text(v.row["zone"])), name), Name: name})
		}
		for _, r := range f.rules.All(nil) {
			all = append(all, gputrain.Resource{Kind: kindFirewall, ID: text(r["name"]), Name: text(r["name"])})
		}
		for _, d := range f.disks.All(nil) {
			all = append(all, gputrain.Resource{Kind: kindVolume, ID: instanceID(last(text(d["zone"])), text(d["name"])), Name: text(d["name"])})
		}
	})
	return all
}

// foreign puts into the project what looks like gputrain's and is not.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		f.noMachines = true
		f.put(nil, testZone, "web-1", row{"labels": row{"team": "web"}})
		f.put(nil, testZone, "gputrain-web", row{"labels": row{labelManaged: "true"}}) // without a pool
		f.rules.Put(nil, "default-allow-ssh", row{"kind": "compute#firewall", "name": "default-allow-ssh", "description": "Allow SSH from anywhere"})
		f.rules.Put(nil, "gputrain-ssh-mine", row{"kind": "compute#firewall", "name": "gputrain-ssh-mine"})
		f.disks.Put(nil, testZone+"/data", row{"name": "data", "zone": "projects/p/zones/" + testZone, "labels": row{"team": "web"}})
		f.noMachines = false
	})
	for _, r := range f.everything() {
		if strings.HasPrefix(r.Name, "web") || strings.HasPrefix(r.Name, "default") || strings.HasPrefix(r.Name, "gputrain-web") || strings.HasSuffix(r.Name, "-mine") || r.Name == "data" {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

func (f *fake) states() []providertest.StateCase {
	state := func(vendor string, want gputrain.InstanceState) providertest.StateCase {
		return providertest.StateCase{Vendor: vendor, Want: want, Set: func(id string) { f.set(id, row{"status": vendor}) }}
	}
	return []providertest.StateCase{
		state("PENDING", gputrain.InstancePending), state("PROVISIONING", gputrain.InstancePending), state("STAGING", gputrain.InstancePending),
		state("REPAIRING", gputrain.InstancePending), state("RUNNING", gputrain.InstanceRunning),
		state("STOPPING", gputrain.InstanceStopped), state("SUSPENDING", gputrain.InstanceStopped), state("SUSPENDED", gputrain.InstanceStopped),
		state("TERMINATED", gputrain.InstanceStopped), state("STOPPED", gputrain.InstanceStopped), state("PENDING_STOP", gputrain.InstanceStopped),
		state("DEPROVISIONING", gputrain.InstanceStopped),
		state("HIBERNATING", gputrain.InstanceUnknown),
	}
}
