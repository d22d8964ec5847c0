package kubernetes

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// The controllers of the fake. They work at every call, with the state locked.
func (f *fake) reconcile() {
	f.finishPods()
	f.control()
	f.collect()
	f.schedule()
	f.start()
}

func (f *fake) event(kind, name, reason, message string) {
	f.events = append(f.events, event{InvolvedObject: involved{kind, name}, Reason: reason, Message: message, LastTimestamp: f.now()})
}

// control is the Job controller: it makes pods, notices their ends, and keeps deadlines.
func (f *fake) control() {
	for _, j := range sorted(f.jobs) {
		ended := j.ended()
		switch {
		case ended.Type != "":
			if f.now().Sub(ended.LastTransitionTime) >= time.Duration(j.Spec.TTLSecondsAfterFinished)*time.Second {
				delete(f.jobs, j.Metadata.Name) // in the background
			}
			continue
		case j.Spec.Suspend:
			continue
		}
		if f.now().Sub(j.Status.StartTime) >= time.Duration(j.Spec.ActiveDeadlineSeconds)*time.Second {
			f.endJob(j, "Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
			for _, p := range f.pods {
				if owned(p.Metadata, j.Metadata.UID) {
					f.endPod(p, p.Spec.TerminationGracePeriodSeconds)
				}
			}
			continue
		}
		f.watch(j)
	}
}

// watch looks at the pod of a Job.
func (f *fake) watch(j *job) {
	var mine *pod
	for _, p := range f.pods {
		if owned(p.Metadata, j.Metadata.UID) {
			mine = p
		}
	}
	switch {
	case mine != nil && mine.Status.Phase == "Failed" && find(mine.Status.Conditions, disrupted).Status == "True" && j.Spec.PodFailurePolicy != nil:
		f.endJob(j, "Failed", "PodFailurePolicy", "Pod lab/"+mine.Metadata.Name+" has condition DisruptionTarget matching FailJob rule at index 0")
	case mine == nil && j.Status.Active > 0, mine != nil && mine.Status.Phase == "Failed":
		f.endJob(j, "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
	case mine != nil && mine.Status.Phase == "Succeeded":
		f.endJob(j, "Complete", "CompletionsReached", "Reached expected number of succeeded pods")
	case mine == nil && f.policy != "":
		f.event("Job", j.Metadata.Name, "FailedCreate", fmt.Sprintf("Error creating: pods %q is forbidden: %s", j.Metadata.Name+"-abcde", f.policy))
	case mine == nil && f.quota > 0 && len(f.pods) >= f.quota:
		f.event("Job", j.Metadata.Name, "FailedCreate", fmt.Sprintf("Error creating: pods %q is forbidden: exceeded quota: gpus, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=%d, limited: requests.nvidia.com/gpu=%d",
			j.Metadata.Name+"-abcde", f.quota, f.quota))
	case mine == nil:
		name := j.Metadata.Name + "-" + strings.ToLower(rand.Text()[:5])
		m := j.Spec.Template.Metadata
		m.Name, m.UID, m.CreationTimestamp = name, rand.Text(), f.now()
		m.OwnerReferences = []owner{{"batch/v1", "Job", j.Metadata.Name, j.Metadata.UID}}
		f.pods[name] = &pod{Metadata: m, Spec: j.Spec.Template.Spec, Status: podStatus{Phase: "Pending"}}
		j.Status.Active = 1
		f.event("Job", j.Metadata.Name, "SuccessfulCreate", "Created pod: "+name)
	}
}

func (f *fake) endJob(j *job, kind, reason, message string) {
	if kind == "Failed" {
		j.Status.Conditions = append(j.Status.Conditions, condition{Type: "FailureTarget", Status: "True", Reason: reason, Message: message, LastTransitionTime: f.now()})
	}
	j.Status.Conditions = append(j.Status.Conditions, condition{Type: kind, Status: "True", Reason: reason, Message: message, LastTransitionTime: f.now()})
}

// collect removes what belongs to a Job that is gone.
func (f *fake) collect() {
	alive := map[string]bool{}
	for _, j := range f.jobs {
		alive[j.Metadata.UID] = true
	}
	gone := func(m meta) bool {
		return len(m.OwnerReferences) > 0 && !alive[m.OwnerReferences[0].UID]
	}
	for _, p := range sorted(f.pods) {
		if gone(p.Metadata) && p.Metadata.DeletionTimestamp.IsZero() {
			f.endPod(p, p.Spec.TerminationGracePeriodSeconds)
		}
	}
	for name, s := range f.secrets {
		if gone(s.Metadata) {
			delete(f.secrets, name)
		}
	}
}

// endPod tells a pod to end. Its machine ends at once.
func (f *fake) endPod(p *pod, grace int64) {
	end := f.now().Add(time.Duration(grace) * time.Second)
	if p.Metadata.DeletionTimestamp.IsZero() || end.Before(p.Metadata.DeletionTimestamp) {
		p.Metadata.DeletionTimestamp = end
	}
	if f.keepPods && grace > 0 {
		return
	}
	delete(f.pods, p.Metadata.Name)
	f.kill(p.Metadata.Name)
}

func (f *fake) kill(name string) {
	f.mu.Lock()
	m := f.machines[name]
	delete(f.machines, name)
	f.mu.Unlock()
	if m != nil {
		m.Kill()
	}
}

// priority returns the priority of a pod by its class.
func (f *fake) priority(p *pod) int { return f.classes[p.Spec.PriorityClassName] }

func gpusOf(p *pod) (n int) {
	for _, c := range p.Spec.Containers {
		n, _ = strconv.Atoi(c.Resources.Limits[nvidiaResource])
	}
	return n
}

// schedule finds a cluster node for each pod, by GPUs and affinity. A pod of higher priority
// displaces others.
func (f *fake) schedule() {
	for _, p := range sorted(f.pods) {
		if p.Spec.NodeName != "" || p.Status.Phase != "Pending" || f.stalled {
			continue
		}
		if name := f.room(p); name != "" {
			f.bind(p, name)
			continue
		}
		if name := f.displace(p); name != "" {
			f.bind(p, name)
			continue
		}
		p.Status.Conditions = []condition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", LastTransitionTime: f.now(),
			Message: fmt.Sprintf("0/%d nodes are available: %d Insufficient nvidia.com/gpu.", len(f.nodes), len(f.nodes))}}
	}
}

