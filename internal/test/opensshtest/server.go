// Package opensshtest runs real OpenSSH servers on the loopback for tests, and
// a network with faults in front of them.
package opensshtest

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// A Server is an OpenSSH server. Without options it has the limits that
// OpenSSH has by default.
type Server struct {
	Addr    string         // 127.0.0.1:port
	User    string         // the login name
	Signer  xssh.Signer    // an authorized key
	KeyFile string         // the same key in a file
	HostKey xssh.PublicKey // the server's host key
	Dir     string         // its configuration and keys

	t    testing.TB
	sshd string

	mu      sync.Mutex
	cmd     *exec.Cmd // the listener; nil if it is stopped
	orphans []process // servers of connections whose listener was stopped
	log     logbook
}

// An Option configures a server.
type Option func(*options)

type options struct {
	lines []string
	sftp  string // the SFTP server
	login *Login
}

// Config adds lines to sshd_config. They override those of this package.
func Config(lines ...string) Option {
	return func(o *options) { o.lines = append(o.lines, lines...) }
}

// DefaultLimits sets OpenSSH's default limits, for systems that ship others.
func DefaultLimits(o *options) {
	o.lines = append(o.lines, "MaxSessions 10", "MaxStartups 10:30:100", "MaxAuthTries 6")
}

// Start runs a server until the test ends. Without an installed sshd the test skips, or fails if GPUTRAIN_REQUIRE_SSHD
// is set.
func Start(t testing.TB, opts ...Option) *Server {
	t.Helper()
	o := options{sftp: "internal-sftp"}
	for _, opt := range opts {
		opt(&o)
	}
	s := &Server{sshd: find(t), Dir: t.TempDir(), User: currentUser(t), t: t}
	s.Signer, s.KeyFile = writeKey(t, filepath.Join(s.Dir, "client"))
	home := filepath.Join(s.Dir, "home")
	must(t, os.Mkdir(home, 0o700))
	if o.login != nil {
		o.login.Write(t, home)
	}
	must(t, os.WriteFile(filepath.Join(s.Dir, "authorized_keys"), xssh.MarshalAuthorizedKey(s.Signer.PublicKey()), 0o600))
	s.NewHostKey()
	t.Cleanup(func() {
		s.Kill()
		s.log.close()
		if t.Failed() {
			t.Logf("sshd at %s says:\n%s", s.Addr, s.Log())
		}
	})
	var err error
	for range 5 { // another process may take the port before sshd does
		s.Addr = freeAddr(t)
		_, port, _ := net.SplitHostPort(s.Addr)
		lines := append(withHome(o.lines, home),
			"Port "+port, "ListenAddress 127.0.0.1", "HostKey "+filepath.Join(s.Dir, "host"),
			"AuthorizedKeysFile "+filepath.Join(s.Dir, "authorized_keys"),
			"PidFile none", "StrictModes no", "UsePAM no", "PermitRootLogin yes",
			"PasswordAuthentication no", "KbdInteractiveAuthentication no", "Subsystem sftp "+o.sftp)
		if hasPenalties() { // tests fail to log in on purpose, all from one address
			lines = append(lines, "PerSourcePenalties no")
		}
		must(t, os.WriteFile(s.config(), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
		if err = s.listen(); err == nil {
			return s
		}
	}
	t.Fatal(err)
	return nil
}

// withHome sets HOME for logins, unless lines do. In the user's own home each login would run the user's .bashrc, which can take a
// second, and tests would leave files.
func withHome(lines []string, home string) []string {
	home = `"HOME=` + home + `"`
	for i, line := range lines {
		if strings.HasPrefix(line, "SetEnv") { // sshd takes the first such line
			if !strings.Contains(line, "HOME=") {
				lines[i] += " " + home
			}
			return lines
		}
	}
	return append(lines, "SetEnv "+home)
}

// Stop ends only the listener: connections live on, new ones are refused.
func (s *Server) Stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		return
	}
	freeze(s.cmd.Process) // so that it makes no more children
	s.orphans = append(s.orphans, children(s.cmd.Process.Pid)...)
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
}

