package fakecloud

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/internal/sshd"
)

// MachineConfig configures a machine. Either AuthorizedKey or Password must be set.
type MachineConfig struct {
	// AuthorizedKey may log in. It is a public key in authorized_keys form.
	AuthorizedKey string
	// Password permits logins. A client may then also add keys to ~/.ssh/authorized_keys, unless NoKeys is set.
	Password string
	// NoKeys makes the machine accept no key but AuthorizedKey, like a machine behind a proxy that does the login.
	NoKeys bool
	// HostKey is the machine's private host key in OpenSSH's PEM form, as injected by a client. Empty means a new one.
	HostKey string
	// User is the login name. Empty means root. Commands always run as the user of the test.
	User string
	// Address is the address of this computer on which the machine listens. Empty means 127.0.0.1.
	Address string
	// BootAfter is the time until clients can log in. Negative means until Boot is called.
	BootAfter time.Duration
	// Impostor makes the machine present a host key other than HostKey.
	Impostor bool
	// Env is added to the environment of its commands, as "NAME=value".
	Env []string
	// Programs are shell scripts by name, such as an nvidia-smi. They come first in the PATH of its commands.
	Programs map[string]string
	// Disk is a folder whose content the machine's home has from the start: see Machine.CopyDisk. Empty means none.
	Disk string
}

// maxSessions limits the sessions of a connection, as OpenSSH does.
const maxSessions = 10

// A MachineState is a stage in a machine's life.
type MachineState int

// A booting machine closes each new connection at once, like a forwarded port without a listener. A machine that is
// down refuses connections.
const (
	Booting MachineState = iota
	Up
	Down
)

func (s MachineState) String() string { return [...]string{"booting", "up", "down"}[s] }

// A Machine is a machine of a fake cloud: an SSH server on a port of this computer. Its commands are real processes in
// its own home folder, with their own HOME, TMPDIR and PATH. Shutdown, poweroff and halt stop only the machine if they
// are found by PATH. An absolute path such as /sbin/shutdown would shut down the computer that runs the test.
//
// Detached processes end with the machine, if package machine finds them.
type Machine struct {
	Host, PublicIP string // MachineConfig.Address, and an address that only Dial can reach
	Port           int    // at Host; it is 22 at PublicIP
	User           string
	HostKey        string // in authorized_keys form: the key that the cloud publishes
	Home           string

	t       testing.TB
	dir     machine.Home // the folder of the machine, which contains Home
	ssh     *machine.Machine
	watcher sync.WaitGroup

	mu    sync.Mutex
	state MachineState
	why   string
	timer *time.Timer // boots the machine
	down  chan struct{}
}

// NewMachine starts a machine, which ends with the test.
func NewMachine(t testing.TB, cfg MachineConfig) *Machine {
	t.Helper()
	m := &Machine{t: t, User: cfg.User, PublicIP: publicIP(), down: make(chan struct{})}
	if m.User == "" {
		m.User = "root"
	}
	if err := m.start(cfg); err != nil {
		m.end("it did not start")
		t.Fatalf("fakecloud: machine: %v", err)
	}
	t.Cleanup(func() {
		m.end("the test is over")
		m.watcher.Wait()
	})
	switch {
	case cfg.BootAfter == 0:
		m.Boot()
	case cfg.BootAfter > 0:
		m.mu.Lock()
		m.timer = time.AfterFunc(cfg.BootAfter, m.Boot)
		m.mu.Unlock()
	}
	return m
}

func (m *Machine) start(cfg MachineConfig) error {
	dir, err := os.MkdirTemp("", "fakecloud-")
	if err != nil {
		return err
	}
	m.dir, m.Home = machine.Home(dir), filepath.Join(dir, "home")
	env, err := m.furnish(cfg)
	if err != nil {
		return err
	}
	hostKey := cfg.HostKey
	if cfg.Impostor {
		hostKey = "" // the machine makes a new one
	}
	m.ssh, err = machine.New(machine.Config{
		Name: "machine", HostKey: hostKey, AuthorizedKey: cfg.AuthorizedKey, Password: cfg.Password, NoKeys: cfg.NoKeys, MaxSessions: maxSessions,
		Home: machine.Home(m.Home), Env: env, Mark: m.mark(), Owns: func(machine.Process) bool { return true },
	})
	if err != nil {
		return err
	}
	m.HostKey = m.ssh.HostKey
	if cfg.Impostor {
		if _, m.HostKey, _, err = sshd.Keys(cfg.HostKey, ""); err != nil {
			return err
		}
	}
	m.ssh.SetReachable(false) // until it has booted
	addr, err := m.ssh.Listen(net.JoinHostPort(cmp.Or(cfg.Address, "127.0.0.1"), "0"))
	if err != nil {
		return err
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return err
	}
	m.Host, m.Port = at.Addr().String(), int(at.Port())
	machines.Store(net.JoinHostPort(m.PublicIP, "22"), m)
	m.watcher.Go(m.watchPower)
	return nil
}

// State returns the machine's state and, if the machine is down, the reason.
func (m *Machine) State() (MachineState, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.why
}

// Down is closed when the machine is down.
func (m *Machine) Down() <-chan struct{} { return m.down }

// Boot finishes the machine's boot, unless the machine is down.
func (m *Machine) Boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == Booting {
		m.state = Up
		m.ssh.SetReachable(true)
	}
}

// PasswordLogins returns the number of logins by password.
func (m *Machine) PasswordLogins() int { return m.ssh.PasswordLogins() }

// HangUp cuts all connections, like a failing network. Commands continue.
func (m *Machine) HangUp() { m.ssh.HangUp() }

// Kill takes the machine down at once: it cuts the connections, kills the processes, removes the disk, and then
// returns. It does not change the state of the fake's API.
func (m *Machine) Kill() { m.end("killed") }

// end takes the machine down, once, and removes everything that belongs to it.
func (m *Machine) end(why string) {
	m.mu.Lock()
	if m.state == Down {
		m.mu.Unlock()
		<-m.down
		return
	}
	m.state, m.why = Down, why
	if m.timer != nil {
		m.timer.Stop()
	}
	m.mu.Unlock()

	machines.Delete(net.JoinHostPort(m.PublicIP, "22"))
	if m.ssh != nil {
		if err := machine.End(context.Background(), m.ssh); err != nil {
			m.t.Errorf("fakecloud: machine: %v", err)
		}
	}
	if m.dir != "" {
		if err := m.dir.Remove(); err != nil {
			m.t.Errorf("fakecloud: machine: %v", err)
		}
	}
	close(m.down)
}
