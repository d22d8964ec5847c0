//go:build unix

package bootstrap

import (
	"context"
	"errors"
	"io/fs"
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
	if err := Run(t.Context(), h, syncTo(h.remote), img, d.options()); err != nil {
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
	err := Run(t.Context(), node, syncTo(node.remote), fails, Options{})
	if !errors.As(err, &failed) || failed.ExitCode != 9 || !slices.Equal(failed.Tail, []string{"out", "err"}) {
		t.Errorf("error %+v", err)
	}
	fails = Image{Setup: []string{"echo waiting; sleep 600"}, PhaseTimeout: 5 * time.Second}
	err = Run(t.Context(), node, syncTo(node.remote), fails, Options{})
	if !errors.As(err, &failed) || failed.Cause != supervisor.TimedOut || !slices.Equal(failed.Tail, []string{"waiting"}) {
		t.Errorf("error %+v", err)
	}
}

// A node without a way out gets uv through its connection, and the files of Requirements. The cache keeps uv for the next
// pool. A secret is in no file that the phases leave there.
func TestUVOverSSH(t *testing.T) {
	local := newNode(t)
	withPython(t, local) // or skip
	home := t.TempDir()
	server := opensshtest.Start(t)
	release := released(t)
	project := write(t, map[string]string{"requirements.txt": "-c limits.txt\ntinydist\n", "limits.txt": "tinydist==3.1\n"})
	img := Image{
		Requirements: filepath.Join(project, "requirements.txt"), Before: []string{`test "$TOKEN" = hunter2isAsecret`},
		Env: map[string]string{"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": wheel(t, "tinydist", "3.1"), "UV_INSTALLER_GITHUB_BASE_URL": "http://127.0.0.1:1"},
	}
	for i, pool := range []string{"pool-u", "pool-v"} {
		node := homed{connect(t, server, pool, home), filepath.Join(home, "cache")}
		var d diary
		opts := d.fetching(release)
		opts.Secrets = map[string]string{"TOKEN": "hunter2isAsecret"}
		opts.Upload = func(ctx context.Context, from, to string) error {
			return node.remote.Upload(ctx, from, to, transfer.Options{})
		}
		if i == 1 {
			img.Env["PIP_PRE"] = "1" // another environment, by the same uv
		}
		if err := Run(t.Context(), node, noSync, img, opts); err != nil {
			t.Fatalf("%v\n%s", err, d.output.String())
		}
		if got := node.task(t, "t1", "python", "-c", "import os, tinydist; print(tinydist.version, os.environ['PYTHONUNBUFFERED'])"); got != "3.1 1" {
			t.Errorf("the task says %q", got)
		}
		if sent := strings.Contains(d.output.String(), "so it is sent"); sent != (i == 0) {
			t.Errorf("%s: output %s", pool, d.output.String())
		}
	}
	if n := release.Requests(); n != 1 { // of this program
		t.Errorf("%d requests", n)
	}
	err := filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if strings.Contains(string(content), "hunter2isAsecret") {
			t.Errorf("%s has the secret", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestOverSSHCancelled(t *testing.T) {
	home := t.TempDir()
	node := homed{connect(t, opensshtest.Start(t), "pool-c", home), filepath.Join(home, "cache")}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := Run(ctx, node, noSync, Image{Setup: []string{"sleep 600"}}, Options{
		Event: func(_ Phase, s State, _ time.Duration) {
			if s == Started {
				cancel()
			}
		},
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

// syncTo returns the SyncFunc of a node.
func syncTo(r *transfer.Remote) SyncFunc {
	return func(ctx context.Context, entries []transfer.Entry) (transfer.Stats, error) {
		return r.Sync(ctx, entries, nil)
	}
}
