//go:build unix

package hosts

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/disktest"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// TestOwnHostsAreLeftAsFound opens a pool on three hosts, each with another kind of login, and uses
// every feature of a pool there.
func TestOwnHostsAreLeftAsFound(t *testing.T) {
	hosts := []*e2etest.OwnHost{e2etest.NewHost(t), e2etest.NewHost(t), e2etest.NewHost(t)}
	e2etest.Write(t, filepath.Join(hosts[0].Home, "mine"), []byte("not the pool's"))
	var c ssh.Config
	for _, h := range hosts {
		c.Hosts = append(c.Hosts, h.Host())
	}
	c.Hosts[1].HostKey, c.Hosts[1].KnownHosts = "", e2etest.KnownHosts(t, hosts[1], hosts[1].Server.HostKey)
	c.Hosts[2].HostKey, c.Hosts[2].KeyFile = string(xssh.MarshalAuthorizedKey(hosts[2].Server.HostKey)), ""
	agent(t, hosts[2].Server.KeyFile)

	pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{Nodes: 3, Concurrency: 2, Image: gputrain.Image{
		Setup: []string{"echo ready > setup"},
	}}, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	results, err := pool.Broadcast(gputrain.Script(`cat setup; echo "$HOME"`))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		if want := "ready\n" + hosts[i].Home + "\n"; string(r.Stdout) != want {
			t.Errorf("node %d says %q, want %q", i, r.Stdout, want)
		}
	}
	if got, err := e2etest.Norm.Gather(pool, e2etest.Point{X: 1, Y: 0}, e2etest.Point{X: 2, Y: 0}, e2etest.Point{X: 3, Y: 0}, e2etest.Point{X: 4, Y: 0}); err != nil || !slices.Equal(got, []float64{1, 4, 9, 16}) {
		t.Errorf("got %v, %v", got, err)
	}
	up, down := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	e2etest.Write(t, filepath.Join(up, "data"), data)
	if err := pool.Upload(up, "up"); err != nil {
		t.Fatal(err)
	}
	if err := pool.Download("up/data", down); err != nil {
		t.Fatal(err)
	}
	for rank := range hosts {
		if got, err := os.ReadFile(filepath.Join(down, fmt.Sprint(rank), "data")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("node %d gave %d bytes back, of %d: %v", rank, len(got), len(data), err)
		}
	}
	id := pool.ID()
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	hosts[0].WantAsFound(t, "mine")
	os.Remove(filepath.Join(hosts[0].Home, "mine"))
	hosts[1].WantAsFound(t)
	hosts[2].WantAsFound(t)
	if left := e2etest.ProcessesWith("GPUTRAIN_POOL=" + id); len(left) > 0 {
		t.Errorf("these files are left: %q", left)
	}
}

