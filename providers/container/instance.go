package container

import (
	"cmp"
	"fmt"
	"net"
	"strconv"

	"github.com/gputrain/gputrain/providers/driver"
)

// instance translates an engine's report of a container.
func (d *containerDriver) instance(r report) driver.Instance {
	rank, _ := strconv.Atoi(r.labels[labelRank])
	i := driver.Instance{
		ID:          r.id,
		Name:        r.node(),
		Rank:        rank,
		PrivateAddr: r.addr,
		SSH:         driver.Endpoint{User: cmp.Or(r.labels[labelUser], root)},
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
		i.SSH.Addr = net.JoinHostPort(r.addr, "22") // Dial reaches it through a tunnel
	}
	return i
}

// stateOf is the table of the engines' states.
func stateOf(r report) (driver.InstanceState, string) {
	switch r.status {
	case "created", "initialized", "configured", "restarting":
		return driver.InstancePending, r.status
	case "running":
		return driver.InstanceRunning, ""
	case "paused", "pausing", "removing", "stopping":
		return driver.InstanceStopped, r.status
	case "exited", "dead", "stopped":
		reason := fmt.Sprintf("%s with code %d", r.status, r.exitCode)
		if r.oomKilled {
			reason = "out of memory, " + reason
		}
		if r.message != "" {
			reason += ": " + r.message
		}
		return driver.InstanceFailed, reason
	}
	return driver.InstanceUnknown, r.status
}
