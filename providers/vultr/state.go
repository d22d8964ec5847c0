package vultr

import (
	"net"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// state translates a machine's state, with its own words as the reason. Halted and failed
// machines are billed.
func (m machine) state(mode Mode) (driver.InstanceState, string) {
	switch m.Status {
	case "pending", "resizing":
		return driver.InstancePending, m.Status
	case "suspended":
		return driver.InstanceStopped, "suspended by Vultr; it is billed until it is destroyed"
	case "failed", "closed":
		return driver.InstanceFailed, m.Status
	case "active":
		return m.power(mode)
	}
	return driver.InstanceUnknown, m.Status
}

// power returns the state of an active machine. Servers do not report it.
func (m machine) power(mode Mode) (driver.InstanceState, string) {
	installed := m.ServerStatus == "" || m.ServerStatus == "ok"
	switch {
	case mode == Cloud && m.PowerStatus == "stopped" && !installed:
		return driver.InstancePending, m.ServerStatus // the installation restarts it
	case mode == Cloud && m.PowerStatus == "stopped":
		return driver.InstanceStopped, "halted; it is billed until it is destroyed"
	case mode == Cloud && m.PowerStatus != "running":
		return driver.InstanceUnknown, "active, " + m.PowerStatus
	case m.addr() == "":
		return driver.InstancePending, "active, without an address yet"
	}
	return driver.InstanceRunning, "active"
}

// addr returns the machine's address, or "" if it has none yet.
func (m machine) addr() string {
	if m.MainIP == "0.0.0.0" {
		return ""
	}
	return m.MainIP
}

// instance translates a machine.
func (m machine) instance(mode Mode) cloud.Machine {
	in := driver.Instance{ID: instanceID(mode, m.ID), PublicAddr: m.addr()}
	in.State, in.StateReason = m.state(mode)
	if addr := m.addr(); addr != "" {
		in.SSH = driver.Endpoint{Addr: net.JoinHostPort(addr, "22"), User: "root"}
	}
	in.Offer = driver.Offer{
		ID: placement{mode, m.Region, m.Plan}.String(), InstanceType: m.Plan, Region: m.Region,
		Accelerator: plan{ID: m.Plan}.accelerator(driver.Query{}.Accelerator), Arch: plan{ID: m.Plan}.arch(),
	}
	tag := pooltag.FromWords(m.Tags)
	if tag.Pool == "" { // without its tags it would be billed and not found
		tag = pooltag.FromName(m.Label)
	}
	created, _ := time.Parse(time.RFC3339, m.Created) // zero if it is not a time
	return cloud.Machine{Instance: in, Tag: tag, Doubt: tag.Doubt(m.Label, created)}
}

// metalPrefix begins the IDs of servers, and distinguishes them from instances.
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
