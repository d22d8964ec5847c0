package scaleway

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// A started server may be reported as stopped for startGrace.
func startGrace() time.Duration { return 60 * cloud.Second }

// states are the API's states of servers.
var states = map[string]driver.InstanceState{
	"running":          driver.InstanceRunning,
	"starting":         driver.InstancePending,
	"stopping":         driver.InstanceStopped,
	"stopped":          driver.InstanceStopped,
	"stopped in place": driver.InstanceStopped, // with spaces
	"locked":           driver.InstanceFailed,
}

// state returns the state of a server, and its reason. A new server is stopped until it starts.
// Later, a server without room in its zone is stopped, too.
func state(s server, made time.Time) (driver.InstanceState, string) {
	reason := s.State
	if s.StateDetail != "" {
		reason += ": " + s.StateDetail
	}
	known := states[s.State]
	switch {
	case s.State == "stopped" && time.Since(made) < startGrace():
		return driver.InstancePending, reason
	case s.State == "stopped":
		reason += "; a server that found no room stops too, and its volume is billed"
	case s.State == "stopped in place":
		reason += "; it is billed as if it ran"
	}
	return known, reason
}
