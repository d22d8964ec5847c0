//go:build unix

package slurm

import (
	"bytes"
	"crypto/rand"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/slurm"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A testbed is a real cluster, which all tests that need its kind share.
type testbed struct {
	name    string
	addr    string // of the login node
	hostKey string
	keyFile string
	dir     string
	down    func()
}

// testbeds are those that are up, by their settings.
var testbeds = struct {
	sync.Mutex
	up map[string]*testbed
}{up: map[string]*testbed{}}

// common is the testbed for most tests.
func common(t testing.TB) *testbed { return bringUp(t) }

// bringUp returns the testbed with these settings: variables of its up. It skips a short test, and one without Docker, or fails
// it if GPUTRAIN_REQUIRE_DOCKER is set.
func bringUp(t testing.TB, settings ...string) *testbed {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it needs a real cluster")
	}
	e2etest.NeedDocker(t)
	testbeds.Lock()
	defer testbeds.Unlock()
	key := strings.Join(settings, " ")
	if b := testbeds.up[key]; b != nil {
		return b
	}
	b := startTestbed(t, settings)
	testbeds.up[key] = b
	return b
}

// takeDownAll removes what the tests have brought up.
func takeDownAll() {
	testbeds.Lock()
	defer testbeds.Unlock()
	for _, b := range testbeds.up {
		b.down()
	}
}

// cachedImage keeps the layers of the testbed's image in the engine: each testbed has an image of its own, which goes with it.
const cachedImage = "localhost/gputrain-slurm-testbed"

func startTestbed(t testing.TB, settings []string) *testbed {
	t.Helper()
	b := &testbed{name: "gputrain-slurm-" + strings.ToLower(rand.Text()[:8]), dir: copyTestbed(t)}
	b.keyFile = filepath.Join(b.dir, "login_key")
	run(t, "", "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", b.keyFile)
	extra := ""
	if strings.Contains(strings.Join(settings, " "), "ACCOUNTING=1") {
		extra = "slurmdbd mariadb-server"
	}
	run(t, "", "docker", "build", "--quiet", "--build-arg", "EXTRA="+extra, "--tag", cachedImage+":"+map[bool]string{true: "small", false: "full"}[extra == ""], b.dir)
	b.down = b.cleaner(t)
	up := exec.Command(filepath.Join(b.dir, "up"), b.keyFile+".pub")
	up.Env = append(append(os.Environ(), "NAME="+b.name), settings...)
	var said bytes.Buffer
	up.Stderr = &said
	out, err := up.Output()
	m := regexp.MustCompile(`(?s)login  ssh -p (\d+) .*key    (ssh-ed25519 \S+)`).FindSubmatch(out)
	if err != nil || m == nil {
		b.down()
		t.Fatalf("the testbed does not come up: %v\n%s%s", err, out, said.Bytes())
	}
	b.addr, b.hostKey = "127.0.0.1:"+string(m[1]), string(m[2])
	return b
}

// copyTestbed copies the testbed's files to a folder of their own, with an image that this machine's engine has.
func copyTestbed(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gputrain-slurm-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS("testbed")); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "Dockerfile")
	text, err := os.ReadFile(file)
	if err == nil && exec.Command("docker", "image", "inspect", container.DefaultImage).Run() != nil {
		text = bytes.Replace(text, []byte("FROM "+container.DefaultImage), []byte("FROM "+container.HomeMadeImage), 1)
	}
	if err == nil {
		err = os.WriteFile(file, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// cleaner starts a process that removes the testbed once this program has ended, however it ends, and returns a func that
// does so at once.
func (b *testbed) cleaner(t testing.TB) func() {
	t.Helper()
	theirs, ours, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("sh", "-c", `trap '' INT TERM HUP; cat >/dev/null; "$1/down" --images; rm -rf "$1"`, "sh", b.dir)
	cmd.Env, cmd.Stdin, cmd.SysProcAttr = append(os.Environ(), "NAME="+b.name), theirs, &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	return sync.OnceFunc(func() {
		ours.Close()
		cmd.Wait()
	})
}

// run runs a program, and returns what it prints.
func run(t testing.TB, stdin, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Stdin = strings.NewReader(stdin)
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, said.Bytes())
	}
	return strings.TrimSpace(string(out))
}

// on runs a line of shell as root in a container of the testbed: "ctl", "c1", "c2".
func (b *testbed) on(t testing.TB, host, line string) string {
	t.Helper()
	return run(t, "", "docker", "exec", b.name+"-"+host, "sh", "-c", line)
}

// submit submits a job of the user's that is not gputrain's, and returns its ID.
func (b *testbed) submit(t testing.TB, options string) string {
	t.Helper()
	return run(t, "", "docker", "exec", "-u", "alice", "-w", "/tmp", b.name+"-ctl", "sh", "-c", "sbatch --parsable --output=/dev/null "+options+" --wrap 'exec sleep 600'")
}

// config returns a configuration for the testbed.
func (b *testbed) config() slurm.Config {
	return slurm.Config{Login: ssh.Host{Addr: b.addr, User: "alice", KeyFile: b.keyFile, HostKey: b.hostKey}, PollInterval: time.Second}
}

// wantNothing waits until nothing of gputrain's is left: no job in the queue, no process and no folder on the nodes, and
// nothing on the shared home.
func (b *testbed) wantNothing(t testing.TB) {
	t.Helper()
	for _, look := range []struct{ host, line string }{
		{"ctl", "squeue --noheader --format='%i %j %T' | grep gputrain || :"},
		{"c1", "ps -u alice -o pid=,args= | grep -v 'sleep 600' || :; ls -d /tmp/gputrain-* 2>/dev/null || :"},
		{"c2", "ps -u alice -o pid=,args= | grep -v 'sleep 600' || :; ls -d /tmp/gputrain-* 2>/dev/null || :"},
	} {
		left := ""
		if !e2etest.Settles(func() bool { left = b.on(t, look.host, look.line); return left == "" }) {
			t.Fatalf("left on %s: %s", look.host, left)
		}
	}
	if left := b.on(t, "ctl", "ls -A /home/alice | grep -vx -e .ssh -e '\\.bash.*' -e .profile -e '\\.cache' || :"); left != "" {
		t.Errorf("on the shared home: %s", left)
	}
}

// scavenge returns a configuration for the partition whose jobs are preempted.
func (b *testbed) scavenge() slurm.Config {
	cfg := b.config()
	cfg.Partitions = []string{"scavenge"}
	return cfg
}
