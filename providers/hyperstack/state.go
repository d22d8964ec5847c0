package hyperstack

import (
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// billing is Hyperstack's: by the minute, in the states that are not unbilled (fact sheet of Hyperstack, section 6).
var billing = driver.Billing{AfterLaunch: true}

// unbilled are the states in which a machine is free.
var unbilled = []string{"CREATING", "BUILD", "ERROR", "DELETING", "DELETED"}

// stateOf maps the API's states, of which it publishes no complete list. It ignores the power
// state and the like: their values are not documented.
func stateOf(status string) (state driver.InstanceState, why string) {
	switch strings.ToUpper(status) {
	case "CREATING", "BUILD", "RESTORING":
		return driver.InstancePending, status
	case "ACTIVE":
		return driver.InstanceRunning, status
	case "SHUTOFF":
		return driver.InstanceStopped, "SHUTOFF: it is billed in full until it is deleted"
	case "HIBERNATING", "HIBERNATED":
		return driver.InstanceStopped, status + ": its disk and address are billed until it is deleted"
	case "ERROR":
		return driver.InstanceFailed, status
	case "DELETING": // which may fail
		return driver.InstanceStopped, status
	case "DELETED":
		return driver.InstanceTerminated, status
	}
	return driver.InstanceUnknown, status
}
