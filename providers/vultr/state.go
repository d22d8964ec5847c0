package vultr

import (
	"net"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// state says what a machine's words mean, and what it says itself. A machine that is
// halted is billed, and so is one that has failed.
func (m machine) state(mode Mode) (gputrain.InstanceState, string) {
	switch m.Status {
	case "pending", "resizing":
		return gputrain.InstancePending, m.Status
	case "suspended":
		return gputrain.InstanceStopped, "suspended by Vultr; it is billed until it is destroyed"
	case "failed", "closed":
		return gputrain.InstanceFailed, m.Status
	case "active":
		return m.power(mode)
	}
	return gputrain.InstanceUnknown, m.Status
}

// power is the state of an active machine. Servers tell nothing of it.
func (m machine) power(mode Mode) (gputrain.InstanceState, string) {
	installed := m.ServerStatus == "" || m.ServerStatus == "ok"
	switch {
	case mode == Cloud && m.PowerStatus == "stopped" && !installed:
		return gputrain.InstancePending, m.ServerStatus // its installation restarts it
	case mode == Cloud && m.PowerStatus == "stopped":
		return gputrain.InstanceStopped, "halted; it is billed until it is destroyed"
	case mode == Cloud && m.PowerStatus != "running":
		return gputrain.InstanceUnknown, "active, " + m.PowerStatus
	case m.addr() == "":
		return gputrain.InstancePending, "active, and without an address yet"
	}
	return gputrain.InstanceRunning, "active"
}

// addr is the machine's address, once it has one.
func (m machine) addr() string {
	if m.MainIP == "0.0.0.0" {
		return ""
	}
	return m.MainIP
}

// instance is a machine as the driver's callers know it.
func (m machine) instance(mode Mode) cloud.Machine {
	in := gputrain.Instance{ID: instanceID(mode, m.ID), PublicAddr: m.addr()}
	in.State, in.StateReason = m.state(mode)
	if addr := m.addr(); addr != "" {
		in.SSH = gputrain.Endpoint{Addr: net.JoinHostPort(addr, "22"), User: "root"}
	}
	in.Offer = gputrain.Offer{
		ID: placement{mode, m.Region, m.Plan}.String(), InstanceType: m.Plan, Region: m.Region,
		Accelerator: plan{ID: m.Plan}.accelerator(gputrain.Spec{}.Accelerator), Arch: plan{ID: m.Plan}.arch(),
	}
	tag := cloud.FromWords(m.Tags)
	if tag.Pool == "" { // its tags were lost: money is at stake
		tag = cloud.FromName(m.Label)
	}
	return cloud.Machine{Instance: in, Tag: tag}
}

// metalPrefix begins the IDs of servers, by which they are known from instances.
const metalPrefix = "metal/"

func instanceID(mode Mode, id string) string {
	if mode == BareMetal {
		return metalPrefix + id
	}
	return id
}

func parseID(id string) (Mode, string) {
	if server, ok := strings.CutPrefix(id, metalPrefix); ok {
		return BareMetal, server
	}
	return Cloud, id
}
