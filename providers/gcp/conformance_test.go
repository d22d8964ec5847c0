package gcp

import (
	"crypto/rsa"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	t.Setenv("HOME", t.TempDir()) // where gcloud keeps a user's credentials
	c := standard.With(oneL4, inTestZone)
	with := func(f *fake, key *rsa.PrivateKey) Config {
		cfg := c.Config(f)
		cfg.Credentials = driver.Secret(f.account(key))
		return cfg
	}
	c.Conformance(t, func(f *fake) providertest.Harness {
		f.tokens = true
		return providertest.Harness{
			Provider: with(f, rightKey()),
			Foreign:  f.foreign,
			States:   f.states,
			Stall:    func() { f.Do(func() { f.status = "STAGING" }) },
			Allow:    f.allow, // the first offer has one L4
			Tags:     f.labels,
			Room:     func(n int) { f.Do(func() { f.room = n }) },
			Unpriced: func() { f.Do(func() { f.skus = nil }) },
			// Each zone has its own list.
			PagedOffers: true,
			MissingKey:  &providertest.MissingKey{Provider: Config{ProjectID: f.project}, Names: keyVariable},
			WrongKey:    with(f, wrongKey()),
			Secrets:     []string{privateLine(f.t, rightKey())},
			Without: map[string]string{
				"Funds": "Google bills by invoice: no API tells a balance",
				"terminate that does not find what has ended": "only spot machines are preempted: TestPreemptedInstanceThatIsNotFound",
			},
		}
	})
}

// labels returns the labels of an instance. The fake refuses a disk with others.
func (f *fake) labels(id string) map[string]string {
	all := map[string]string{}
	f.Do(func() {
		v, ok := f.instances.Get(nil, id)
		if !ok {
			f.t.Fatalf("there is no instance %s", id)
		}
		labels, _ := v.row["labels"].(row)
		for key, value := range labels {
			all[key] = text(value)
		}
	})
	return all
}

// everything returns all resources in the project, with those that gputrain did not make.
func (f *fake) everything() (all []driver.Resource) {
	f.Do(func() {
		for _, v := range f.instances.All(nil) {
			name := text(v.row["name"])
			all = append(all, driver.Resource{Kind: "machine", ID: instanceID(last(text(v.row["zone"])), name), Name: name})
		}
		for _, r := range f.rules.All(nil) {
			all = append(all, driver.Resource{Kind: kindFirewall, ID: text(r["name"]), Name: text(r["name"])})
		}
		for _, d := range f.disks.All(nil) {
			all = append(all, driver.Resource{Kind: kindVolume, ID: instanceID(last(text(d["zone"])), text(d["name"])), Name: text(d["name"])})
		}
		for _, i := range f.images.All(nil) {
			all = append(all, driver.Resource{Kind: "image", ID: text(i.row["name"]), Name: text(i.row["name"])})
		}
	})
	return all
}

// foreign puts resources into the project that look like gputrain's but are not.
func (f *fake) foreign() (ids []string) {
	f.Do(func() {
		f.noMachines = true
		f.put(nil, testZone, "web-1", row{"labels": row{"team": "web"}})
		f.put(nil, testZone, "gputrain-web", row{"labels": row{labelManaged: "true"}}) // without a pool
		f.rules.Put(nil, "default-allow-ssh", row{"kind": "compute#firewall", "name": "default-allow-ssh", "description": "Allow SSH from anywhere"})
		f.rules.Put(nil, "gputrain-ssh-mine", row{"kind": "compute#firewall", "name": "gputrain-ssh-mine"})
		f.disks.Put(nil, testZone+"/data", row{"name": "data", "zone": "projects/p/zones/" + testZone, "labels": row{"team": "web"}})
		f.images.Put(nil, "web-image", &fakeImage{row: row{"kind": "compute#image", "name": "web-image", "status": "READY", "labels": row{labelManaged: "true"}}})
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
	state := func(vendor string, want driver.InstanceState) providertest.StateCase {
		return providertest.StateCase{Vendor: vendor, Want: want, Set: func(id string) { f.set(id, row{"status": vendor}) }}
	}
	return []providertest.StateCase{
		state("PENDING", driver.InstancePending), state("PROVISIONING", driver.InstancePending), state("STAGING", driver.InstancePending),
		state("REPAIRING", driver.InstancePending), state("RUNNING", driver.InstanceRunning),
		state("STOPPING", driver.InstanceStopped), state("SUSPENDING", driver.InstanceStopped), state("SUSPENDED", driver.InstanceStopped),
		state("TERMINATED", driver.InstanceStopped), state("STOPPED", driver.InstanceStopped), state("PENDING_STOP", driver.InstanceStopped),
		state("DEPROVISIONING", driver.InstanceStopped),
		state("HIBERNATING", driver.InstanceUnknown),
	}
}
