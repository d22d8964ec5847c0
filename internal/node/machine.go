package node

import (
	"sync"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Machine holds the known facts about a node's machine. Its methods can be called concurrently.
type Machine struct {
	settings *Settings

	mu      sync.Mutex
	name    string          // not changed once the machine is launched
	offer   *driver.Offer   // by which the machine was last asked for; nil before that
	hostKey driver.HostKey  //secretvet:ignore no message formats a Machine, and users hold one only through a pointer
	inst    driver.Instance //secretvet:ignore as hostKey
	earlier Earlier         //secretvet:ignore as hostKey
}

// An Earlier is a machine on which an earlier program has had a node.
type Earlier struct {
	// Name is the machine's name.
	Name string
	// Folder is the folder on the machine in which it has the pool's files. Empty means that
	// it has none: no lease was kept.
	Folder string
	// HostKeys are the keys that the SSH server may have, if the driver does not report any.
	HostKeys []string
	// Instance is the machine, with the offer by which it was rented.
	Instance driver.Instance
}

// Assign records the offer by which the machine is asked for: Provider and Capabilities are that offer's.
func (m *Machine) Assign(o driver.Offer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.offer = &o
}

// Prepare is Assign for a machine that is about to be launched. It gives the machine a name and,
// if the driver injects host keys, a new host key.
func (m *Machine) Prepare(o driver.Offer, name string) error {
	m.Assign(o)
	hostKey := driver.HostKey{}
	if m.Capabilities().HostKeys == driver.HostKeyInjected {
		pair, err := ssh.NewKeyPair()
		if err != nil {
			return err
		}
		hostKey = driver.HostKey{Private: driver.Secret(pair.Private), Public: pair.Public}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name, m.hostKey = name, hostKey
	return nil
}

// Resume makes the machine one on which an earlier program has had a node.
func (m *Machine) Resume(e Earlier) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.name, m.inst, m.earlier = e.Name, e.Instance, e
	m.offer = &e.Instance.Offer
}

// Resumed reports whether an earlier program has left the pool's files on the machine.
func (m *Machine) Resumed() bool { return m.before().Folder != "" }

func (m *Machine) before() Earlier {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.earlier
}

// Request returns the request to launch the machine for a rank.
func (m *Machine) Request(rank int) driver.NodeRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return driver.NodeRequest{Rank: rank, Name: m.name, HostKey: m.hostKey}
}

// Name returns the machine's name.
func (m *Machine) Name() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.name
}

// Instance returns the machine as it was last described. Its ID is empty before the launch.
func (m *Machine) Instance() driver.Instance {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.inst
}

// SetInstance notes how the machine was described.
func (m *Machine) SetInstance(inst driver.Instance) {
	m.update(func(known *driver.Instance) { *known = inst })
}

// update changes what is known of the instance.
func (m *Machine) update(change func(*driver.Instance)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	change(&m.inst)
}

// Capabilities returns the capabilities of the machine's offer.
func (m *Machine) Capabilities() driver.Capabilities {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offer == nil {
		return m.settings.Capabilities
	}
	return m.settings.Capabilities.Of(*m.offer)
}

// Provider returns the name of the machine's provider.
func (m *Machine) Provider() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.offer != nil && m.offer.Account != "" {
		return m.offer.Provider
	}
	return m.settings.Provider
}

// Addr returns the address by which other nodes reach the machine, or its name if none is known.
func (m *Machine) Addr() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.inst.PrivateAddr != "":
		return m.inst.PrivateAddr
	case m.inst.PublicAddr != "":
		return m.inst.PublicAddr
	}
	return m.name
}

// Network names the private network that the machine is in: its provider's, if the driver says that its machines reach
// each other. It is empty if none is known.
func (m *Machine) Network() string {
	if !m.Capabilities().PrivateNetwork {
		return ""
	}
	return m.Provider()
}

// title names the machine in errors, an adopted one by its address too.
func (m *Machine) title() string {
	if addr := m.Instance().SSH.Addr; m.Capabilities().Adopts && addr != "" {
		return m.Name() + " at " + addr
	}
	return m.Name()
}

// scripts returns the text that the driver has for the machine.
func (m *Machine) scripts() driver.Scripts { return scriptsOf(m.settings.Driver, m.Instance()) }

// scriptsOf returns the text that a driver has for a machine. The zero value is none.
func scriptsOf(d driver.Driver, inst driver.Instance) driver.Scripts {
	if s, ok := d.(driver.Scripter); ok {
		return s.Scripts(inst)
	}
	return driver.Scripts{}
}
