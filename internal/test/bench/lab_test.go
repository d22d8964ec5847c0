package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// A lab has the OpenSSH servers for all measurements.
type lab struct {
	ctx      context.Context // ends with the test, and on SIGINT and SIGTERM
	size     size
	machines []*machine
	table    *table
}

// newLab starts the servers. All programs see an empty home folder, here and on the servers, so
// that no user settings and no login scripts are measured.
func newLab(t *testing.T, ctx context.Context, s size, all *table) *lab {
	home := t.TempDir()
	for _, program := range []string{"ssh", "scp"} {
		opensshtest.Client(t, program)
	}
	t.Setenv("HOME", home)
	for _, name := range []string{"XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"} {
		t.Setenv(name, filepath.Join(home, name))
	}
	t.Setenv("SSH_AUTH_SOCK", "")
	t.Setenv("LC_ALL", "C")
	all.about = about()
	l := &lab{ctx: ctx, size: s, table: all}
	for range s.nodes {
		l.machines = append(l.machines, newMachine(t, len(l.machines)))
	}
	return l
}

// A machine is an OpenSSH server and the data to reach it.
type machine struct {
	name    string // in ssh_config
	addr    string
	user    string
	keyFile string
	signer  xssh.Signer
	hostKey xssh.PublicKey
}

func newMachine(t testing.TB, i int) *machine {
	t.Helper()
	return newMachineAt(t, i, t.TempDir())
}

// newMachineAt starts the server of machine i with that home folder.
func newMachineAt(t testing.TB, i int, home string) *machine {
	t.Helper()
	s := opensshtest.Start(t, opensshtest.DefaultLimits, opensshtest.Config("SetEnv HOME="+home))
	return &machine{fmt.Sprint("n", i), s.Addr, s.User, s.KeyFile, s.Signer, s.HostKey}
}

// inMemory returns a new folder, in memory if this system has /dev/shm. It is removed with the test.
func inMemory(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "gputrain-bench.")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// far returns the machine behind a link that delays each direction. The link is a separate process,
// so that its work does not slow this one.
func (m *machine) far(t *testing.T, l *lab, oneWay time.Duration) *machine {
	t.Helper()
	link, ready := l.child(t, self("link"))
	if link == nil {
		t.Fatal(ready)
	}
	addr, err := link.ask("%s %s", m.addr, oneWay)
	if err != nil {
		t.Fatal(err)
	}
	other := *m
	other.name, other.addr = "far-"+m.name, addr
	return &other
}

// serveLink is the link's process. It reads a line with an address and a delay, prints the link's
// own address, and ends at the end of stdin.
func serveLink() error {
	fmt.Println("ready")
	var target string
	var delay string
	if _, err := fmt.Scanln(&target, &delay); err != nil {
		return err
	}
	oneWay, err := time.ParseDuration(delay)
	if err != nil {
		return err
	}
	// Benchmark provides a testing.TB outside of a test.
	testing.Benchmark(func(b *testing.B) {
		if b.N > 1 {
			return
		}
		link := opensshtest.Proxy(b, target)
		link.Delay(oneWay)
		fmt.Println(link.Addr)
		io.Copy(io.Discard, os.Stdin)
	})
	return nil
}

// pool opens a pool on the machines. It ends with the test.
func (l *lab) pool(t *testing.T, spec gputrain.Spec, machines ...*machine) *gputrain.Compute {
	t.Helper()
	return l.poolWith(t, spec, nil, machines...)
}

// poolWith opens a pool with options.
func (l *lab) poolWith(t *testing.T, spec gputrain.Spec, opts []gputrain.Option, machines ...*machine) *gputrain.Compute {
	t.Helper()
	pool, err := l.open(t, spec, opts, machines...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil && l.ctx.Err() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return pool
}

func (l *lab) open(t *testing.T, spec gputrain.Spec, opts []gputrain.Option, machines ...*machine) (*gputrain.Compute, error) {
	spec.Nodes = len(machines)
	return gputrain.Open(l.ctx, hosts(machines), spec, append(opts[:len(opts):len(opts)], gputrain.WithResultsDir(t.TempDir()))...)
}

func hosts(machines []*machine) ssh.Config {
	var c ssh.Config
	for _, m := range machines {
		c.Hosts = append(c.Hosts, ssh.Host{Addr: m.addr, User: m.user, KeyFile: m.keyFile, HostKey: xssh.FingerprintSHA256(m.hostKey)})
	}
	return c
}

// dial connects with golang.org/x/crypto/ssh and its defaults, except for the ciphers.
func (m *machine) dial(ciphers ...string) (*xssh.Client, error) {
	return xssh.Dial("tcp", m.addr, &xssh.ClientConfig{
		User: m.user, Auth: []xssh.AuthMethod{xssh.PublicKeys(m.signer)}, HostKeyCallback: xssh.FixedHostKey(m.hostKey),
		Config: xssh.Config{Ciphers: ciphers}, Timeout: time.Minute,
	})
}

// fastest is the fastest cipher of x/crypto/ssh.
const fastest = "aes128-gcm@openssh.com"

// raw connects to the machine until the test ends.
func (l *lab) raw(t *testing.T, m *machine) *xssh.Client {
	t.Helper()
	c, err := m.dial(fastest)
	if err != nil {
		t.Fatal(err)
	}
	stop := context.AfterFunc(l.ctx, func() { c.Close() })
	t.Cleanup(func() { stop(); c.Close() })
	return c
}

// session runs a command in its own session.
func session(c *xssh.Client, command string, in io.Reader, out io.Writer) error {
	s, err := c.NewSession()
	if err != nil {
		return err
	}
	defer s.Close()
	var said bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = in, out, &said
	if err := s.Run(command); err != nil {
		return fmt.Errorf("%s: %w: %s", command, err, &said)
	}
	return nil
}

// about returns a line with the machine, the date and the versions.
func about() string {
	first := func(name string, arg ...string) string {
		out, err := exec.Command(name, arg...).CombinedOutput()
		if err != nil {
			return ""
		}
		line, _, _ := strings.Cut(string(out), "\n")
		line, _, _ = strings.Cut(line, ",")
		return strings.Join(strings.Fields(line), " ")
	}
	field := func(file, key string) string {
		text, _ := os.ReadFile(file)
		_, rest, _ := strings.Cut(string(text), key)
		line, _, _ := strings.Cut(rest, "\n")
		return strings.Trim(line, " \t:=\"")
	}
	load, _ := os.ReadFile("/proc/loadavg")
	busy, _, _ := strings.Cut(string(load), " ")
	if busy != "" {
		busy = "load average " + busy + " at the start"
	}
	parts := []string{
		time.Now().Format(time.DateOnly) + ": gputrain " + first("git", "describe", "--always", "--dirty"),
		fmt.Sprint(runtime.NumCPU()) + " cores", field("/proc/cpuinfo", "model name"),
		busy, field("/etc/os-release", "PRETTY_NAME"), strings.Replace(runtime.Version(), "go", "Go ", 1), first("ssh", "-V"),
		first("parallel", "--version"), first("rsync", "--version"), first("pdsh", "-V"), "size " + *sizeFlag,
	}
	var known []string
	for _, p := range parts {
		if p != "" {
			known = append(known, p)
		}
	}
	return strings.Join(known, "; ")
}

var errWrong = errors.New("the answer is wrong")
