package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	xssh "golang.org/x/crypto/ssh"
)

// shells are the shells under which the node's script must run; perl stands for runner.pl. A shell that this machine
// lacks is skipped, except in CI, which requires sshd and every shell.
var shells = []string{"perl", "dash", "bash", "busybox ash"}

// eachShell runs a test under every shell, under all of them at once: the tests wait more than
// they work.
func eachShell(t *testing.T, f func(t *testing.T, shell string)) {
	var all sync.WaitGroup
	for _, sh := range shells {
		all.Go(func() {
			t.Run(strings.Fields(sh)[0], func(t *testing.T) {
				needShell(t, sh)
				f(t, sh)
			})
		})
	}
	all.Wait()
}

// inShort are the shells of a short run: the runner that most nodes have.
var inShort = map[string]bool{"perl": true}

func needShell(t testing.TB, sh string) {
	t.Helper()
	if testing.Short() && !inShort[sh] {
		t.Skip("scripts/test -deep runs it: a short run has perl alone")
	}
	if _, err := exec.LookPath(strings.Fields(sh)[0]); err != nil {
		if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
			t.Fatal(err)
		}
		t.Skip(err)
	}
}

// connect returns a client of a real OpenSSH server, through addr if that is not empty.
func connect(t testing.TB, srv *opensshtest.Server, addr string) *ssh.Client {
	t.Helper()
	if addr == "" {
		addr = srv.Addr
	}
	c := ssh.New(ssh.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
		User:    srv.User,
		Auth:    []xssh.AuthMethod{xssh.PublicKeys(srv.Signer)},
		HostKey: xssh.FixedHostKey(srv.HostKey),
	})
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

var pools atomic.Int64

// config returns the Config of a new pool for the test.
func config(t testing.TB, shell string) Config {
	plain := shell != "perl"
	if !plain {
		shell = "sh"
	}
	return Config{
		PoolID: fmt.Sprintf("test-%d-%d-%d", os.Getpid(), time.Now().UnixNano(), pools.Add(1)),
		Root:   t.TempDir() + "/pool root's",
		Shell:  shell,
		Plain:  plain,
	}
}

// start returns a node. At the end of the test it is closed and checked to be clean.
func start(t testing.TB, c *ssh.Client, cfg Config) *Node {
	t.Helper()
	n, err := Start(t.Context(), c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	n.mu.Lock()
	if n.control != nil && n.control.runner == cfg.Plain {
		t.Errorf("runner.pl does the work: %v", n.control.runner)
	}
	n.mu.Unlock()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := n.Close(ctx, true); err != nil {
			t.Error(err)
		}
		clean(t, n)
	})
	return n
}

// clean checks that nothing of a pool is left.
func clean(t testing.TB, n *Node) {
	t.Helper()
	if _, err := os.Lstat(n.facts.Root); !os.IsNotExist(err) {
		t.Errorf("%s is left (%v)", n.facts.Root, err)
	}
	for _, p := range processes(t, "GPUTRAIN_POOL="+n.cfg.PoolID) {
		t.Errorf("process left: %s", p)
	}
}

// processes returns the command lines of the processes that have the variable.
func processes(t testing.TB, variable string) (found []string) {
	dirs, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, d := range dirs {
		env, err := os.ReadFile("/proc/" + d.Name() + "/environ")
		if err == nil && bytes.Contains(env, []byte(variable+"\x00")) {
			line, _ := os.ReadFile("/proc/" + d.Name() + "/cmdline")
			found = append(found, d.Name()+" "+strings.ReplaceAll(string(line), "\x00", " "))
		}
	}
	return found
}

var taskIDs atomic.Int64

// A result is the result of one task.
type result struct {
	Exit
	out, errs string
	err       error
}

// run runs a spec to its end. It gives the spec an ID if it has none.
func run(t testing.TB, n *Node, spec Spec) result {
	t.Helper()
	return runCtx(t.Context(), n, spec, nil)
}

func runCtx(ctx context.Context, n *Node, spec Spec, started func()) (r result) {
	if spec.ID == "" {
		spec.ID = fmt.Sprintf("t-%d", taskIDs.Add(1))
	}
	var out, errs bytes.Buffer
	r.Exit, r.err = n.Run(ctx, spec, Sinks{Stdout: &out, Stderr: &errs, Started: started, Live: true})
	r.out, r.errs = out.String(), errs.String()
	return r
}

// A watch is a sink that lets a test wait for a text.
type watch struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newWatch() *watch { return &watch{more: make(chan struct{}, 1)} }

func (w *watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default:
	}
	return w.text.Write(p)
}

func (w *watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// await waits until the text has arrived.
func (w *watch) await(t testing.TB, text string) {
	t.Helper()
	for late := time.After(patient); !strings.Contains(w.String(), text); {
		select {
		case <-w.more:
		case <-late:
			t.Fatalf("%q did not come: %q", text, w.String())
		}
	}
}

// A test waits at most patient for an event that must occur. This measures nothing, and only ends tests that would run
// forever.
const patient = 2 * time.Minute

// until waits until ok returns true.
func until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patient); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("did not happen in time: %s", what)
		}
	}
}

// awaitDone waits until a node is lost.
func awaitDone(t testing.TB, n *Node) {
	t.Helper()
	select {
	case <-n.Done():
	case <-time.After(patient):
		t.Fatal("the node is never done")
	}
}

// await waits until a file has content, and returns it. The file's writer first creates it empty.
func await(t testing.TB, file string) string {
	t.Helper()
	var b []byte
	until(t, file, func() bool {
		b, _ = os.ReadFile(file)
		return len(b) > 0
	})
	return string(b)
}