// Kill ends the listener and the servers of all its connections. Commands continue, as they do when sshd is killed.
func (s *Server) Kill() {
	s.Stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.orphans {
		p.kill()
	}
	s.orphans = nil
}

// Resume starts the listener again, at the same address, after Stop or Kill. If another process has taken the port
// meanwhile, Resume waits until that process ends.
func (s *Server) Resume() {
	s.t.Helper()
	err := s.listen()
	for deadline := time.Now().Add(time.Minute); err != nil && time.Now().Before(deadline); err = s.listen() {
		time.Sleep(100 * time.Millisecond)
	}
	must(s.t, err)
}

// Restart stops the listener and starts another one, as an upgrade does. Connections live on.
func (s *Server) Restart() {
	s.t.Helper()
	s.Stop()
	s.Resume()
}

// NewHostKey gives the server another host key, which it uses from its next start on.
func (s *Server) NewHostKey() {
	s.t.Helper()
	host, _ := writeKey(s.t, filepath.Join(s.Dir, "host"))
	s.HostKey = host.PublicKey()
}

// Log returns the server's log so far.
func (s *Server) Log() string { return s.log.String() }

func (s *Server) config() string { return filepath.Join(s.Dir, "sshd_config") }

// listen runs the listener and waits until it accepts connections.
func (s *Server) listen() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	said, stderr, err := os.Pipe()
	if err != nil {
		return err
	}
	cmd := exec.Command(s.sshd, "-D", "-e", "-f", s.config())
	cmd.Stderr = stderr
	err = cmd.Start()
	stderr.Close()
	if err != nil {
		said.Close()
		return fmt.Errorf("sshd: %w", err)
	}
	ready := s.log.follow(said, "Server listening on")
	if !<-ready {
		cmd.Wait()
		return fmt.Errorf("sshd did not start:\n%s", s.log.String())
	}
	s.cmd = cmd
	return nil
}

// find returns the absolute path of sshd: sshd refuses to start by a relative one.
func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"sshd", "/usr/sbin/sshd", "/usr/local/sbin/sshd"} {
		if path, err := exec.LookPath(name); err == nil {
			if os.Getuid() == 0 {
				os.MkdirAll("/run/sshd", 0o755) // Debian's sshd needs it
			}
			return path
		}
	}
	missing(t, "sshd", "openssh-server")
	return ""
}

// Client returns the path of an OpenSSH client program: ssh-keygen or ssh-agent.
func Client(t testing.TB, name string) string {
	t.Helper()
	return Program(t, name, "openssh-client")
}

// Program returns the path of a program. If it is missing, the test is skipped or fails, as in Start.
func Program(t testing.TB, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name, pkg)
	}
	return path
}

func missing(t testing.TB, program, pkg string) {
	t.Helper()
	if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
		t.Fatalf("no %s on this machine, and GPUTRAIN_REQUIRE_SSHD is set: install %s", program, pkg)
	}
	t.Skipf("no %s on this machine: install %s", program, pkg)
}

// hasPenalties reports whether this OpenSSH (9.8 and later) blocks addresses that fail to log in.
var hasPenalties = sync.OnceValue(func() bool {
	out, err := exec.Command("ssh", "-V").CombinedOutput()
	if err != nil {
		return false
	}
	var major, minor int
	if _, err := fmt.Sscanf(string(out), "OpenSSH_%d.%d", &major, &minor); err != nil {
		return false
	}
	return major > 9 || major == 9 && minor >= 8
})

func freeAddr(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func currentUser(t testing.TB) string {
	t.Helper()
	u, err := user.Current()
	must(t, err)
	return u.Username
}

func writeKey(t testing.TB, path string) (xssh.Signer, string) {
	t.Helper()
	_, priv, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	block, err := xssh.MarshalPrivateKey(priv, "test")
	must(t, err)
	must(t, os.WriteFile(path, pem.EncodeToMemory(block), 0o600))
	signer, err := xssh.NewSignerFromKey(priv)
	must(t, err)
	return signer, path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
