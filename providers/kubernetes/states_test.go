package kubernetes

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

var noon = time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)

func scheduled() pod {
	p := pod{Spec: podSpec{NodeName: "n1"}, Status: podStatus{Phase: "Pending"}}
	p.Status.Conditions = []condition{{Type: "PodScheduled", Status: "True"}}
	return p
}

func waitingFor(reason, message string) pod {
	p := scheduled()
	p.Status.ContainerStatuses = []containerStatus{{Name: "istio-proxy", Ready: true}, {Name: containerName, State: containerState{Waiting: &waiting{reason, message}}}}
	return p
}

func unscheduled(reason, message string) pod {
	return pod{Status: podStatus{Phase: "Pending", Conditions: []condition{{Type: "PodScheduled", Status: "False", Reason: reason, Message: message}}}}
}

func runningPod(ready, reason string, since time.Duration) pod {
	p := scheduled()
	p.Status.Phase = "Running"
	p.Status.Conditions = append(p.Status.Conditions, condition{Type: "Ready", Status: ready, Reason: reason, LastTransitionTime: noon.Add(-since)})
	p.Status.ContainerStatuses = []containerStatus{{Name: containerName, Ready: true}}
	return p
}

// ending is a pod that must have ended so long ago, or in the future.
func ending(ago time.Duration, disruption string) pod {
	p := runningPod("True", "", time.Hour)
	p.Metadata.DeletionTimestamp = noon.Add(-ago)
	if disruption != "" {
		p.Status.Conditions = append(p.Status.Conditions, condition{Type: "DisruptionTarget", Status: "True", Reason: disruption})
	}
	return p
}

func endedPod(code int, reason, podReason, disruption string) pod {
	p := ending(0, disruption)
	p.Metadata.DeletionTimestamp = time.Time{}
	p.Status.Phase, p.Status.Reason = "Failed", podReason
	if code == 0 {
		p.Status.Phase = "Succeeded"
	}
	p.Status.ContainerStatuses = []containerStatus{{Name: containerName, State: containerState{Terminated: &terminated{code, reason}}}}
	return p
}

func jobWith(suspend bool, queue string, all ...condition) *job {
	j := &job{Spec: jobSpec{Suspend: suspend}, Metadata: meta{Labels: map[string]string{}}, Status: jobStatus{Conditions: all}}
	if queue != "" {
		j.Metadata.Labels["kueue.x-k8s.io/queue-name"] = queue
	}
	return j
}

func failedBy(reason string) condition {
	return condition{Type: "FailureTarget", Status: "True", Reason: reason, Message: "the Job's words"}
}

