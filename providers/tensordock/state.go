package tensordock

import (
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
)

// states are the API's words, in lower case and without separators.
var states = map[string]driver.InstanceState{
	"queued":   driver.InstancePending,
	"creating": driver.InstancePending,
	"starting": driver.InstancePending,
	"running":  driver.InstanceRunning,
	"online":   driver.InstanceRunning,
	"stopping": driver.InstanceStopped,
	"stopped":  driver.InstanceStopped,
	"deleting": driver.InstanceStopped,
	"error":    driver.InstanceFailed,
	"deleted":  driver.InstanceTerminated,

	"stoppeddisassociated": driver.InstancePreempted,
}

var plain = strings.NewReplacer("_", "", "-", "", " ", "")

func stateOf(status string) (driver.InstanceState, string) {
	state := states[plain.Replace(strings.ToLower(status))]
	if state == driver.InstancePreempted {
		return state, status + ": its host has taken the GPU back"
	}
	return state, status
}
