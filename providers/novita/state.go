package novita

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// states are the API's states of instances.
var states = map[string]driver.InstanceState{
	"toCreate":   driver.InstancePending,
	"creating":   driver.InstancePending,
	"pulling":    driver.InstancePending, // pulls its image, and is billed
	"running":    driver.InstanceRunning,
	"toStart":    driver.InstancePending,
	"starting":   driver.InstancePending,
	"toRestart":  driver.InstancePending,
	"restarting": driver.InstancePending,
	"toReset":    driver.InstancePending,
	"resetting":  driver.InstancePending,
	"migrating":  driver.InstancePending,
	"toStop":     driver.InstanceStopped,
	"stopping":   driver.InstanceStopped,
	"exited":     driver.InstanceStopped,
	"freezing":   driver.InstanceStopped,
	"toRemove":   driver.InstanceStopped,
	"removing":   driver.InstanceStopped,
	"removed":    driver.InstanceTerminated,
}

// billing is Novita's: by the second, from pulling the image until the end (fact sheet of Novita, section 7).
var billing = driver.Billing{AfterLaunch: true}

// unbilled are the states before and after that.
var unbilled = []string{"toCreate", "creating", "toRemove", "removing", "removed"}

// state returns the state of an instance, and its reason.
func (in instance) state() (driver.InstanceState, string) {
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
		return driver.InstancePreempted, reason + "; its disk is billed until it is deleted"
	case in.Status == "exited":
		reason += "; its disk is billed, for a week at most"
	}
	if in.StatusError.Message != "" && (state == driver.InstancePending || state == driver.InstanceStopped) {
		state = driver.InstanceFailed
	}
	return state, reason
}

// reclaimed returns the time of a spot instance's preemption, if known.
func (in instance) reclaimed() time.Time {
	if in.SpotReclaimTime <= 0 {
		return time.Time{}
	}
	return time.Unix(int64(in.SpotReclaimTime), 0)
}
