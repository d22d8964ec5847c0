//go:build unix

package bootstrap

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/transfer"
)

func TestSetup(t *testing.T) {
	n := newNode(t)
	img := Image{
		Env:   map[string]string{"WHO": "it's $HOME"},
		Setup: []string{`printf '%s\n' "$WHO" >>who`, "echo out; echo err >&2", `[ -z "$GPUTRAIN_SETUP" ] && echo three >>who`},
	}
	out := boot(t, n, img, "setup 1/3 done", "setup 2/3 done", "setup 3/3 done")
	if out != "out\nerr\n" {
		t.Errorf("output %q", out)
	}
	if got := n.sh("cat who"); got != "it's $HOME\nthree" {
		t.Errorf("who holds %q", got)
	}
	for i, id := range n.ids {
		if strings.Trim(id, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" || slices.Contains(n.ids[:i], id) {
			t.Errorf("attempt ids %q", n.ids)
		}
	}
	boot(t, n, img, "setup 1/3 cached", "setup 2/3 cached", "setup 3/3 cached")

	// Commands from the first change on run again; those before it do not.
	img.Setup[1] = "echo two >>who"
	boot(t, n, img, "setup 1/3 cached", "setup 2/3 done", "setup 3/3 done")
	img.Env["WHO"] = "else"
	boot(t, n, img, "setup 1/3 done", "setup 2/3 done", "setup 3/3 done")

	// A pool with another working directory runs all of it.
	other := newNode(t)
	other.facts.CacheDir = n.facts.CacheDir
	boot(t, other, img, "setup 1/3 done", "setup 2/3 done", "setup 3/3 done")
}

func TestSetupRunsOnAfterOneThatRan(t *testing.T) {
	n := newNode(t)
	img := Image{Setup: []string{"echo 1 >>ran", "echo 2 >>ran"}}
	boot(t, n, img, "setup 1/2 done", "setup 2/2 done")
	plan, err := Plan(img)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(n.facts.Root, "phases", hash(plan[0].Key, ""))); err != nil {
		t.Fatal(err)
	}
	boot(t, n, img, "setup 1/2 done", "setup 2/2 done")
}

// Commands of Before run before everything else, and Setup runs again if one of them did.
func TestBefore(t *testing.T) {
	n := newNode(t)
	n.program("id", "echo 0")
	n.program("dpkg-query", `[ ! -e "$state/ready" ] || echo 'installed 1'`)
	n.program("apt-get", "exit 100")
	img := Image{Before: []string{`echo 1 >>ran; mkdir -p "$HOME/state"; touch "$HOME/state/ready"`, "echo 2 >>ran"}, Apt: []string{"git"}, Setup: []string{"echo 3 >>ran"}}
	boot(t, n, img, "before 1/2 done", "before 2/2 done", "packages cached", "setup 1/1 done")
	boot(t, n, img, "before 1/2 cached", "before 2/2 cached", "packages cached", "setup 1/1 cached")
	img.Before[1] = "echo zwei >>ran"
	boot(t, n, img, "before 1/2 cached", "before 2/2 done", "packages cached", "setup 1/1 done")
	if got := n.sh("cat ran"); got != "1\n2\n3\nzwei\n3" {
		t.Errorf("ran %q", got)
	}
}

// Python writes lines as they are printed, unless the image decides otherwise.
func TestUnbuffered(t *testing.T) {
	for want, env := range map[string]map[string]string{"[1]": nil, "[]": {"PYTHONUNBUFFERED": ""}, "[0]": {"PYTHONUNBUFFERED": "0"}} {
		n := newNode(t)
		img := Image{Env: env, Setup: []string{`echo "[$PYTHONUNBUFFERED]"`}}
		if out := boot(t, n, img, "setup 1/1 done"); out != want+"\n" {
			t.Errorf("%v: a phase has %q, want %q", env, out, want)
		}
		if got := n.sh(`echo "[$PYTHONUNBUFFERED]"`); got != want {
			t.Errorf("%v: a task has %q, want %q", env, got, want)
		}
	}
}

func TestSetupFailure(t *testing.T) {
	for _, tt := range []struct {
		name, command string
		code          int
		tail          []string
	}{
		{"exit code", "echo before; exit 7", 7, []string{"before"}},
		{"first command that fails", "echo one\nfalse\necho two", 1, []string{"one"}},
		{"by a signal to itself", "kill -KILL $(sh -c 'echo $PPID')", 137, nil},
		{"unknown command", "no-such-command", 127, []string{"no-such-command: not found"}},
		{"progress bar", "printf '10%%\\r50%%\\r\\033[31m90%%\\033[0m\\n'; exit 1", 1, []string{"90%"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := newNode(t)
			img := Image{Setup: []string{tt.command, "echo never"}}
			err := bootFails(t, n, img)
			if err.Phase != "setup 1/2" || err.Cause != supervisor.Exited || err.ExitCode != tt.code {
				t.Errorf("phase %q, cause %v, exit code %d", err.Phase, err.Cause, err.ExitCode)
			}
			ends := func(got, want string) bool { return strings.HasSuffix(got, want) }
			if tt.tail != nil && !slices.EqualFunc(err.Tail, tt.tail, ends) {
				t.Errorf("tail %q, want %q", err.Tail, tt.tail)
			}
			if len(err.Tail) > 0 && !strings.HasSuffix(err.Error(), err.Tail[len(err.Tail)-1]) {
				t.Errorf("error %q does not end in its tail", err)
			}
			if again := bootFails(t, n, img); again.Phase != err.Phase {
				t.Errorf("the second time %q failed", again.Phase)
			}
		})
	}
}