func (f *fake) bind(p *pod, name string) {
	p.Spec.NodeName = name
	p.Status.Conditions = []condition{{Type: "PodScheduled", Status: "True", LastTransitionTime: f.now()}}
}

// fits reports whether a cluster node is one that a pod's affinity names.
func fits(p *pod, labels map[string]string) bool {
	var a struct {
		NodeAffinity struct {
			RequiredDuringSchedulingIgnoredDuringExecution struct {
				NodeSelectorTerms []struct {
					MatchExpressions []struct {
						Key, Operator string
						Values        []string
					}
				}
			}
		}
	}
	if len(p.Spec.Affinity) == 0 || json.Unmarshal(p.Spec.Affinity, &a) != nil {
		return len(p.Spec.Affinity) == 0
	}
	for _, term := range a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		all := true
		for _, e := range term.MatchExpressions {
			all = all && (slices.Contains(e.Values, labels[e.Key]) == (e.Operator == "In"))
		}
		if all {
			return true
		}
	}
	return false
}

func (f *fake) room(p *pod) string {
	for _, n := range sorted(f.nodes) {
		free, _ := strconv.Atoi(n.Status.Allocatable[nvidiaResource])
		for _, other := range f.pods {
			if other.Spec.NodeName == n.Metadata.Name && !other.over() {
				free -= gpusOf(other)
			}
		}
		if free >= gpusOf(p) && fits(p, n.Metadata.Labels) {
			return n.Metadata.Name
		}
	}
	return ""
}

// displace deletes a pod of lower priority, which leaves an event alone.
func (f *fake) displace(p *pod) string {
	for _, victim := range sorted(f.pods) {
		if victim.Spec.NodeName != "" && !victim.over() && f.priority(victim) < f.priority(p) && gpusOf(victim) >= gpusOf(p) {
			f.event("Pod", victim.Metadata.Name, "Preempted", fmt.Sprintf("Preempted by pod %s on node %s", p.Metadata.UID, victim.Spec.NodeName))
			f.endPod(victim, 0)
			return victim.Spec.NodeName
		}
	}
	return ""
}

// start makes the containers of pods that have a cluster node and their Secret.
func (f *fake) start() {
	for _, p := range sorted(f.pods) {
		if p.Spec.NodeName == "" || p.Status.Phase != "Pending" || !p.Metadata.DeletionTimestamp.IsZero() {
			continue
		}
		ours := containerStatus{Name: containerName}
		s := f.secrets[p.Metadata.Labels[keyNode]]
		switch image := p.Spec.Containers[0].Image; {
		case image == f.badImage && image != "":
			ours.State.Waiting = &waiting{"ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: ErrImagePull: not found", image)}
		case s == nil:
			ours.State.Waiting = &waiting{Reason: "ContainerCreating"}
		default:
			f.boot(p, s)
			ours.Ready = true
			p.Status.Phase, p.Status.Conditions = "Running", append(p.Status.Conditions, condition{Type: "Ready", Status: "True", LastTransitionTime: f.now()})
		}
		p.Status.ContainerStatuses = []containerStatus{{Name: "a-sidecar", Ready: true}, ours}
	}
}

// boot starts the machine of a pod, with the keys of its Secret. What it runs to end itself is that
// of the machine.
func (f *fake) boot(p *pod, s *secret) {
	p.Status.PodIP = "198.51.100.7"
	if f.noNodes {
		return
	}
	run := f.t.TempDir()
	if err := os.WriteFile(filepath.Join(run, "end"), []byte("poweroff\n"), 0o600); err != nil {
		f.t.Error(err)
	}
	m := fakecloud.NewMachine(f.t, fakecloud.MachineConfig{
		AuthorizedKey: strings.TrimSpace(string(s.Data["authorized_keys"])), HostKey: string(s.Data["host_key"]),
		User: p.Metadata.Annotations[keyUser], Env: []string{"GPUTRAIN_POD_RUN=" + run},
	})
	p.Status.PodIP = m.PublicIP
	f.mu.Lock()
	f.machines[p.Metadata.Name] = m
	f.mu.Unlock()
}

// finishPods notices machines that have ended themselves, and pods whose time to end is over.
func (f *fake) finishPods() {
	for _, p := range sorted(f.pods) {
		f.mu.Lock()
		m := f.machines[p.Metadata.Name]
		f.mu.Unlock()
		if m != nil {
			if state, _ := m.State(); state == fakecloud.Down && p.Status.Phase == "Running" {
				f.finish(p, 0, "Completed")
			}
		}
	}
}

// finish ends the container of a pod.
func (f *fake) finish(p *pod, code int, reason string) {
	p.Status.Phase = "Failed"
	if code == 0 {
		p.Status.Phase = "Succeeded"
	}
	p.Status.ContainerStatuses = []containerStatus{{Name: containerName, State: containerState{Terminated: &terminated{code, reason}}}}
	f.kill(p.Metadata.Name)
}

// podOf returns the pod of a machine.
func (f *fake) podOf(id string) *pod {
	for _, p := range f.pods {
		if p.Metadata.Labels[keyNode] == id {
			return p
		}
	}
	return nil
}
