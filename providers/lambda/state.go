package lambda

import (
	"net"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// user is whom all images let in.
const user = "ubuntu"

// machine is an instance in gputrain's words. Its private address is left out: that others
// of its region reach it there is promised of few types of machine.
func machine(in instance) cloud.Machine {
	m := cloud.Machine{Tag: in.tag(), Instance: gputrain.Instance{ID: in.ID, PublicAddr: in.IP, Offer: offerOf(in.Type, in.Region.Name, gputrain.Spec{})}}
	m.State, m.StateReason = stateOf(in)
	if m.State == gputrain.InstanceRunning {
		m.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(in.IP, "22"), User: user}
	}
	return m
}

func stateOf(in instance) (gputrain.InstanceState, string) {
	switch in.Status {
	case "booting":
		return gputrain.InstancePending, in.Status
	case "active":
		if in.IP == "" {
			return gputrain.InstancePending, "active, and without an address yet"
		}
		return gputrain.InstanceRunning, in.Status
	case "unhealthy":
		return gputrain.InstanceFailed, "unhealthy: it has failed Lambda's checks"
	case "terminating":
		return gputrain.InstanceStopped, in.Status
	case "terminated":
		return gputrain.InstanceTerminated, in.Status
	case "preempted":
		return gputrain.InstancePreempted, in.Status
	}
	return gputrain.InstanceUnknown, in.Status
}
