package verda

import "github.com/gputrain/gputrain"

// states are the API's, which are an open set. Of one that is running the address may come
// late; one that is discontinued is gone, or was preempted.
var states = map[string]gputrain.InstanceState{
	"new":          gputrain.InstancePending,
	"ordered":      gputrain.InstancePending,
	"pending":      gputrain.InstancePending,
	"provisioning": gputrain.InstancePending,
	"validating":   gputrain.InstancePending,
	"restoring":    gputrain.InstancePending,
	"running":      gputrain.InstanceRunning,

	"offline":              gputrain.InstanceStopped,
	"starting_hibernation": gputrain.InstanceStopped,
	"hibernating":          gputrain.InstanceStopped,
	"deleting":             gputrain.InstanceStopped,

	"error":               gputrain.InstanceFailed,
	"installation_failed": gputrain.InstanceFailed,
	"no_capacity":         gputrain.InstanceFailed,
	"notfound":            gputrain.InstanceFailed,
}

// stateOf is what a machine's status means, and why it is so. ended is whether it was deleted
// by this program.
func stateOf(in instance, ended bool) (gputrain.InstanceState, string) {
	switch state := states[in.Status]; {
	case in.Status == "discontinued" && in.IsSpot && !ended:
		return gputrain.InstancePreempted, "discontinued: Verda took it back"
	case in.Status == "discontinued":
		return gputrain.InstanceTerminated, in.Status
	case in.Status == "running" && in.IP == "":
		return gputrain.InstancePending, "running, without an address yet"
	case in.Status == "no_capacity":
		return state, "no_capacity: there was none left for it, which came out after it was ordered"
	case in.Status == "notfound":
		return state, "notfound: Verda has lost it"
	default:
		return state, in.Status
	}
}
