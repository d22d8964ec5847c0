package kubernetes

import (
	"context"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A verdict is the reason why a machine was given up.
type verdict struct {
	reason string
	kind   error
}

// badImageFor is how long a container may fail to be made: a registry may be down for a moment.
const badImageFor = 2 * time.Minute

// judge gives a machine of this driver's pool up that will not start: for lack of room, by a quota
// or a policy, or for its image. It ends the machine first. Machines of other programs it leaves
// alone, as those decide by their own configuration.
func (a *api) judge(ctx context.Context, k *cluster, id string, j *job, p *pod, r report, now time.Time) report {
	a.mu.Lock()
	given, known := a.verdicts[id]
	mine := a.mine[id]
	a.mu.Unlock()
	if known {
		return report{state: driver.InstanceFailed, reason: given.reason, kind: given.kind}
	}
	if r.state != driver.InstancePending {
		return r
	}
	v, over := a.over(j, p, r, now)
	r.kind = nil
	if !over || !mine || j == nil {
		return r
	}
	if err := a.end(ctx, k, j.Metadata.Name); err != nil && !isMissing(err) {
		return r // the next look tries again
	}
	a.mu.Lock()
	a.verdicts[id] = v
	a.mu.Unlock()
	return report{state: driver.InstanceFailed, reason: v.reason, kind: v.kind}
}

// over reports whether a machine has waited long enough.
func (a *api) over(j *job, p *pod, r report, now time.Time) (v verdict, over bool) {
	switch {
	case r.kind != nil:
		return verdict{r.reason, r.kind}, true
	case r.badImage:
		return verdict{r.reason, driver.ErrInvalid}, a.lasts(p.Metadata.UID, now) >= badImageFor
	case r.waits && j != nil:
		from := j.Metadata.CreationTimestamp
		if grown := a.events.grown(p); a.cfg.Autoscaled && grown.After(from) {
			from = grown
		}
		return verdict{fmt.Sprintf("%s; it has waited for %v (Config.PendingTimeout)", r.reason, a.cfg.PendingTimeout), driver.ErrNoCapacity}, now.Sub(from) >= a.cfg.PendingTimeout
	}
	return v, false
}

// lasts returns for how long this driver has seen a pod's container fail to be made.
func (a *api) lasts(uid string, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.since[uid].IsZero() {
		a.since[uid] = now
	}
	return now.Sub(a.since[uid])
}

// givenUp returns the reason for which a machine was given up.
func (a *api) givenUp(id string) (verdict, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	v, ok := a.verdicts[id]
	return v, ok
}
