package tensordock

import (
	"strings"

	"github.com/gputrain/gputrain"
)

// states are the API's words, in lower case and without what it writes between them.
var states = map[string]gputrain.InstanceState{
	"queued":   gputrain.InstancePending,
	"creating": gputrain.InstancePending,
	"starting": gputrain.InstancePending,
	"running":  gputrain.InstanceRunning,
	"online":   gputrain.InstanceRunning,
	"stopping": gputrain.InstanceStopped,
	"stopped":  gputrain.InstanceStopped,
	"deleting": gputrain.InstanceStopped,
	"error":    gputrain.InstanceFailed,
	"deleted":  gputrain.InstanceTerminated,

	"stoppeddisassociated": gputrain.InstancePreempted,
}

var plain = strings.NewReplacer("_", "", "-", "", " ", "")

func stateOf(status string) (gputrain.InstanceState, string) {
	state := states[plain.Replace(strings.ToLower(status))]
	if state == gputrain.InstancePreempted {
		return state, status + ": its host has taken the GPU back"
	}
	return state, status
}
