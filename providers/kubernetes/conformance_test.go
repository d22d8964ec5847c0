package kubernetes

import (
	"fmt"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/providertest"
)

func TestConformance(t *testing.T) {
	standard.Conformance(t, func(f *fake) providertest.Harness {
		return providertest.Harness{
			Foreign: f.foreign, States: f.states,
			Stall:      func() { f.Do(func() { f.stalled = true }) },
			WrongKey:   Config{Kubeconfig: f.kubeconfig("wrong-token")},
			MissingKey: &providertest.MissingKey{Provider: Config{}, Names: "KUBECONFIG"},
			Tags: func(id string) (labels map[string]string) {
				f.Do(func() { labels = f.jobs[id].Metadata.Labels })
				return labels
			},
			Without: map[string]string{
				"Funds": "a cluster has no money", "Allow": "no API tells how many pods a quota leaves: it depends on what they ask for",
				"Room":                      "a Job is accepted whether there is room or not; it waits, and is given up: TestGivenUp",
				"Unpriced":                  "the API has no prices: Config has them",
				"PagedOffers":               "offers are made of the whole list of cluster nodes",
				"offers name their country": "a cluster does not say in which country its machines are",
			},
		}
	})
}

// account returns what exists, with what no Job owns any more.
func (f *fake) account() (all []driver.Resource) {
	f.Do(func() {
		f.reconcile()
		for _, j := range sorted(f.jobs) {
			all = append(all, driver.Resource{Kind: "machine", ID: j.Metadata.Name, Name: j.Metadata.Name})
		}
		for _, p := range sorted(f.pods) {
			if name := p.Metadata.Labels[keyNode]; name != "" && f.jobs[name] == nil {
				all = append(all, driver.Resource{Kind: "machine", ID: name, Name: name})
			}
		}
		for _, s := range sorted(f.secrets) {
			if f.jobs[s.Metadata.Name] == nil {
				all = append(all, driver.Resource{Kind: "secret", ID: s.Metadata.Name, Name: s.Metadata.Name})
			}
		}
	})
	return all
}

// foreign makes a Job of another tool, and one with our label that no program of ours has made.
func (f *fake) foreign() []string {
	f.Do(func() {
		f.jobs["training"] = &job{Metadata: meta{Name: "training", UID: "u1"}, Spec: jobSpec{Suspend: true}}
		f.jobs["copied"] = &job{Metadata: meta{Name: "copied", UID: "u2", Labels: map[string]string{keyPool: "p1", keyNode: "p1-0"}}, Spec: jobSpec{Suspend: true}}
	})
	return []string{"training", "copied"}
}

// states are the ends of pods, and a phase that Kubernetes does not have.
func (f *fake) states() (cases []providertest.StateCase) {
	add := func(vendor string, want driver.InstanceState, set func(*pod)) {
		cases = append(cases, providertest.StateCase{Vendor: vendor, Want: want, Set: func(id string) {
			f.Do(func() { set(f.podOf(id)) })
		}})
	}
	disrupted := func(code int, reason string) func(*pod) {
		return func(p *pod) {
			f.finish(p, code, "Error")
			p.Status.Conditions = append(p.Status.Conditions, condition{Type: "DisruptionTarget", Status: "True", Reason: reason, Message: fmt.Sprint("by ", reason)})
		}
	}
	add("Running", driver.InstanceRunning, func(*pod) {})
	add("PreemptionByScheduler", driver.InstancePreempted, disrupted(143, "PreemptionByScheduler"))
	add("EvictionByEvictionAPI", driver.InstancePreempted, disrupted(143, "EvictionByEvictionAPI"))
	add("TerminationByKubelet", driver.InstancePreempted, disrupted(143, "TerminationByKubelet"))
	add("OOMKilled", driver.InstanceFailed, func(p *pod) { f.finish(p, 137, "OOMKilled") })
	add("Evicted", driver.InstanceFailed, func(p *pod) { f.finish(p, 137, "Error"); p.Status.Reason = "Evicted" })
	add("Succeeded", driver.InstanceTerminated, func(p *pod) { f.finish(p, 0, "Completed") })
	add("Hibernating", driver.InstanceUnknown, func(p *pod) { p.Status.Phase = "Hibernating" })
	return cases
}
