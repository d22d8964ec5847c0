package container

import (
	"fmt"
	"net"
	"strconv"

	"github.com/gputrain/gputrain"
)

// instance says in the pool's words what an engine says of a container.
func (d *driver) instance(r report) gputrain.Instance {
	rank, _ := strconv.Atoi(r.labels[labelRank])
	i := gputrain.Instance{
		ID:          r.id,
		Name:        r.name,
		Rank:        rank,
		PrivateAddr: r.addr,
		SSH:         gputrain.Endpoint{User: "root"},
		Offer:       d.offer(),
	}
	if key := r.labels[labelHostKey]; key != "" {
		i.SSH.HostKeys = []string{key}
	}
	i.State, i.StateReason = stateOf(r)
	switch {
	case r.published != "":
		i.SSH.Addr = r.published
		i.PublicAddr, _, _ = net.SplitHostPort(r.published)
	case r.addr != "":
		i.SSH.Addr = net.JoinHostPort(r.addr, "22") // Dial goes there by a tunnel
	}
	return i
}

// stateOf is the table of the engines' states.
func stateOf(r report) (gputrain.InstanceState, string) {
	switch r.status {
	case "created", "initialized", "configured", "restarting":
		return gputrain.InstancePending, r.status
	case "running":
		return gputrain.InstanceRunning, ""
	case "paused", "pausing", "removing", "stopping":
		return gputrain.InstanceStopped, r.status
	case "exited", "dead", "stopped":
		reason := fmt.Sprintf("%s with code %d", r.status, r.exitCode)
		if r.oomKilled {
			reason = "out of memory, " + reason
		}
		if r.message != "" {
			reason += ": " + r.message
		}
		return gputrain.InstanceFailed, reason
	}
	return gputrain.InstanceUnknown, r.status
}
