//go:build unix

package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/strangertest"
	xssh "golang.org/x/crypto/ssh"
)

// A rig is a machine with its login key.
type rig struct {
	*Machine
	key    xssh.Signer
	public string
}

// start starts a machine in a home of its own, unless cfg has Run.
func start(t *testing.T, cfg Config) rig {
	t.Helper()
	key, public := newKey(t)
	cfg.AuthorizedKey = public
	if cfg.Run == nil {
		cfg.Home = Home(filepath.Join(t.TempDir(), "home"))
		if err := cfg.Home.Make(); err != nil {
			t.Fatal(err)
		}
		cfg.Mark = "MACHINE_TEST=" + string(cfg.Home)
		cfg.Env = append(cfg.Env, "PATH="+os.Getenv("PATH"))
	}
	m, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := End(context.Background(), m); err != nil {
			t.Error(err)
		}
	})
	return rig{m, key, public}
}

func newKey(t *testing.T) (xssh.Signer, string) {
	t.Helper()
	private, err := NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	key, public, _, err := sshd.Keys(private, "")
	if err != nil {
		t.Fatal(err)
	}
	return key, public
}

// login logs in over a connection, with the host key pinned.
func (r rig) login(nc net.Conn) (*xssh.Client, error) {
	host, _, _, _, err := xssh.ParseAuthorizedKey([]byte(r.HostKey))
	if err != nil {
		return nil, err
	}
	conn, channels, requests, err := xssh.NewClientConn(nc, "", &xssh.ClientConfig{Auth: []xssh.AuthMethod{xssh.PublicKeys(r.key)}, HostKeyCallback: xssh.FixedHostKey(host)})
	if err != nil {
		nc.Close()
		return nil, err
	}
	return xssh.NewClient(conn, channels, requests), nil
}

func (r rig) client(t *testing.T) *xssh.Client {
	t.Helper()
	nc, err := r.Dial()
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.login(nc)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close(); c.Wait() })
	return c
}

func (r rig) output(t *testing.T, command string) string {
	t.Helper()
	s, err := r.client(t).NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.CombinedOutput(command)
	if err != nil {
		t.Fatalf("%s: %v\n%s", command, err, out)
	}
	return strings.TrimSpace(string(out))
}

// detach starts a process in its own session that outlives the connection, and returns its ID.
func (r rig) detach(t *testing.T) int {
	t.Helper()
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no environments of processes to be seen here")
	}
	pid, err := strconv.Atoi(r.output(t, `setsid sleep 1000 >/dev/null 2>&1 & echo $!`))
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "sleep", func() bool {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		return strings.HasPrefix(string(line), "sleep\x00")
	})
	return pid
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for ; !is(); time.Sleep(time.Millisecond) {
		if t.Context().Err() != nil {
			t.Fatal("no ", what)
		}
	}
}

func TestMachineRunsCommandsInItsHome(t *testing.T) {
	hostKey, err := NewHostKey()
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{HostKey: hostKey, Env: []string{"POD_ID=p1"}})
	if _, public, _, err := sshd.Keys(hostKey, ""); err != nil || r.HostKey != public {
		t.Errorf("host key %s, not the one that was given (%v)", r.HostKey, err)
	}
	home := string(r.Home())
	if got, want := r.output(t, `echo "$HOME $PWD $POD_ID $MACHINE_TEST"`), home+" "+home+" p1 "+home; got != want {
		t.Errorf("got %q; want %q", got, want)
	}
	_, other := newKey(t)
	if !r.Admits(r.public) || r.Admits(other) || r.Admits("nonsense") {
		t.Error("Admits is wrong")
	}
}

func TestNewRefuses(t *testing.T) {
	_, public := newKey(t)
	for name, cfg := range map[string]Config{
		"host key": {HostKey: "nonsense", AuthorizedKey: public, Home: Home(t.TempDir())}, "authorized key": {AuthorizedKey: "nonsense", Home: Home(t.TempDir())},
		"authorized keys": {Home: Home(t.TempDir())}, "home": {AuthorizedKey: public, Home: Home(filepath.Join(t.TempDir(), "none"))},
	} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if CheckKey(public) != nil || CheckKey("nonsense") == nil {
		t.Error("CheckKey is wrong")
	}
}

func TestReachability(t *testing.T) {
	r := start(t, Config{})
	addr, err := r.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := r.Listen("127.0.0.1:0"); err != nil || again != addr {
		t.Errorf("it listens at %s, then at %s: %v", addr, again, err)
	}
	try := func() error {
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			return err
		}
		c, err := r.login(nc)
		if err == nil {
			c.Close()
		}
		return err
	}
	c := r.client(t)
	r.SetReachable(false)
	c.Wait() // until the connection has ended
	if _, err := r.Dial(); err == nil || try() == nil {
		t.Errorf("a machine that is cut off is reached: %v", err)
	}
	r.SetReachable(true)
	if err := try(); err != nil {
		t.Error(err)
	}
	c = r.client(t)
	r.HangUp()
	c.Wait()
	r.client(t)
	r.Close()
	if _, err := r.Dial(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a machine that is closed is reached: %v", err)
	}
	if _, err := r.Listen("127.0.0.1:0"); !errors.Is(err, net.ErrClosed) || try() == nil {
		t.Errorf("a machine that is closed listens: %v", err)
	}
	if !r.Home().Exists() {
		t.Error("Close removes the home")
	}
}