// The table of states, line by line.
func TestStates(t *testing.T) {
	t.Parallel()
	plain := jobWith(false, "")
	overdue := jobWith(false, "", failedBy("DeadlineExceeded"))
	for name, tt := range map[string]struct {
		job    *job
		pod    pod
		none   bool // no pod
		want   driver.InstanceState
		reason string
	}{
		"no pod yet":                 {job: plain, none: true, want: driver.InstancePending, reason: "has no pod yet"},
		"suspended by Kueue":         {job: jobWith(true, "research"), none: true, want: driver.InstancePending, reason: "queued by Kueue in research"},
		"suspended":                  {job: jobWith(true, ""), none: true, want: driver.InstancePending, reason: "suspended"},
		"unschedulable":              {job: plain, pod: unscheduled("Unschedulable", "0/2 nodes are available: 2 Insufficient nvidia.com/gpu"), want: driver.InstancePending, reason: "2 Insufficient nvidia.com/gpu"},
		"gated":                      {job: plain, pod: unscheduled("SchedulingGated", ""), want: driver.InstancePending, reason: "SchedulingGated"},
		"not looked at":              {job: plain, pod: pod{Status: podStatus{Phase: "Pending"}}, want: driver.InstancePending, reason: "not scheduled yet"},
		"scheduled":                  {job: plain, pod: scheduled(), want: driver.InstancePending, reason: "starts on n1"},
		"being made":                 {job: plain, pod: waitingFor("ContainerCreating", ""), want: driver.InstancePending, reason: "ContainerCreating on n1"},
		"initializing":               {job: plain, pod: waitingFor("PodInitializing", ""), want: driver.InstancePending, reason: "PodInitializing on n1"},
		"image not found":            {job: plain, pod: waitingFor("ErrImagePull", "not found"), want: driver.InstancePending, reason: "ErrImagePull: not found"},
		"image not found, and pause": {job: plain, pod: waitingFor("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: not found`), want: driver.InstancePending, reason: "ErrImagePull: not found"},
		"image without a name":       {job: plain, pod: waitingFor("InvalidImageName", "bad"), want: driver.InstancePending, reason: "InvalidImageName: bad"},
		"bad configuration":          {job: plain, pod: waitingFor("CreateContainerConfigError", "bad"), want: driver.InstancePending, reason: "CreateContainerConfigError"},
		"runs":                       {job: plain, pod: runningPod("True", "", time.Hour), want: driver.InstanceRunning},
		"a sidecar is not ready":     {job: plain, pod: runningPod("False", "ContainersNotReady", time.Hour), want: driver.InstanceRunning},
		"node does not answer":       {job: plain, pod: runningPod("False", "", 30*time.Second), want: driver.InstanceRunning, reason: "n1 does not answer"},
		"node is lost":               {job: plain, pod: runningPod("False", "", 61*time.Second), want: driver.InstanceFailed, reason: "n1 has not answered for 1m0s"},
		"told to end":                {job: plain, pod: ending(-20*time.Second, ""), want: driver.InstanceStopped, reason: "its pod ends"},
		"preempted, with notice":     {job: plain, pod: ending(-20*time.Second, "PreemptionByScheduler"), want: driver.InstanceRunning, reason: "PreemptionByScheduler"},
		"preempted":                  {job: plain, pod: ending(time.Second, "PreemptionByScheduler"), want: driver.InstancePreempted, reason: "PreemptionByScheduler"},
		"evicted, with notice":       {job: plain, pod: ending(-20*time.Second, "EvictionByEvictionAPI"), want: driver.InstanceRunning, reason: "EvictionByEvictionAPI"},
		"deleted on a lost node":     {job: plain, pod: ending(-20*time.Second, "DeletionByTaintManager"), want: driver.InstanceFailed, reason: "may still run there"},
		"does not end":               {job: plain, pod: ending(2*time.Minute, ""), want: driver.InstanceFailed, reason: "may still run there, with its GPUs"},
		"outlives its Job":           {pod: ending(-20*time.Second, ""), want: driver.InstanceStopped, reason: "its pod ends"},
		"outlives it for long":       {pod: ending(2*time.Minute, ""), want: driver.InstanceFailed, reason: "may still run there"},
		"deadline, pod ends":         {job: overdue, pod: ending(-time.Second, ""), want: driver.InstanceStopped, reason: "deadline"},
		"deadline, pod gone":         {job: overdue, none: true, want: driver.InstanceTerminated, reason: "deadline has passed"},
		"deadline, pod failed":       {job: overdue, pod: endedPod(143, "Error", "", ""), want: driver.InstanceTerminated, reason: "deadline has passed"},
		"ended itself":               {job: plain, pod: endedPod(0, "Completed", "", ""), want: driver.InstanceTerminated, reason: "has ended itself"},
		"complete, pod gone":         {job: jobWith(false, "", condition{Type: "Complete", Status: "True"}), none: true, want: driver.InstanceTerminated, reason: "has ended itself"},
		"preempted, ended":           {job: plain, pod: endedPod(143, "Error", "", "PreemptionByScheduler"), want: driver.InstancePreempted, reason: "PreemptionByScheduler"},
		"evicted, ended":             {job: plain, pod: endedPod(143, "Error", "", "EvictionByEvictionAPI"), want: driver.InstancePreempted, reason: "EvictionByEvictionAPI"},
		"shut down with notice":      {job: plain, pod: endedPod(137, "Error", "Terminated", "TerminationByKubelet"), want: driver.InstancePreempted, reason: "TerminationByKubelet"},
		"shut down":                  {job: plain, pod: endedPod(137, "Error", "Shutdown", ""), want: driver.InstanceFailed, reason: "Shutdown"},
		"lost and ended":             {job: plain, pod: endedPod(137, "Error", "", "DeletionByTaintManager"), want: driver.InstanceFailed, reason: "DeletionByTaintManager"},
		"over its disk":              {job: plain, pod: endedPod(137, "Error", "Evicted", "TerminationByKubelet"), want: driver.InstanceFailed, reason: "Evicted"},
		"out of memory":              {job: plain, pod: endedPod(137, "OOMKilled", "", ""), want: driver.InstanceFailed, reason: "Spec.MemoryGiB"},
		"card taken":                 {job: plain, pod: endedPod(1, "", "OutOfnvidia.com/gpu", ""), want: driver.InstanceFailed, reason: "OutOfnvidia.com/gpu"},
		"admission":                  {job: plain, pod: endedPod(1, "", "UnexpectedAdmissionError", ""), want: driver.InstanceFailed, reason: "UnexpectedAdmissionError"},
		"affinity":                   {job: plain, pod: endedPod(1, "", "NodeAffinity", ""), want: driver.InstanceFailed, reason: "NodeAffinity"},
		"deleted by a user":          {job: plain, pod: endedPod(143, "Error", "", ""), want: driver.InstanceTerminated, reason: "was deleted"},
		"no SSH server":              {job: plain, pod: endedPod(70, "Error", "", ""), want: driver.InstanceFailed, reason: "code 70"},
		"disrupted, pod gone":        {job: jobWith(false, "", failedBy("PodFailurePolicy")), none: true, want: driver.InstancePreempted, reason: "preempted or evicted: the Job's words"},
		"a phase of its own":         {job: plain, pod: pod{Status: podStatus{Phase: "Hibernating"}}, want: driver.InstanceUnknown, reason: "Hibernating"},
		"a Job in deletion":          {job: &job{Metadata: meta{DeletionTimestamp: noon}}, none: true, want: driver.InstanceStopped, reason: "being deleted"},
	} {
		p := &tt.pod
		if tt.none {
			p = nil
		}
		got := stateOf(tt.job, p, noon)
		if got.state != tt.want || !strings.Contains(got.reason, tt.reason) {
			t.Errorf("%s: %v, %q; want %v, %q", name, got.state, got.reason, tt.want, tt.reason)
		}
		if notice := strings.HasSuffix(name, "with notice") && tt.want == driver.InstanceRunning; notice != (got.state == driver.InstanceRunning && !got.preemptAt.IsZero()) {
			t.Errorf("%s: PreemptAt is %v", name, got.preemptAt)
		}
	}
}

// launched returns a driver on a fake whose pods are only objects, with a machine.
func launched(t *testing.T, f *fake, c Config) (*kubernetesDriver, driver.Instance) {
	t.Helper()
	f.Do(func() { f.noNodes = true })
	d := cloudtest.Prepared(t, c)
	return d.(*kubernetesDriver), cloudtest.MustLaunch(t, d, oneA100.Query(), 0)
}

// The scheduler deletes the pod that it preempts: only an event remains.
func TestPreemptedPodIsGone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := launched(t, f, f.config())
	f.Do(func() {
		f.classes["urgent"] = 100
		f.addPods(4, "urgent")
	})
	now := cloudtest.Describe(t, d, in.ID)
	if now.State != driver.InstancePreempted || !strings.Contains(now.StateReason, "Preempted by pod") {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
}

// A pod that is deleted by others, and leaves no reason, is a failure and no success.
func TestPodIsGoneWithoutAReason(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := launched(t, f, f.config())
	f.Do(func() { f.endPod(f.podOf(in.ID), 0) })
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || !strings.Contains(now.StateReason, "BackoffLimitExceeded") {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
}

// A Job whose Secret was never made, as by a program that was killed in between, ends soon, and not at the end of the TTL.
func TestKilledBeforeTheSecret(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Prepared(t, f.config())
	for _, op := range []string{opMakeKey, opDeleteJob, opDeletePod} {
		f.Inject(faultOn(op, 403))
	}
	req := cloudtest.Request(t, oneA100.Query(), cloudtest.AllOffers(t, d, oneA100.Query())[0], 0)
	req.Pool.Expires = time.Now().Add(24 * time.Hour)
	if _, err := d.Launch(t.Context(), req); err == nil {
		t.Error("a node without a Secret is launched")
	}
	if left := f.account(); len(left) != 1 {
		t.Fatalf("%v is left", left)
	}
	f.Do(func() { f.shift = secretWait + 2*time.Second })
	f.account()
	f.Do(func() { f.shift = secretWait + 2*time.Minute })
	if left := f.account(); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// The Job itself ends a node at the end of its TTL, and everything is removed after it.
func TestDeadline(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	c := f.config()
	f.Do(func() { f.noNodes = true })
	d := cloudtest.Prepared(t, c)
	req := cloudtest.Request(t, oneA100.Query(), cloudtest.AllOffers(t, d, oneA100.Query())[0], 0)
	req.Pool.Expires = time.Now().Add(time.Hour)
	got, err := d.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	f.Do(func() { f.shift = time.Hour - 2*time.Minute })
	if now := cloudtest.Describe(t, d, got[0].ID); now.State != driver.InstanceRunning {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	f.Do(func() { f.shift = time.Hour + 2*time.Second })
	if now := cloudtest.Describe(t, d, got[0].ID); now.State != driver.InstanceTerminated || !strings.Contains(now.StateReason, "deadline") {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	f.Do(func() { f.shift = time.Hour + 2*time.Minute })
	if left := f.account(); len(left) > 0 || len(f.secrets) > 0 {
		t.Errorf("%v and %d Secrets are left", left, len(f.secrets))
	}
}

// A pod whose cluster node is lost stays until the node is gone, or has not answered for long.
func TestLostNode(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, in := launched(t, f, f.config())
	f.Do(func() { f.keepPods = true })
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceStopped {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	var lost string
	f.Do(func() {
		lost = f.podOf(in.ID).Spec.NodeName
		f.nodes[lost].Status.Conditions = []condition{{Type: "Ready", Status: "Unknown", LastTransitionTime: f.now()}}
		f.shift = 2 * time.Minute
	})
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceFailed || !strings.Contains(now.StateReason, "may still run there") {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State == driver.InstanceTerminated {
		t.Errorf("it counts as gone after two minutes: %q", now.StateReason)
	}
	f.Do(func() { f.shift = 6 * time.Minute })
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
		t.Errorf("%v, %q", now.State, now.StateReason)
	}
}

// An ID of another cluster must not look like a machine that is gone.
func TestOtherCluster(t *testing.T) {
	t.Parallel()
	f, g := startFake(t), startFake(t)
	d := cloudtest.Open(t, Config{Kubeconfig: kubeconfigOf(t, testToken, f, g), Contexts: []string{"team", "other"}})
	for _, id := range []string{"p1-0", "p1-0@deadbeef"} {
		if got, err := d.Describe(t.Context(), id); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%v, %v", got, err)
		}
		if err := d.Terminate(t.Context(), id); !errors.Is(err, driver.ErrInvalid) {
			t.Error(err)
		}
	}
}
