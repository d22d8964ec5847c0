package machine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os/user"
	"slices"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/sshd"
	xssh "golang.org/x/crypto/ssh"
)

// Config configures a machine. It must have AuthorizedKey or Password, and Home or Run.
type Config struct {
	// Name is the machine's in errors.
	Name string
	// HostKey is the private key that the machine proves itself with, in OpenSSH's PEM
	// form. Empty means a new one.
	HostKey string
	// AuthorizedKey may log in: a public key in authorized_keys form.
	AuthorizedKey string
	// Password, NoKeys and MaxSessions are those of sshd.Config.
	Password    string
	NoKeys      bool
	MaxSessions int
	// Home is an existing folder: commands start there, and HOME names it.
	Home Home
	// Env is the environment of commands beside HOME and Mark, as "NAME=value".
	Env []string
	// Mark is a variable, "NAME=value", that no other machine's commands have.
	Mark string
	// Owns reports whether a process that has Mark is the machine's. Nil means that it is
	// if this user has started it: any user can give a process a mark.
	Owns func(Process) bool
	// Run serves sessions in place of processes, as in sshd.Config. Home, Env, Mark and Owns
	// mean nothing then: nothing of the machine leaves memory.
	Run func(ctx context.Context, p sshd.Program) (code int)
}

// A Machine runs until End or Close. All methods can be called at the same time.
type Machine struct {
	// HostKey is the public host key in authorized_keys form. Empty if this program does not
	// serve the machine.
	HostKey string

	name    string
	home    Home
	env     []string // of its commands, beside HOME
	mark    string
	owns    func(Process) bool
	server  *sshd.Server     // nil if this program does not serve the machine
	clients []xssh.PublicKey // may log in

	mu       sync.Mutex
	closed   bool
	cutOff   bool           // by SetReachable
	listener net.Listener   // of Listen
	serving  sync.WaitGroup // of the listener's connections
}

// New starts a machine. It can be reached by Dial, and by Listen's address.
func New(cfg Config) (*Machine, error) {
	host, public, clients, err := sshd.Keys(cfg.HostKey, cfg.AuthorizedKey)
	if err != nil {
		return nil, err
	}
	m := &Machine{name: cfg.Name}
	server := sshd.Config{
		HostKey: host, AuthorizedKeys: clients, Password: cfg.Password, NoKeys: cfg.NoKeys, MaxSessions: cfg.MaxSessions, Run: cfg.Run,
	}
	if cfg.Run == nil {
		m = Left(cfg)
		server.Dir, server.Env = string(m.home), m.env
	}
	m.HostKey, m.clients = public, clients
	if m.server, err = sshd.New(server); err != nil {
		return nil, err
	}
	return m, nil
}

// Left returns a machine whose program has ended without ending it. It cannot be reached, only
// ended: Name, Home, Env, Mark and Owns of the configuration are used. Home may be empty: then only
// processes are left of it.
func Left(cfg Config) *Machine {
	return &Machine{name: cfg.Name, home: cfg.Home, env: append(slices.Clone(cfg.Env), cfg.Mark), mark: cfg.Mark, owns: cfg.Owns}
}

// Home returns the machine's home, or "" if it has none.
func (m *Machine) Home() Home { return m.home }

// Admits reports whether the holder of a key, in authorized_keys form, can log in.
func (m *Machine) Admits(authorizedKey string) bool {
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(authorizedKey))
	return err == nil && slices.ContainsFunc(m.clients, func(k xssh.PublicKey) bool { return bytes.Equal(k.Marshal(), key.Marshal()) })
}

// PasswordLogins returns how many logins by the password there were.
func (m *Machine) PasswordLogins() int { return m.server.PasswordLogins() }

// errClosed is the error of reaching a machine that this program does not serve any more.
var errClosed = fmt.Errorf("the machine is closed: %w", net.ErrClosed)

// Dial connects to the machine in memory.
func (m *Machine) Dial() (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.server == nil || m.closed:
		return nil, errClosed
	case m.cutOff:
		return nil, errors.New("connection refused: the machine is cut off")
	}
	return m.server.Dial()
}

// Listen makes the machine listen at an address, host:port, and returns the address with the
// port that it has. Of several calls only the first has an effect.
func (m *Machine) Listen(addr string) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil || m.closed {
		return "", errClosed
	}
	if m.listener == nil {
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return "", err
		}
		m.listener = l
		m.serving.Go(func() { m.accept(l) })
	}
	return m.listener.Addr().String(), nil
}

// accept serves connections until the listener is closed. It hangs up at once while the
// machine is cut off.
func (m *Machine) accept(l net.Listener) {
	for {
		nc, err := l.Accept()
		if err != nil {
			return
		}
		m.mu.Lock()
		cutOff := m.cutOff
		m.mu.Unlock()
		if cutOff {
			nc.Close()
			continue
		}
		m.serving.Go(func() { m.server.ServeConn(nc) })
	}
}

// SetReachable with false cuts all connections and lets none in until it is called with
// true. What runs goes on.
func (m *Machine) SetReachable(reachable bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cutOff = !reachable
	if m.cutOff {
		m.server.HangUp()
	}
}

// HangUp cuts all connections. What runs goes on.
func (m *Machine) HangUp() { m.server.HangUp() }

// Close ends the machine's server with what its sessions run, and returns when that has
// ended. What detached itself lives on, and the home stays.
func (m *Machine) Close() {
	m.mu.Lock()
	m.closed = true
	if m.listener != nil {
		m.listener.Close()
	}
	m.mu.Unlock()
	if m.server != nil {
		m.server.Close()
	}
	m.serving.Wait()
}

// End ends machines at the same time: it closes them, kills their processes, and removes
// their homes. It goes on after an error, and can be repeated: what is gone is no error.
func End(ctx context.Context, machines ...*Machine) error {
	var closing sync.WaitGroup
	for _, m := range machines {
		closing.Go(m.Close)
	}
	closing.Wait()
	errs := []error{endProcesses(ctx, machines)}
	for _, m := range machines {
		if m.home == "" {
			continue
		}
		if err := m.runLast(ctx); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.name, err)) // the home has what another End runs
			continue
		}
		if err := m.home.Remove(); err != nil {
			errs = append(errs, fmt.Errorf("the home of %s: %w", m.name, err))
		}
	}
	return errors.Join(errs...)
}

// LoginName returns the name of the user that commands run as.
func LoginName() (string, error) {
	u, err := user.Current()
	if err != nil {
		return "", err
	}
	return u.Username, nil
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
