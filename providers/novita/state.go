package novita

import (
	"time"

	"github.com/gputrain/gputrain"
)

// states are those that the API has for instances.
var states = map[string]gputrain.InstanceState{
	"toCreate":   gputrain.InstancePending,
	"creating":   gputrain.InstancePending,
	"pulling":    gputrain.InstancePending, // its image, and billed
	"running":    gputrain.InstanceRunning,
	"toStart":    gputrain.InstancePending,
	"starting":   gputrain.InstancePending,
	"toRestart":  gputrain.InstancePending,
	"restarting": gputrain.InstancePending,
	"toReset":    gputrain.InstancePending,
	"resetting":  gputrain.InstancePending,
	"migrating":  gputrain.InstancePending,
	"toStop":     gputrain.InstanceStopped,
	"stopping":   gputrain.InstanceStopped,
	"exited":     gputrain.InstanceStopped,
	"freezing":   gputrain.InstanceStopped,
	"toRemove":   gputrain.InstanceStopped,
	"removing":   gputrain.InstanceStopped,
	"removed":    gputrain.InstanceTerminated,
}

// state returns what an instance is in, and why.
func (in instance) state() (gputrain.InstanceState, string) {
	reason := in.Status
	if in.SpotStatus != "" {
		reason += ", spot " + in.SpotStatus
	}
	if m := in.StatusError.Message; m != "" {
		reason += ": " + m
	}
	state := states[in.Status]
	switch {
	case in.Status == "exited" && in.SpotReclaimTime > 0:
		return gputrain.InstancePreempted, reason + "; its disk is billed until it is deleted"
	case in.Status == "exited":
		reason += "; its disk is billed, for a week at most"
	}
	if in.StatusError.Message != "" && (state == gputrain.InstancePending || state == gputrain.InstanceStopped) {
		state = gputrain.InstanceFailed
	}
	return state, reason
}

// reclaimed is when a spot instance is taken back, if that is known.
func (in instance) reclaimed() time.Time {
	if in.SpotReclaimTime <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(in.SpotReclaimTime), 0)
}
