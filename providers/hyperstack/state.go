package hyperstack

import (
	"strings"

	"github.com/gputrain/gputrain"
)

// stateOf maps the API's states, of which it publishes no whole list. Power state and the
// like are not looked at: their values are not documented.
func stateOf(status string) (state gputrain.InstanceState, why string) {
	switch strings.ToUpper(status) {
	case "CREATING", "BUILD", "RESTORING":
		return gputrain.InstancePending, status
	case "ACTIVE":
		return gputrain.InstanceRunning, status
	case "SHUTOFF":
		return gputrain.InstanceStopped, "SHUTOFF: it is billed in full until it is deleted"
	case "HIBERNATING", "HIBERNATED":
		return gputrain.InstanceStopped, status + ": its disk and address are billed until it is deleted"
	case "ERROR":
		return gputrain.InstanceFailed, status
	case "DELETING": // which may come to nothing
		return gputrain.InstanceStopped, status
	case "DELETED":
		return gputrain.InstanceTerminated, status
	}
	return gputrain.InstanceUnknown, status
}
