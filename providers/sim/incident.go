package sim

import (
	"fmt"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/simnode"
	"github.com/gputrain/gputrain/providers/driver"
)

// Preempt preempts a machine after a notice, which Instance.PreemptAt reports from now on. Zero
// preempts it at once.
func (c *Cloud) Preempt(id string, notice time.Duration) error {
	return c.fleet.with(id, func(m *instance) { m.preempt(notice) })
}

// Vanish removes a machine without any report, as a failure of its hardware does.
func (c *Cloud) Vanish(id string) error {
	return c.fleet.with(id, func(m *instance) { m.end(driver.InstanceTerminated, "it vanished", byCloud) })
}

// Stop stops a machine. It still exists and is billed.
func (c *Cloud) Stop(id string) error {
	return c.fleet.with(id, func(m *instance) {
		m.inst.State, m.inst.StateReason = driver.InstanceStopped, "it was stopped"
		m.note("stopped", byCloud)
		m.stop()
	})
}

// Fail makes a machine fail. It still exists and is billed.
func (c *Cloud) Fail(id string) error {
	return c.fleet.with(id, func(m *instance) {
		m.fail("its host failed")
		m.stop()
	})
}

// Xid has a machine's kernel log report a fault of a device, as NVIDIA's driver does: "79, GPU has fallen off the bus." The
// machine's tasks must be run by Options.Exec.
func Xid(c *Cloud, id string, device int, fault string) error {
	return c.fleet.with(id, func(m *instance) {
		if m.node != nil && m.node.sim != nil {
			m.node.sim.Log(fmt.Sprintf("NVRM: Xid (PCI:%s): %s", strings.TrimSuffix(simnode.GPUAddress(device), ".0"), fault))
		}
	})
}

// Running returns the names of the attempts that run on a machine. The machine's tasks must be run by Options.Exec.
func Running(c *Cloud, id string) (attempts []string) {
	_ = c.fleet.with(id, func(m *instance) { // on a machine that is gone nothing runs
		if m.node != nil && m.node.sim != nil {
			attempts = m.node.sim.Running()
		}
	})
	return attempts
}

// Break cuts a machine off: its SSH server cannot be reached, while the API still reports it as
// running. Its processes go on.
func (c *Cloud) Break(id string) error {
	return c.fleet.with(id, func(m *instance) { m.setBroken(true) })
}

// Heal undoes Break or DeadSSH.
func (c *Cloud) Heal(id string) error {
	return c.fleet.with(id, func(m *instance) { m.setBroken(false) })
}

// Cut cuts all machines off, new ones too, until it is called with false. The API still
// answers: see Outage.
func (c *Cloud) Cut(all bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fleet.setCut(all)
}
