//go:build unix

package local

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/machine"
	"github.com/gputrain/gputrain/providers/driver"
	"go.uber.org/goleak"
	xssh "golang.org/x/crypto/ssh"
)

func TestMain(m *testing.M) {
	gputrain.Init() // this program is also what runs functions on nodes
	// A test can start this program as a victim, which is killed. The programs that the victim
	// starts must not become victims.
	if text, ok := os.LookupEnv(victimEnv); ok {
		os.Unsetenv(victimEnv)
		if err := runVictim(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m)
}

// A testPool is a driver and its pool.
type testPool struct {
	driver.Driver
	t      *testing.T
	dir    string
	info   driver.PoolInfo
	signer xssh.Signer
}

func newPool(t *testing.T, cfg Config) *testPool {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = t.TempDir()
	}
	d, err := cfg.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	_, signer := newKey(t)
	// No other run of the tests has this ID: processes are found by it.
	id := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/_", r) {
			return '-'
		}
		return r
	}, strings.ToLower(fmt.Sprintf("t%d-%s", os.Getpid(), t.Name())))
	return &testPool{d, t, cfg.Dir, driver.PoolInfo{
		ID:            id[:min(len(id), 40)],
		Owner:         "test",
		AuthorizedKey: string(xssh.MarshalAuthorizedKey(signer.PublicKey())),
	}, signer}
}

// newKey returns a key for logins or for a server, and its OpenSSH PEM form.
func newKey(t *testing.T) (private string, signer xssh.Signer) {
	t.Helper()
	private, err := machine.NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	if signer, err = xssh.ParsePrivateKey([]byte(private)); err != nil {
		t.Fatal(err)
	}
	return private, signer
}

func (p *testPool) request(nodes int) driver.Launch {
	req := driver.Launch{Pool: p.info, Offer: driver.Offer{Provider: "local", HourlyUSD: driver.USD(0)}}
	for rank := range nodes {
		req.Nodes = append(req.Nodes, driver.NodeRequest{Rank: rank, Name: p.info.ID + "-" + strconv.Itoa(rank)})
	}
	return req
}

func (p *testPool) launch(nodes int) []driver.Instance {
	p.t.Helper()
	got, err := p.Launch(p.t.Context(), p.request(nodes))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		for _, in := range got {
			p.Terminate(p.t.Context(), in.ID)
		}
	})
	return got
}

// open starts a command on a node, over SSH, with the host key pinned.
func (p *testPool) open(in driver.Instance) *xssh.Session {
	p.t.Helper()
	key, _, _, _, err := xssh.ParseAuthorizedKey([]byte(in.SSH.HostKeys[0]))
	if err != nil {
		p.t.Fatal(err)
	}
	nc, err := p.Driver.(driver.Dialer).Dial(p.t.Context(), in)
	if err != nil {
		p.t.Fatal(err)
	}
	conn, channels, requests, err := xssh.NewClientConn(nc, in.SSH.Addr, &xssh.ClientConfig{
		User:            in.SSH.User,
		Auth:            []xssh.AuthMethod{xssh.PublicKeys(p.signer)},
		HostKeyCallback: xssh.FixedHostKey(key),
	})
	if err != nil {
		p.t.Fatal(err)
	}
	client := xssh.NewClient(conn, channels, requests)
	p.t.Cleanup(func() { client.Close(); client.Wait() })
	session, err := client.NewSession()
	if err != nil {
		p.t.Fatal(err)
	}
	return session
}

func (p *testPool) output(in driver.Instance, command string) string {
	p.t.Helper()
	var stderr bytes.Buffer
	session := p.open(in)
	session.Stderr = &stderr
	out, err := session.Output(command)
	if err != nil {
		p.t.Fatalf("%s: %v\n%s", command, err, &stderr)
	}
	return string(out)
}

// A detached process has left the session that started it. It holds a pipe open, whose end
// shows that the process is gone.
type detached struct {
	pid  int
	pipe *os.File
}

func (p *testPool) detach(in driver.Instance) *detached {
	p.t.Helper()
	path := filepath.Join(p.t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		p.t.Fatal(err)
	}
	p.output(in, detaching(path))
	return opened(p.t, path)
}

// detaching returns a command that leaves a process behind. That process writes its ID into a
// pipe and holds the pipe open.
func detaching(pipe string) string {
	return `{ $(command -v setsid) sh -c 'echo $$; exec sleep 1000' >'` + pipe + `' & } >/dev/null 2>&1`
}

// opened returns the process that holds a pipe open.
func opened(t *testing.T, path string) *detached {
	t.Helper()
	pipe, err := os.Open(path) // waits for the process
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(pipe).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(pid, syscall.SIGKILL) // if the test failed
		pipe.Close()
	})
	awaitSleep(t, pid)
	return &detached{pid, pipe}
}

