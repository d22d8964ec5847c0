//go:build unix

package bootstrap

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/internal/transfer"
)

// A sshNode is a node over a real OpenSSH server.
type sshNode struct {
	*supervisor.Node
	remote *transfer.Remote
}

// connect opens the pool's folder on a node. It puts the cache into the given home, so that the
// tests leave nothing in their user's own.
func connect(t *testing.T, s *opensshtest.Server, pool, home string) sshNode {
	t.Helper()
	client := ssh.New(ssh.Config{
		Dial: func(ctx context.Context) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", s.Addr)
		},
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKey: xssh.FixedHostKey(s.HostKey),
	})
	if err := client.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	node, err := supervisor.Start(t.Context(), client, supervisor.Config{PoolID: pool, Root: filepath.Join(home, "pools", pool)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), 30*time.Second)
		defer cancel()
		if err := node.Close(ctx, true); err != nil {
			t.Error(err)
		}
	})
	tools := node.Facts().Tools
	return sshNode{node, &transfer.Remote{
		Client: client, Dir: node.Facts().WorkDir, Tools: transfer.Tools{Tar: tools["tar"], Gzip: tools["gzip"]},
	}}
}

// homed keeps a node's cache in a folder of the test.
type homed struct {
	sshNode
	cache string
}

func (h homed) Facts() supervisor.Facts {
	f := h.sshNode.Facts()
	f.CacheDir = h.cache
	return f
}

// boot is boot with a real supervisor and a real copy.
func (h homed) boot(t *testing.T, img Image, want ...string) {
	t.Helper()
	var d diary
	if err := Run(t.Context(), h, h.remote.Sync, img, d.options()); err != nil {
		t.Fatalf("%v\nstates: %v", err, d.states)
	}
	if !slices.Equal(d.states, want) {
		t.Errorf("phases: %q, want %q\n%s", d.states, want, d.output.String())
	}
}

func (h homed) task(t *testing.T, id string, args ...string) string {
	t.Helper()
	var out strings.Builder
	exit, err := h.Node.Run(t.Context(), supervisor.Spec{ID: id, Args: args}, supervisor.Sinks{Stdout: &out})
	if err != nil || exit.Code != 0 {
		t.Fatalf("%q: %+v, %v", args, exit, err)
	}
	return strings.TrimSpace(out.String())
}

func TestOverSSH(t *testing.T) {
	local := newNode(t)
	withPython(t, local) // or skip
	home := t.TempDir()
	server := opensshtest.Start(t)
	node := homed{connect(t, server, "pool-a", home), filepath.Join(home, "cache")}

	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(name), 0o755), os.WriteFile(name, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("src/train.py", "import tinydist, os; print(tinydist.version, os.environ['GREETING'])")
	write("src/train.pyc", "not to be copied")
	env := offline(wheel(t, "tinydist", "3.1"))
	env["GREETING"] = "it's \"me\"\n$HOME"
	img := Image{
		Pip: []string{"tinydist"}, Env: env, Include: []string{"./src"}, Exclude: []string{"*.pyc"},
		Setup: []string{"test ! -e src/train.pyc; echo >>ran", "python src/train.py >first"},
	}
	node.boot(t, img, "python done", "pip done", "files done", "setup 1/2 done", "setup 2/2 done")
	if got, want := node.task(t, "t1", "python", "src/train.py"), "3.1 "+env["GREETING"]; got != want {
		t.Errorf("the task says %q, want %q", got, want)
	}
	node.boot(t, img, "python cached", "pip cached", "files cached", "setup 1/2 cached", "setup 2/2 cached")

	write("src/new.py", "")
	node.boot(t, img, "python cached", "pip cached", "files done", "setup 1/2 done", "setup 2/2 done")

	// The next pool finds the environment, but none of this pool's files.
	next := homed{connect(t, server, "pool-b", home), node.cache}
	next.boot(t, img, "python cached", "pip cached", "files done", "setup 1/2 done", "setup 2/2 done")

	fails := img
	fails.Setup = []string{"echo out; echo err >&2; exit 9"}
	var failed *Error
	err := Run(t.Context(), node, node.remote.Sync, fails, Options{})
	if !errors.As(err, &failed) || failed.ExitCode != 9 || !slices.Equal(failed.Tail, []string{"out", "err"}) {
		t.Errorf("error %+v", err)
	}
	fails = Image{Setup: []string{"echo waiting; sleep 600"}, PhaseTimeout: time.Second}
	err = Run(t.Context(), node, node.remote.Sync, fails, Options{})
	if !errors.As(err, &failed) || failed.Cause != supervisor.TimedOut || !slices.Equal(failed.Tail, []string{"waiting"}) {
		t.Errorf("error %+v", err)
	}
}

func TestOverSSHCancelled(t *testing.T) {
	home := t.TempDir()
	node := homed{connect(t, opensshtest.Start(t), "pool-c", home), filepath.Join(home, "cache")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, node, noSync, Image{Setup: []string{"sleep 600"}}, Options{
		Event: func(_ string, s State, _ time.Duration) {
			if s == Started {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
