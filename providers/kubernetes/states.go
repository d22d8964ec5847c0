package kubernetes

import (
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A report is the state of a machine, by its Job and its pod.
type report struct {
	state     driver.InstanceState
	reason    string
	kind      error
	preemptAt time.Time

	waits    bool   // no cluster node has been found for it
	badImage bool   // its container cannot be made, or not yet
	ask      string // what events may explain: see below
}

// What events can explain.
const (
	askNoPod = "no pod" // why the Job has none
	askGone  = "gone"   // where its pod is
	askScale = "scale"  // what an autoscaler does about it
)

// The condition of a pod that the cluster ends, and its reason if the cluster node is lost, by
// Kubernetes' documentation of pod disruptions.
const (
	disrupted      = "DisruptionTarget"
	byTaintManager = "DeletionByTaintManager"
	// byPolicy is the reason of a Job whose pod has ended with that condition.
	byPolicy = "PodFailurePolicy"
)

// readyFor is how long a pod may be not ready, on a cluster node that does not answer, before it
// counts as lost.
const readyFor = lostAfter * time.Second

// stateOf is the table of states. The Job or the pod may be missing, but not both.
func stateOf(j *job, p *pod, now time.Time) report {
	switch {
	case p == nil:
		return ofJob(j, now)
	case p.over() || p.ours().State.Terminated != nil:
		return ofEnded(j, p)
	case !p.Metadata.DeletionTimestamp.IsZero():
		return ofEnding(j, p, now)
	}
	switch p.Status.Phase {
	case "Pending", "":
		return ofPending(p)
	case "Running":
		return ofRunning(p, now)
	}
	return report{state: driver.InstanceUnknown, reason: p.Status.Phase}
}

// ended returns the condition by which a Job has ended, or is about to.
func (j *job) ended() condition {
	if j == nil {
		return condition{}
	}
	for _, kind := range []string{"Failed", "FailureTarget", "Complete", "SuccessCriteriaMet"} {
		if c := find(j.Status.Conditions, kind); c.Status == "True" {
			return c
		}
	}
	return condition{}
}

// ofJob is for a Job without a pod.
func ofJob(j *job, now time.Time) report {
	switch c := j.ended(); {
	case c.Reason == "DeadlineExceeded":
		return report{state: driver.InstanceTerminated, reason: "its deadline has passed: " + c.Message}
	case c.Type == "Complete" || c.Type == "SuccessCriteriaMet":
		return report{state: driver.InstanceTerminated, reason: "has ended itself"}
	case c.Reason == byPolicy:
		return report{state: driver.InstancePreempted, reason: "preempted or evicted: " + c.Message, ask: askGone}
	case c.Type != "":
		return report{state: driver.InstanceFailed, reason: join(c.Reason, c.Message), ask: askGone}
	case !j.Metadata.DeletionTimestamp.IsZero():
		return report{state: driver.InstanceStopped, reason: "is being deleted"}
	case j.Spec.Suspend && j.Metadata.Labels["kueue.x-k8s.io/queue-name"] != "":
		return report{state: driver.InstancePending, reason: "queued by Kueue in " + j.Metadata.Labels["kueue.x-k8s.io/queue-name"], waits: true}
	case j.Spec.Suspend:
		return report{state: driver.InstancePending, reason: "its Job is suspended", waits: true}
	}
	return report{state: driver.InstancePending, reason: "has no pod yet", waits: true, ask: askNoPod}
}

func ofPending(p *pod) report {
	scheduled := find(p.Status.Conditions, "PodScheduled")
	if scheduled.Status == "False" {
		return report{state: driver.InstancePending, reason: join(scheduled.Reason, scheduled.Message), waits: true, ask: askScale}
	}
	if p.Spec.NodeName == "" {
		return report{state: driver.InstancePending, reason: "is not scheduled yet", waits: true}
	}
	w := p.ours().State.Waiting
	if w == nil {
		return report{state: driver.InstancePending, reason: "starts on " + p.Spec.NodeName}
	}
	if isBadImage(w.Reason) {
		return report{state: driver.InstancePending, reason: imageWords(*w), badImage: true}
	}
	return report{state: driver.InstancePending, reason: w.Reason + " on " + p.Spec.NodeName}
}

func ofRunning(p *pod, now time.Time) report {
	ready := find(p.Status.Conditions, "Ready")
	ours := p.ours()
	switch {
	case ready.Status == "True", ours.Ready && ready.Reason == "ContainersNotReady": // a webhook's container is not ready
		return report{state: driver.InstanceRunning}
	case ours.State.Waiting != nil && isBadImage(ours.State.Waiting.Reason): // another container runs
		return report{state: driver.InstancePending, reason: imageWords(*ours.State.Waiting), badImage: true}
	case !ours.Ready && ours.State.Terminated == nil && ready.Reason == "ContainersNotReady":
		return report{state: driver.InstancePending, reason: "starts on " + p.Spec.NodeName}
	case now.Sub(ready.LastTransitionTime) < readyFor:
		return report{state: driver.InstanceRunning, reason: "the cluster node " + p.Spec.NodeName + " does not answer"}
	}
	return report{state: driver.InstanceFailed, reason: fmt.Sprintf("the cluster node %s has not answered for %v", p.Spec.NodeName, readyFor)}
}

// ofEnding is for a pod that was told to end, and has not ended. Its deletionTimestamp is when it
// must have.
func ofEnding(j *job, p *pod, now time.Time) report {
	end := p.Metadata.DeletionTimestamp
	why := find(p.Status.Conditions, disrupted)
	switch {
	case now.Sub(end) > readyFor, why.Reason == byTaintManager:
		return report{state: driver.InstanceFailed, reason: join(why.Reason, "its pod does not end: the cluster node "+p.Spec.NodeName+
			" does not answer, and the pod may still run there, with its GPUs, until the node is back or removed")}
	case why.Status == "True" && j != nil && now.Before(end):
		return report{state: driver.InstanceRunning, reason: join(why.Reason, why.Message), preemptAt: end}
	case why.Status == "True" && j != nil:
		return report{state: driver.InstancePreempted, reason: join(why.Reason, why.Message), preemptAt: end}
	case j.ended().Reason == "DeadlineExceeded":
		return report{state: driver.InstanceStopped, reason: "its deadline has passed, and its pod ends"}
	}
	return report{state: driver.InstanceStopped, reason: "its pod ends"}
}

// The exit codes of node.sh: its own end, and that by SIGTERM.
const (
	exitOwn  = 0
	exitTold = 143
)

// ofEnded is for a pod whose container runs no more.
func ofEnded(j *job, p *pod) report {
	why := find(p.Status.Conditions, disrupted)
	var code int
	var reason string
	if t := p.ours().State.Terminated; t != nil {
		code, reason = t.ExitCode, t.Reason
	}
	said := join(p.Status.Reason, p.Status.Message)
	switch {
	case j.ended().Reason == "DeadlineExceeded", p.Status.Reason == "DeadlineExceeded":
		return report{state: driver.InstanceTerminated, reason: "its deadline has passed"}
	case p.Status.Reason == "Evicted": // for what it used itself
		return report{state: driver.InstanceFailed, reason: said}
	case why.Status == "True" && why.Reason != byTaintManager:
		return report{state: driver.InstancePreempted, reason: join(why.Reason, why.Message)}
	case why.Status == "True":
		return report{state: driver.InstanceFailed, reason: join(why.Reason, why.Message)}
	case p.Status.Phase == "Succeeded", p.ours().State.Terminated != nil && code == exitOwn:
		return report{state: driver.InstanceTerminated, reason: "has ended itself"}
	case said != "":
		return report{state: driver.InstanceFailed, reason: said}
	case reason == "OOMKilled":
		return report{state: driver.InstanceFailed, reason: "OOMKilled: the node's tasks used more memory than Spec.MemoryGiB"}
	case code == exitTold:
		return report{state: driver.InstanceTerminated, reason: "its pod was deleted"}
	}
	return report{state: driver.InstanceFailed, reason: fmt.Sprintf("its container has ended with code %d (%s)", code, reason)}
}

// isBadImage reports whether a container waits for what will hardly come.
func isBadImage(reason string) bool {
	return slices.Contains([]string{
		"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "CreateContainerConfigError", "CreateContainerError",
	}, reason)
}
