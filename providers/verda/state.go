package verda

import "github.com/gputrain/gputrain/providers/driver"

// states are the API's states, of which there may be more. A running machine may get its
// address late. A discontinued one is gone or was preempted.
var states = map[string]driver.InstanceState{
	"new":          driver.InstancePending,
	"ordered":      driver.InstancePending,
	"pending":      driver.InstancePending,
	"provisioning": driver.InstancePending,
	"validating":   driver.InstancePending,
	"restoring":    driver.InstancePending,
	"running":      driver.InstanceRunning,

	"offline":              driver.InstanceStopped,
	"starting_hibernation": driver.InstanceStopped,
	"hibernating":          driver.InstanceStopped,
	"deleting":             driver.InstanceStopped,

	"error":               driver.InstanceFailed,
	"installation_failed": driver.InstanceFailed,
	"no_capacity":         driver.InstanceFailed,
	"notfound":            driver.InstanceFailed,
}

// stateOf returns the state of a machine, and its reason. ended means that this program has
// deleted it.
func stateOf(in instance, ended bool) (driver.InstanceState, string) {
	switch state := states[in.Status]; {
	case in.Status == "discontinued" && in.IsSpot && !ended:
		return driver.InstancePreempted, "discontinued: Verda took it back"
	case in.Status == "discontinued":
		return driver.InstanceTerminated, in.Status
	case in.Status == "running" && in.IP == "":
		return driver.InstancePending, "running, without an address yet"
	case in.Status == "no_capacity":
		return state, "no_capacity: there was none left for it, which came out after it was ordered"
	case in.Status == "notfound":
		return state, "notfound: Verda has lost it"
	default:
		return state, in.Status
	}
}