func TestKeepCacheKeepsTheProgramForTheNextPool(t *testing.T) {
	h := e2etest.NewHost(t)
	c := ssh.Config{Hosts: []ssh.Host{h.Host()}, KeepCache: true}
	var programs [2]string
	for i := range programs {
		pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil {
			t.Error(err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		files, _ := filepath.Glob(filepath.Join(h.Home, ".gputrain/cache/bin/*"))
		if len(files) != 1 {
			t.Fatalf("the cache has the programs %q", files)
		}
		info, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		programs[i] = fmt.Sprint(files[0], info.ModTime())
		h.WantAsFound(t, ".gputrain", ".gputrain/cache", ".gputrain/cache/bin", ".gputrain/cache/bin/"+filepath.Base(files[0]))
	}
	if programs[0] != programs[1] {
		t.Errorf("the program was shipped twice: %q", programs)
	}
	os.RemoveAll(filepath.Join(h.Home, ".gputrain"))
}

// TestContextEndsWhileHostsAreAdopted ends the context at every step in which a host becomes a
// node.
func TestContextEndsWhileHostsAreAdopted(t *testing.T) {
	for _, step := range []string{"launching", "connecting", "bootstrapping", "setup 1/2", "setup 2/2"} {
		t.Run(step, func(t *testing.T) {
			h, other := e2etest.NewHost(t), e2etest.NewHost(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := gputrain.Open(ctx, ssh.Config{Hosts: []ssh.Host{h.Host(), other.Host()}}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{
				Setup: []string{"echo x > left", "sleep 600"},
			}}, gputrain.WithEvents(func(e gputrain.Event) {
				if e.State == step || e.Phase == step {
					cancel()
				}
			}))
			if leak, isLeak := errors.AsType[*gputrain.LeakError](err); !errors.Is(err, context.Canceled) || isLeak {
				t.Errorf("got %v, with a leak %v", err, leak)
			}
			h.WantAsFound(t)
			other.WantAsFound(t)
		})
	}
}

// TestHostThatCannotBeMadeReady checks that such a host is left as found, and that the pool
// continues with the other one.
func TestHostThatCannotBeMadeReady(t *testing.T) {
	good, bad := e2etest.NewHost(t), e2etest.NewHost(t, "BAD=1")
	pool := e2etest.OpenHosts(t, gputrain.Spec{MinReady: 1, Image: gputrain.Image{
		Setup: []string{`sleep 600 & [ -z "$BAD" ]`},
	}}, nil, good, bad)
	bad.WantAsFound(t)
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	good.WantAsFound(t)
}

// TestTwoPoolsOnOneHost closes one pool while another one uses the same host.
func TestTwoPoolsOnOneHost(t *testing.T) {
	h := e2etest.NewHost(t)
	first := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	second := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
	for _, pool := range []*gputrain.Compute{first, second} {
		if _, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := e2etest.Norm.Run(second, e2etest.Point{X: 6, Y: 8}); err != nil || got != 100 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := second.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
}

func TestHomesOfEveryKind(t *testing.T) {
	work := func(t *testing.T, h *e2etest.OwnHost) (dir string) {
		t.Helper()
		pool := e2etest.OpenHosts(t, gputrain.Spec{}, nil, h)
		up := filepath.Join(t.TempDir(), "f")
		e2etest.Write(t, up, []byte("up"))
		if err := pool.Upload(up, "a b/f"); err != nil {
			t.Fatal(err)
		}
		if got, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || got != 25 {
			t.Errorf("got %v, %v", got, err)
		}
		task := gputrain.Script("cat 'a b/f' > out; pwd")
		task.Outputs = []string{"o*"}
		r, err := pool.Run(task)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(r.OutputDir, "out")); err != nil || string(got) != "up" {
			t.Errorf("the output is %q, %v", got, err)
		}
		return strings.TrimSuffix(string(r.Stdout), "\n")
	}
	t.Run("with spaces", func(t *testing.T) {
		h := e2etest.NewHostAt(t, filepath.Join(t.TempDir(), "the user's  own home"))
		if dir := work(t, h); !strings.HasPrefix(dir, h.Home+"/.gputrain/") {
			t.Errorf("the task ran in %q", dir)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		home, tmp := t.TempDir(), t.TempDir()
		disktest.ReadOnly(t, home)
		h := e2etest.NewHostAt(t, home, "TMPDIR="+tmp)
		t.Cleanup(func() { e2etest.WantEmpty(t, tmp) })
		if dir := work(t, h); !strings.HasPrefix(dir, tmp+"/") {
			t.Errorf("the task ran in %q", dir)
		}
	})
}

// agent runs an SSH agent with a key until the test ends.
func agent(t *testing.T, keyFile string) {
	t.Helper()
	add := opensshtest.Client(t, "ssh-add")
	dir, err := os.MkdirTemp("", "agent") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(opensshtest.Client(t, "ssh-agent"), "-D", "-a", socket)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		os.RemoveAll(dir)
	})
	t.Setenv("SSH_AUTH_SOCK", socket)
	e2etest.Until(t, "the agent", func() bool { return exec.Command(add, keyFile).Run() == nil })
}
