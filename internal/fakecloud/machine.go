package fakecloud

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
	xssh "golang.org/x/crypto/ssh"
)

// MachineConfig says what a machine is. Only AuthorizedKey must be there, or Password.
type MachineConfig struct {
	// AuthorizedKey may log in: a public key in authorized_keys form.
	AuthorizedKey string
	// Password lets in whoever has it, and who has put a key into ~/.ssh/authorized_keys
	// by it, unless NoKeys is set.
	Password string
	// NoKeys has the machine take no keys but AuthorizedKey, as behind a proxy that logs in
	// to it by itself.
	NoKeys bool
	// HostKey is the machine's private host key in OpenSSH's PEM form, as a
	// client injects it. Empty means a new one.
	HostKey string
	// User is the login name. Empty means root. Whatever it is, commands run as
	// the user who runs the test.
	User string
	// Address is where it listens: one of this computer's. Empty means 127.0.0.1.
	Address string
	// BootAfter is how long the machine takes until it lets anybody in. Less
	// than zero means until Boot.
	BootAfter time.Duration
	// Impostor has another key than HostKey answer for the machine.
	Impostor bool
	// Env is what its commands find in their environment beside what a login
	// sets, as "NAME=value".
	Env []string
	// Programs are what its commands find by PATH before anything else, by name: a
	// shell script each, such as an nvidia-smi.
	Programs map[string]string
}

// maxSessions is how many sessions a connection may have, as with OpenSSH.
const maxSessions = 10

// A MachineState is where a machine is in its life.
type MachineState int

// A machine that is booting hangs up on whoever connects to it, as a forwarded
// port does that nobody listens behind yet; one that is down refuses.
const (
	Booting MachineState = iota
	Up
	Down
)

func (s MachineState) String() string { return [...]string{"booting", "up", "down"}[s] }

// A Machine is a machine of a fake cloud: an SSH server on a port of this computer,
// whose commands are real processes in a home folder of their own. For all that
// they can tell by HOME, TMPDIR and PATH they have it for themselves. Shutdown,
// poweroff and halt take down the machine and nothing else, if they are found by
// PATH: by /sbin/shutdown a command would mean the computer that the test runs on.
//
// Where there is no /proc, processes that detached themselves outlive it.
type Machine struct {
	Host, PublicIP string // MachineConfig.Address, and an address that only Dial knows
	Port           int    // at Host; at PublicIP it is 22
	User           string
	HostKey        string // in authorized_keys form, as the cloud would publish it
	Home           string

	t        testing.TB
	dir      string
	server   *sshd.Server
	listener net.Listener
	wg       sync.WaitGroup

	mu    sync.Mutex
	state MachineState
	why   string
	timer *time.Timer // of its boot
	down  chan struct{}
}

// NewMachine starts a machine, which ends with the test.
func NewMachine(t testing.TB, cfg MachineConfig) *Machine {
	t.Helper()
	m := &Machine{t: t, User: cfg.User, PublicIP: publicIP(), down: make(chan struct{})}
	if m.User == "" {
		m.User = "root"
	}
	host, public, clients, err := sshd.Keys(cfg.HostKey, cfg.AuthorizedKey)
	if err == nil && cfg.Impostor {
		host, _, _, err = sshd.Keys("", cfg.AuthorizedKey)
	}
	if err != nil {
		t.Fatalf("fakecloud: machine: %v", err)
	}
	m.HostKey = public
	if err := m.start(cfg, host, clients); err != nil {
		m.end("it did not start")
		m.wg.Wait()
		t.Fatalf("fakecloud: machine: %v", err)
	}
	t.Cleanup(func() {
		m.end("the test is over")
		m.wg.Wait()
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

func (m *Machine) start(cfg MachineConfig, host xssh.Signer, clients []xssh.PublicKey) (err error) {
	if m.dir, err = os.MkdirTemp("", "fakecloud-"); err != nil {
		return err
	}
	m.Home = filepath.Join(m.dir, "home")
	env, err := m.furnish(cfg)
	if err != nil {
		return err
	}
	m.server, err = sshd.New(sshd.Config{HostKey: host, AuthorizedKeys: clients, Password: cfg.Password, NoKeys: cfg.NoKeys, Dir: m.Home, Env: env, MaxSessions: maxSessions})
	if err != nil {
		return err
	}
	if m.listener, err = net.Listen("tcp", net.JoinHostPort(cmp.Or(cfg.Address, "127.0.0.1"), "0")); err != nil {
		return err
	}
	addr := m.listener.Addr().(*net.TCPAddr)
	m.Host, m.Port = addr.IP.String(), addr.Port
	machines.Store(net.JoinHostPort(m.PublicIP, "22"), m)
	m.wg.Go(m.accept)
	m.wg.Go(m.watchPower)
	return nil
}

// State returns the machine's state, and why it is down.
func (m *Machine) State() (MachineState, string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.state, m.why
}

// Down is closed when the machine has gone down.
func (m *Machine) Down() <-chan struct{} { return m.down }

// Boot ends the machine's boot, unless it is down.
func (m *Machine) Boot() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.state == Booting {
		m.state = Up
	}
}

// PasswordLogins returns how often somebody was let in by the password.
func (m *Machine) PasswordLogins() int { return m.server.PasswordLogins() }

// HangUp cuts all connections, as a network that fails does. Commands go on.
func (m *Machine) HangUp() { m.server.HangUp() }

// Kill takes the machine down from one moment to the next: its connections are
// cut, its processes killed, its disk is gone. It returns when that is done.
// Whether the fake's API still knows the machine is the fake's affair.
func (m *Machine) Kill() { m.end("killed") }

// accept lets clients in while the machine is up.
func (m *Machine) accept() {
	for {
		nc, err := m.listener.Accept()
		if err != nil {
			return
		}
		if state, _ := m.State(); state != Up {
			nc.Close()
			continue
		}
		m.wg.Go(func() { m.server.ServeConn(nc) })
	}
}

// end takes the machine down once, and leaves nothing of it.
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
	if m.listener != nil {
		m.listener.Close()
	}
	if m.server != nil {
		m.server.Close()
	}
	if m.dir != "" {
		if err := endProcesses(m.mark()); err != nil {
			m.t.Errorf("fakecloud: machine: %v", err)
		}
		if err := removeAll(m.dir); err != nil {
			m.t.Errorf("fakecloud: machine: %v", err)
		}
	}
	close(m.down)
}
