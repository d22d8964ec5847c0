package lambda

import (
	"net"
	"slices"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// user is the login user of all images.
const user = "ubuntu"

// machine translates an instance. It omits the private address: few types of machine are
// promised to reach each other there within a region.
func machine(in instance) cloud.Machine {
	m := cloud.Machine{Tag: in.tag(), Instance: driver.Instance{ID: in.ID, PublicAddr: in.IP, Offer: offerOf(in.Type, in.Region, driver.Query{})}}
	if in.Tags != nil {
		m.Doubt = m.Tag.Doubt(in.Name, time.Time{}) // the name may be missing while it boots
	}
	m.State, m.StateReason = stateOf(in)
	m.Unbilled = slices.Contains(unbilled, in.Status)
	if m.State == driver.InstanceRunning {
		m.SSH = driver.Endpoint{Addr: net.JoinHostPort(in.IP, "22"), User: user}
	}
	return m
}

func stateOf(in instance) (driver.InstanceState, string) {
	switch in.Status {
	case "booting":
		return driver.InstancePending, in.Status
	case "active":
		if in.IP == "" {
			return driver.InstancePending, "active, without an address yet"
		}
		return driver.InstanceRunning, in.Status
	case "unhealthy":
		return driver.InstanceFailed, "unhealthy: it has failed Lambda's checks"
	case "terminating":
		return driver.InstanceStopped, in.Status
	case "terminated":
		return driver.InstanceTerminated, in.Status
	case "preempted":
		return driver.InstancePreempted, in.Status
	}
	return driver.InstanceUnknown, in.Status
}