// awaitSleep waits until a process has become the program sleep. For a moment before that, it
// shows neither arguments nor environment, so that its mark cannot be found.
func awaitSleep(t *testing.T, pid int) {
	t.Helper()
	if _, err := os.Stat("/proc/self/cmdline"); err != nil {
		return
	}
	eventually(t, "sleep", func() bool {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		return errors.Is(err, fs.ErrNotExist) || strings.HasPrefix(string(line), "sleep\x00") // it may have been ended already
	})
}

// mustEnd waits until the process is gone. It does nothing on macOS, which hides the marks of
// its own sleep.
func (d *detached) mustEnd(t *testing.T) {
	t.Helper()
	if runtime.GOOS != "linux" {
		return
	}
	d.pipe.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(d.pipe); err != nil {
		t.Errorf("process %d outlived its node: %v", d.pid, err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	return got
}

func TestOffer(t *testing.T) {
	t.Setenv("PATH", "") // without nvidia-smi
	p := newPool(t, Config{})
	var offers []driver.Offer
	for o, err := range p.Offers(t.Context(), driver.Query{Accelerator: accelerators.Accelerator{Name: "A100", Count: 8}}) {
		if err != nil {
			t.Fatal(err)
		}
		offers = append(offers, o)
	}
	if len(offers) != 1 {
		t.Fatalf("%d offers", len(offers))
	}
	o := offers[0]
	usd, known := o.HourlyUSD.USD()
	if o.InstanceType != "local" || o.Region == "" || o.VCPUs < 1 || o.MemoryGiB <= 0 || o.DiskGiB <= 0 ||
		usd != 0 || !known || o.Available != 0 || o.Accelerator != (accelerators.Accelerator{}) {
		t.Errorf("offer %+v", o)
	}
}

func TestLifeOfANode(t *testing.T) {
	t.Setenv("LOCAL_TEST_API_KEY", "hunter2")
	t.Setenv("LC_LOCAL_TEST", "x")
	p := newPool(t, Config{})
	nodes := p.launch(2)
	if want := []string{"gputrain-" + nodes[0].ID, "gputrain-" + nodes[1].ID}; !slices.Equal(names(t, p.dir), want) {
		t.Errorf("homes %v; want %v", names(t, p.dir), want)
	}
	for rank, in := range nodes {
		home := filepath.Join(p.dir, "gputrain-"+in.ID)
		if info, err := os.Stat(home); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("home: %v, %v", info, err)
		}
		if in.Rank != rank || in.State != driver.InstanceRunning || in.PrivateAddr != "127.0.0.1" {
			t.Errorf("instance %+v", in)
		}
		want := home + " " + home + " " + p.info.ID + " " + in.Name + " x unset\n"
		got := p.output(in, `echo "$HOME $(pwd) $GPUTRAIN_POOL $GPUTRAIN_NODE $LC_LOCAL_TEST ${LOCAL_TEST_API_KEY-unset}"`)
		if got != want {
			t.Errorf("on the node: %q; want %q", got, want)
		}
	}
	// A repeated launch makes no second node.
	again, err := p.Launch(t.Context(), p.request(2))
	if err != nil || again[0].SSH.HostKeys[0] != nodes[0].SSH.HostKeys[0] {
		t.Errorf("launched again: %+v, %v", again, err)
	}

	process := p.detach(nodes[0])
	waiting := p.open(nodes[1])
	if err := waiting.Start("sleep 1000"); err != nil {
		t.Fatal(err)
	}
	if err := p.Terminate(t.Context(), nodes[0].ID, nodes[1].ID); err != nil {
		t.Error(err)
	}
	if err := waiting.Wait(); err == nil {
		t.Error("a command outlived its node")
	}
	process.mustEnd(t)
	if left := names(t, p.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if _, err := p.Driver.(driver.Dialer).Dial(t.Context(), nodes[0]); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("dialed a node that is gone: %v", err)
	}
	if held, err := p.List(t.Context(), p.info.ID); len(held) > 0 || err != nil {
		t.Errorf("listed %v, %v", held, err)
	}
}

func TestInjectedHostKey(t *testing.T) {
	p := newPool(t, Config{})
	kept, signer := newKey(t)
	public := strings.TrimSpace(string(xssh.MarshalAuthorizedKey(signer.PublicKey())))
	req := p.request(1)
	req.Nodes[0].HostKey = driver.HostKey{Private: driver.Secret(kept), Public: public}
	nodes, err := p.Launch(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if got := nodes[0].SSH.HostKeys; !slices.Equal(got, []string{public}) {
		t.Errorf("host keys %q; want %q", got, public)
	}
	p.output(nodes[0], "true") // pins that key
	if err := p.Terminate(t.Context(), nodes[0].ID); err != nil {
		t.Error(err)
	}
	req.Nodes[0].HostKey.Private = "nonsense"
	if _, err := p.Launch(t.Context(), req); err == nil {
		t.Error("launched with a broken host key")
	}
	if left := names(t, p.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// If a program dies, another one finds and ends its homes and processes.
func TestReapAfterARestart(t *testing.T) {
	p := newPool(t, Config{})
	nodes := p.launch(2)
	process := p.detach(nodes[1])
	p.Close()

	other := newPool(t, Config{Dir: p.dir})
	if got, _ := other.Describe(t.Context(), nodes[1].ID); got[0].State != driver.InstanceStopped || got[0].Rank != 1 {
		t.Errorf("described %+v", got)
	}
	held, err := other.List(t.Context(), p.info.ID)
	if err != nil {
		t.Fatal(err)
	}
	var machines, kinds []string
	for _, r := range held {
		kinds = append(kinds, r.Kind)
		if r.Kind == "machine" {
			machines = append(machines, r.ID)
		}
	}
	if want := []string{"machine", "machine", "directory", "directory"}; !slices.Equal(kinds, want) {
		t.Errorf("listed %v; want %v", kinds, want)
	}
	// A pool whose ID is the beginning of another's has nothing of it.
	if held, _ := other.List(t.Context(), strings.TrimSuffix(p.info.ID[:strings.LastIndex(p.info.ID, "-")], "-")); len(held) > 0 {
		t.Errorf("another pool holds %v", held)
	}
	if err := other.Terminate(t.Context(), machines...); err != nil {
		t.Error(err)
	}
	process.mustEnd(t)
	if left := names(t, p.dir); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestListWithoutItsDirectoryIsAnError(t *testing.T) {
	p := newPool(t, Config{Dir: filepath.Join(t.TempDir())})
	os.Remove(p.dir)
	if held, err := p.List(t.Context(), p.info.ID); err == nil {
		t.Errorf("listed %v", held)
	}
}

func TestTerminateRefusesWhatIsNoNode(t *testing.T) {
	p := newPool(t, Config{})
	outside := filepath.Join(p.dir, "precious")
	os.Mkdir(outside, 0o700)
	for _, id := range []string{"", "../precious", "x/../../precious", "/tmp", "A"} {
		if err := p.Terminate(t.Context(), id); err == nil {
			t.Errorf("terminated %q", id)
		}
	}
	if !machine.Home(outside).Exists() {
		t.Error("removed a directory that is not a home")
	}
}

func TestLaunchFailsWhole(t *testing.T) {
	p := newPool(t, Config{})
	req := p.request(3)
	os.Mkdir(homePath(p.dir, req.Nodes[1].Name), 0o700) // not this driver's to take over
	got, err := p.Launch(t.Context(), req)
	var failure *driver.Error
	if len(got) != 1 || !errors.As(err, &failure) || failure.Op != "launch" || !errors.Is(err, os.ErrExist) {
		t.Errorf("launched %d, %v", len(got), err)
	}
	p.Terminate(t.Context(), req.Nodes[0].Name)
	req.Pool.AuthorizedKey = "nonsense"
	if _, err := p.Launch(t.Context(), req); !errors.Is(err, driver.ErrInvalid) {
		t.Error(err)
	}
}

func TestOpenChecksItsDirectory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	os.WriteFile(file, nil, 0o600)
	for _, dir := range []string{file, file + "x"} {
		if _, err := (Config{Dir: dir}).Open(t.Context()); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("opened in %s: %v", dir, err)
		}
	}
}

// The script runs in every shell that a node may have.
func TestSelfDestruct(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash", "busybox sh"} {
		t.Run(shell, func(t *testing.T) {
			args := append(strings.Fields(shell), "-c")
			if _, err := exec.LookPath(args[0]); err != nil {
				if os.Getenv("GPUTRAIN_REQUIRE_SSHD") != "" {
					t.Fatalf("no %s on this machine, and GPUTRAIN_REQUIRE_SSHD is set", args[0])
				}
				t.Skipf("no %s on this machine", args[0])
			}
			dir := filepath.Join(t.TempDir(), "it's a directory")
			os.Mkdir(dir, 0o700)
			p := newPool(t, Config{Dir: dir})
			nodes := p.launch(2)
			process, other := p.detach(nodes[0]), p.detach(nodes[1])
			// Run it on the node itself, as the watcher does.
			text := p.Driver.(driver.Scripter).Scripts(nodes[0]).SelfDestruct
			cmd := exec.Command(args[0], append(args[1:], text)...)
			cmd.Dir = homePath(dir, nodes[0].ID)
			cmd.Env = append(os.Environ(), "GPUTRAIN_NODE="+nodes[0].ID)
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
			if machine.Home(cmd.Dir).Exists() {
				t.Error("the home is still there")
			}
			process.mustEnd(t)
			if syscall.Kill(other.pid, 0) != nil || !machine.Home(homePath(dir, nodes[1].ID)).Exists() {
				t.Error("another node was hit")
			}
			got, err := p.Describe(t.Context(), nodes[0].ID)
			if err != nil || got[0].State != driver.InstanceTerminated || got[0].StateReason == "" {
				t.Errorf("described %+v, %v", got, err)
			}
		})
	}
}