// A syntax error in a command fails its phase, with a message.
func TestSetupSyntaxError(t *testing.T) {
	err := bootFails(t, newNode(t), Image{Setup: []string{"if true; then"}})
	if err.ExitCode == 0 || len(err.Tail) == 0 {
		t.Errorf("exit code %d, tail %q", err.ExitCode, err.Tail)
	}
}

func TestTimeout(t *testing.T) {
	n := newNode(t)
	err := bootFails(t, n, Image{Setup: []string{"echo waiting; sleep 600"}, PhaseTimeout: 300 * time.Millisecond})
	if err.Cause != supervisor.TimedOut || !strings.Contains(err.Error(), "PhaseTimeout") {
		t.Errorf("cause %v, error %q", err.Cause, err)
	}
}

// A limit of all phases ends the one that runs then.
func TestTimeoutOfAll(t *testing.T) {
	var failed *Error
	err := Run(t.Context(), newNode(t), noSync, Image{Setup: []string{"true", "echo waiting; sleep 600"}}, Options{Within: 2 * time.Second})
	if !errors.As(err, &failed) || failed.Cause != supervisor.TimedOut || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "BootstrapTimeout") {
		t.Errorf("%v", err)
	}
	if err := Run(t.Context(), newNode(t), noSync, Image{Setup: []string{"true"}}, Options{Within: time.Hour}); err != nil {
		t.Error(err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := Run(ctx, newNode(t), noSync, Image{Setup: []string{"sleep 600"}}, Options{
		Event: func(_ Phase, s State, _ time.Duration) {
			if s == Started {
				time.AfterFunc(50*time.Millisecond, cancel)
			}
		},
	})
	var failed *Error
	if !errors.Is(err, context.Canceled) || !errors.As(err, &failed) || failed.Phase != "setup 1/1" {
		t.Errorf("error %v", err)
	}
}

func TestNodeLost(t *testing.T) {
	n := newNode(t)
	n.lost = errors.New("the node is gone")
	if err := bootFails(t, n, Image{Setup: []string{"true"}}); !errors.Is(err, n.lost) {
		t.Errorf("error %v does not hold the cause", err)
	}
}

func TestFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := errors.Join(os.Mkdir("src", 0o755), os.WriteFile("src/a.py", nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	n := newNode(t)
	img := Image{Include: []string{"./src"}, Exclude: []string{"*.pyc"}, Setup: []string{"true"}}
	var (
		answer transfer.Stats
		fails  error
		states []string
	)
	run := func() error {
		states = nil
		return Run(t.Context(), n, func(_ context.Context, entries []transfer.Entry) (transfer.Stats, error) {
			if len(entries) != 1 || entries[0].Local != "./src" || entries[0].Remote != "src" || !slices.Equal(entries[0].Exclude, img.Exclude) {
				t.Errorf("entries %+v", entries)
			}
			return answer, fails
		}, img, Options{Event: func(phase Phase, s State, _ time.Duration) {
			if s != Started {
				states = append(states, phase.Name+" "+s.String())
			}
		}})
	}
	for _, tt := range []struct {
		sent         int
		manifest     string
		files, setup string
	}{{1, "one", "done", "done"}, {0, "one", "cached", "cached"}, {1, "two", "done", "done"}, {0, "less", "cached", "done"}} {
		answer = transfer.Stats{Sent: tt.sent}
		if err := os.WriteFile(n.facts.WorkDir+".sync", []byte(tt.manifest), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := run(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"files " + tt.files, "setup 1/1 " + tt.setup}; !slices.Equal(states, want) {
			t.Errorf("with %s: %q, want %q", tt.manifest, states, want)
		}
	}
	fails = errors.New("disk full")
	var failed *Error
	if err := run(); !errors.As(err, &failed) || failed.Phase != "files" || failed.ExitCode != -1 || !errors.Is(err, fails) {
		t.Errorf("error %v", err)
	}

	img.PhaseTimeout = time.Millisecond
	slow := func(ctx context.Context, _ []transfer.Entry) (transfer.Stats, error) {
		<-ctx.Done()
		return transfer.Stats{}, ctx.Err()
	}
	if err := Run(t.Context(), n, slow, img, Options{}); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "PhaseTimeout") {
		t.Errorf("a copy that takes too long: %v", err)
	}
}

// The scripts are POSIX: they behave alike in every shell that a node may have.
func TestShells(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "busybox"} {
		t.Run(shell, func(t *testing.T) {
			n := newNode(t)
			n.link(shell)
			n.sh("rm '" + n.bin + "/sh'")
			wrapper := "#!/bin/sh\nexec " + shell + ` "$@"`
			switch shell {
			case "bash":
				wrapper = "#!/bin/sh\nexec bash --posix \"$@\""
			case "busybox":
				wrapper = "#!/bin/sh\nexec busybox sh \"$@\""
			}
			if err := os.WriteFile(filepath.Join(n.bin, "sh"), []byte(wrapper), 0o755); err != nil {
				t.Fatal(err)
			}
			n.link("chmod")
			n.program("id", "echo 0")
			n.program("apt-get", fakeAptGet)
			n.program("dpkg-query", fakeDpkgQuery)
			n.program("uv", fakeUV)
			img := Image{Apt: []string{"rsync", "g++"}, Python: "3.12", Pip: []string{"numpy"}, Setup: []string{"echo '$x' >ran"}}
			boot(t, n, img, "packages done", "python done", "pip done", "setup 1/1 done")
			boot(t, n, img, "packages cached", "python cached", "pip cached", "setup 1/1 cached")
			img.Setup = []string{"false; echo on"}
			if err := bootFails(t, n, img); err.ExitCode != 1 || len(err.Tail) > 0 {
				t.Errorf("exit code %d, tail %q", err.ExitCode, err.Tail)
			}
		})
	}
}
