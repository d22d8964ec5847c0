package sim

import (
	"time"

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
