package kubernetes

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// askAgain is how old an answer about the events of one object may be. Tests shorten it.
var askAgain = 5 * time.Second

// An eventLog reads the events about objects, and keeps them for a moment.
type eventLog struct {
	mu    sync.Mutex
	asked map[string]answer // by the cluster and the object's name
}

// An answer holds the events of an object.
type answer struct {
	at  time.Time
	all []event
}

// explain returns the state of a machine with what events say about it. Events are kept for an hour,
// and may be missing: they never decide alone that a machine is gone.
func (a *api) explain(ctx context.Context, k *cluster, j *job, p *pod, now time.Time) report {
	r := stateOf(j, p, now)
	switch r.ask {
	case askNoPod:
		for _, e := range latestFirst(a.events.of(ctx, k, j.Metadata.Name)) {
			if e.Reason == "FailedCreate" {
				r.reason = createWords(e.Message)
				_, r.kind = refused(e.Message)
				if r.kind == driver.ErrAuth { // words that are not known: it may come yet
					r.kind = nil
				}
				break
			}
		}
	case askGone:
		return a.whereIsPod(ctx, k, j, r)
	case askScale:
		return a.scaling(ctx, k, p, r)
	}
	return r
}

// whereIsPod looks for the reason why a failed Job has no pod: the scheduler deletes pods that it
// preempts, and only an event remains.
func (a *api) whereIsPod(ctx context.Context, k *cluster, j *job, r report) report {
	for _, e := range latestFirst(a.events.of(ctx, k, j.Metadata.Name)) {
		name, ok := strings.CutPrefix(e.Message, "Created pod: ")
		if e.Reason != "SuccessfulCreate" || !ok || !dnsName.MatchString(name) {
			continue
		}
		for _, e := range latestFirst(a.events.of(ctx, k, name)) {
			switch e.Reason {
			case "Preempted", "Evicted", "Shutdown":
				return report{state: driver.InstancePreempted, reason: join(e.Reason, e.Message)}
			case "TaintManagerEviction", "NodeNotReady":
				return report{state: driver.InstanceFailed, reason: join(e.Reason, e.Message)}
			}
		}
	}
	return r
}

// scaling adds what an autoscaler says. A pod for which it makes a machine waits for that one anew.
func (a *api) scaling(ctx context.Context, k *cluster, p *pod, r report) report {
	if !a.cfg.Autoscaled {
		return r
	}
	for _, e := range latestFirst(a.events.of(ctx, k, p.Metadata.Name)) {
		switch e.Reason {
		case "TriggeredScaleUp", "Nominated": // of the cluster autoscaler, and of Karpenter
			r.reason = "the autoscaler grows the cluster: " + e.Message
			return r
		case "NotTriggerScaleUp":
			r.reason, r.kind = "the autoscaler cannot help: "+e.Message, driver.ErrNoCapacity
			return r
		}
	}
	return r
}

// of returns the events about an object, or none if they cannot be read.
func (a *eventLog) of(ctx context.Context, k *cluster, name string) []event {
	key := k.key() + "/" + name
	a.mu.Lock()
	last, ok := a.asked[key]
	a.mu.Unlock()
	if ok && time.Since(last.at) < askAgain {
		return last.all
	}
	all, err := k.events(ctx, name, "")
	if err != nil {
		return last.all
	}
	a.mu.Lock()
	a.asked[key] = answer{time.Now(), all}
	a.mu.Unlock()
	return all
}

// grown returns when an autoscaler last made a machine for a pod, by the events that were read.
func (a *eventLog) grown(p *pod) (at time.Time) {
	if p == nil {
		return at
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for key, answer := range a.asked {
		for _, e := range answer.all {
			if strings.HasSuffix(key, "/"+p.Metadata.Name) && (e.Reason == "TriggeredScaleUp" || e.Reason == "Nominated") && e.at().After(at) {
				at = e.at()
			}
		}
	}
	return at
}

func latestFirst(all []event) []event {
	return slices.SortedStableFunc(slices.Values(all), func(x, y event) int { return y.at().Compare(x.at()) })
}

var podName = regexp.MustCompile(`pods "[^"]*" is forbidden`)

// createWords is a Job's message about a pod that it could not make, without the pod's random name.
func createWords(message string) string {
	message = strings.TrimPrefix(message, "Error creating: ")
	return podName.ReplaceAllString(message, "its pod is forbidden")
}

var backOff = regexp.MustCompile(`^Back-off pulling image "[^"]*": `)

// imageWords is the reason why a container is not made, the same for a failed pull and for the pause
// after it.
func imageWords(w waiting) string {
	message := backOff.ReplaceAllString(w.Message, "")
	message = strings.TrimPrefix(message, "ErrImagePull: ")
	reason := w.Reason
	if reason == "ImagePullBackOff" {
		reason = "ErrImagePull"
	}
	return join(reason, message)
}

// join joins the parts of a reason that are there.
func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}
