package scaleway

import (
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// startGrace is how long a server may still be called stopped after it was started.
func startGrace() time.Duration { return 60 * cloud.Second }

// states are those that the API has for servers.
var states = map[string]gputrain.InstanceState{
	"running":          gputrain.InstanceRunning,
	"starting":         gputrain.InstancePending,
	"stopping":         gputrain.InstanceStopped,
	"stopped":          gputrain.InstanceStopped,
	"stopped in place": gputrain.InstanceStopped, // with blanks
	"locked":           gputrain.InstanceFailed,
}

// state returns what a server is in, and why. One that was just made is stopped until it
// starts; so is, later, one for which there was no room.
func state(s server, made time.Time) (gputrain.InstanceState, string) {
	reason := s.State
	if s.StateDetail != "" {
		reason += ": " + s.StateDetail
	}
	known := states[s.State]
	switch {
	case s.State == "stopped" && time.Since(made) < startGrace():
		return gputrain.InstancePending, reason
	case s.State == "stopped":
		reason += "; one for which there was no room ends so too, and its volume is billed"
	case s.State == "stopped in place":
		reason += "; it is billed as if it ran"
	}
	return known, reason
}