// Machines that end together leave neither processes nor homes, and do not affect other machines.
func TestEnd(t *testing.T) {
	a, b, other := start(t, Config{}), start(t, Config{}), start(t, Config{})
	pids, stays := []int{a.detach(t), b.detach(t)}, other.detach(t)
	a.output(t, "mkdir -p locked/in && chmod 0 locked")
	for range 2 {
		if err := End(t.Context(), a.Machine, b.Machine); err != nil {
			t.Error(err)
		}
	}
	for _, pid := range pids {
		eventually(t, "end of a process", func() bool { return !strangertest.Lives(t, pid) })
	}
	if a.Home().Exists() || b.Home().Exists() {
		t.Error("a home is left")
	}
	if !other.Home().Exists() || !strangertest.Lives(t, stays) {
		t.Error("another machine was hit")
	}
}

// If its program is gone, a machine is ended by its home and mark alone.
func TestEndOfWhatIsLeft(t *testing.T) {
	r := start(t, Config{})
	pid := r.detach(t)
	r.Close()
	left := Left(Config{Name: "left", Home: r.Home(), Mark: "MACHINE_TEST=" + string(r.Home())})
	if _, err := left.Dial(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("it is reached: %v", err)
	}
	if err := End(t.Context(), left); err != nil || r.Home().Exists() {
		t.Errorf("the home is left: %v", err)
	}
	eventually(t, "end of the process", func() bool { return !strangertest.Lives(t, pid) })
	if err := End(t.Context(), Left(Config{Name: "gone", Mark: "MACHINE_TEST=gone"})); err != nil {
		t.Error(err)
	}
}

// Another user can give a process any mark. Without Owns such a process is not the machine's. A
// process that Owns accepts is ended, but not waited for.
func TestEndOfStrangers(t *testing.T) {
	strangertest.Need(t)
	r := start(t, Config{})
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no environments of processes to be seen here")
	}
	mark := "MACHINE_TEST=" + string(r.Home())
	stranger := strangertest.Start(t, mark)
	joined := strangertest.Sleeping(t, "X=\n"+mark)
	if err := End(t.Context(), r.Machine); err != nil {
		t.Error(err)
	}
	if !strangertest.Lives(t, stranger) || !strangertest.Lives(t, joined) {
		t.Error("a process with a forged mark was ended")
	}
	if err := End(t.Context(), Left(Config{Name: "left", Mark: mark, Owns: func(p Process) bool { return p.PID == stranger }})); err != nil {
		t.Error(err)
	}
	eventually(t, "end of what Owns takes", func() bool { return !strangertest.Lives(t, stranger) })
}

func TestProcesses(t *testing.T) {
	pid := strangertest.Sleeping(t, "A=1", "B=2", "A=3")
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("no environments of processes to be seen here")
	}
	for p := range Processes() {
		if p.PID == os.Getpid() {
			t.Error("this program is one of them")
		}
		if p.PID != pid {
			continue
		}
		if p.Getenv("A") == "" || p.Getenv("B") != "2" || p.Getenv("C") != "" || !p.IsOurs() {
			t.Errorf("%+v", p)
		}
		return
	}
	t.Errorf("process %d is not found", pid)
}

// A machine with Run stays in memory.
func TestRun(t *testing.T) {
	r := start(t, Config{Run: func(_ context.Context, p sshd.Program) int {
		io.WriteString(p.Stdout, "ran "+p.Command)
		return 0
	}})
	if got := r.output(t, "this"); got != "ran this" || r.Home() != "" {
		t.Errorf("%q, home %q", got, r.Home())
	}
}

// The command ends the machine from inside it, by the token if there is one.
func TestSelfDestruct(t *testing.T) {
	for name, token := range map[string]string{"by token": "MACHINE_TEST_TOKEN", "by user": ""} {
		t.Run(name, func(t *testing.T) {
			r, other := start(t, Config{Env: []string{"MACHINE_TEST_TOKEN=secret"}}), start(t, Config{})
			own, theirs := r.detach(t), other.detach(t)
			mark := "MACHINE_TEST=" + string(r.Home())
			joined := strangertest.Sleeping(t, "X=\n"+mark, "MACHINE_TEST_TOKEN=secret")
			wrong := strangertest.Sleeping(t, mark, "MACHINE_TEST_TOKEN=wrong")
			r.output(t, "mkdir -p locked/in && chmod 0 locked")
			cmd := exec.Command("sh", "-c", SelfDestruct("", "MACHINE_TEST=$1", token, "$1", string(r.Home())))
			cmd.Env = append(os.Environ(), mark, "MACHINE_TEST_TOKEN=secret")
			if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
				t.Errorf("%v: %s", err, out)
			}
			eventually(t, "end of the process", func() bool { return !strangertest.Lives(t, own) })
			if r.Home().Exists() {
				t.Error("the home is left")
			}
			if !strangertest.Lives(t, theirs) || !other.Home().Exists() || !strangertest.Lives(t, joined) {
				t.Error("another machine was hit")
			}
			if token == "" {
				eventually(t, "end of this user's process", func() bool { return !strangertest.Lives(t, wrong) })
			} else if !strangertest.Lives(t, wrong) {
				t.Error("a process of this user with another token was hit")
			}
		})
	}
}

// The shell text before the command can end it, as on a machine of another owner.
func TestSelfDestructBefore(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.Command("sh", "-c", SelfDestruct(`[ -e "$1/mark" ] || exit 0`, "MACHINE_TEST=$1", "", "$1", dir)).CombinedOutput()
	if err != nil || !Home(dir).Exists() {
		t.Errorf("%v: %s", err, out)
	}
}
