//go:build unix

package gputrain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/disktest"
	"github.com/gputrain/gputrain/internal/opensshtest"
	"github.com/gputrain/gputrain/providers/ssh"
	xssh "golang.org/x/crypto/ssh"
)

// TestOwnHostsAreLeftAsFound opens a pool on three hosts, each reached in
// another way, and does everything there that a pool can.
func TestOwnHostsAreLeftAsFound(t *testing.T) {
	hosts := []*ownHost{newHost(t), newHost(t), newHost(t)}
	write(t, filepath.Join(hosts[0].home, "mine"), []byte("not the pool's"))
	var c ssh.Config
	for _, h := range hosts {
		c.Hosts = append(c.Hosts, h.host())
	}
	c.Hosts[1].HostKey, c.Hosts[1].KnownHosts = "", knownHosts(t, hosts[1], hosts[1].srv.HostKey)
	c.Hosts[2].HostKey, c.Hosts[2].KeyFile = string(xssh.MarshalAuthorizedKey(hosts[2].srv.HostKey)), ""
	agent(t, hosts[2].srv.KeyFile)

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
		if want := "ready\n" + hosts[i].home + "\n"; string(r.Stdout) != want {
			t.Errorf("node %d says %q, want %q", i, r.Stdout, want)
		}
	}
	if got, err := norm.Gather(pool, point{1, 0}, point{2, 0}, point{3, 0}, point{4, 0}); err != nil || !slices.Equal(got, []float64{1, 4, 9, 16}) {
		t.Errorf("got %v, %v", got, err)
	}
	up, down := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<14)
	write(t, filepath.Join(up, "data"), data)
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
	hosts[0].wantAsFound(t, "mine")
	os.Remove(filepath.Join(hosts[0].home, "mine"))
	hosts[1].wantAsFound(t)
	hosts[2].wantAsFound(t)
	if left := processesWith("GPUTRAIN_POOL=" + id); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

func TestKeepCacheKeepsTheProgramForTheNextPool(t *testing.T) {
	h := newHost(t)
	c := ssh.Config{Hosts: []ssh.Host{h.host()}, KeepCache: true}
	var programs [2]string
	for i := range programs {
		pool, err := gputrain.Open(t.Context(), c, gputrain.Spec{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := norm.Run(pool, point{3, 4}); err != nil {
			t.Error(err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		files, _ := filepath.Glob(filepath.Join(h.home, ".gputrain/cache/bin/*"))
		if len(files) != 1 {
			t.Fatalf("the cache has the programs %q", files)
		}
		info, err := os.Stat(files[0])
		if err != nil {
			t.Fatal(err)
		}
		programs[i] = fmt.Sprint(files[0], info.ModTime())
		h.wantAsFound(t, ".gputrain", ".gputrain/cache", ".gputrain/cache/bin", ".gputrain/cache/bin/"+filepath.Base(files[0]))
	}
	if programs[0] != programs[1] {
		t.Errorf("the program was shipped twice: %q", programs)
	}
	os.RemoveAll(filepath.Join(h.home, ".gputrain"))
}

// TestContextEndsWhileHostsAreAdopted ends the context at every step that a host
// takes to become a node.
func TestContextEndsWhileHostsAreAdopted(t *testing.T) {
	for _, step := range []string{"launching", "connecting", "bootstrapping", "setup 1/2", "setup 2/2"} {
		t.Run(step, func(t *testing.T) {
			h, other := newHost(t), newHost(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, err := gputrain.Open(ctx, ssh.Config{Hosts: []ssh.Host{h.host(), other.host()}}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{
				Setup: []string{"echo x > left", "sleep 600"},
			}}, gputrain.WithEvents(func(e gputrain.Event) {
				if e.State == step || e.Phase == step {
					cancel()
				}
			}))
			if leak, isLeak := errors.AsType[*gputrain.LeakError](err); !errors.Is(err, context.Canceled) || isLeak {
				t.Errorf("got %v, with a leak %v", err, leak)
			}
			h.wantAsFound(t)
			other.wantAsFound(t)
		})
	}
}

// TestHostThatCannotBeMadeReady is left as found, while the pool goes on with
// the other.
func TestHostThatCannotBeMadeReady(t *testing.T) {
	good, bad := newHost(t), newHost(t, "BAD=1")
	pool := openHosts(t, gputrain.Spec{MinReady: 1, Image: gputrain.Image{
		Setup: []string{`sleep 600 & [ -z "$BAD" ]`},
	}}, nil, good, bad)
	bad.wantAsFound(t)
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	good.wantAsFound(t)
}

// TestTwoPoolsOnOneHost closes one pool while another goes on beside it.
func TestTwoPoolsOnOneHost(t *testing.T) {
	h := newHost(t)
	first := openHosts(t, gputrain.Spec{}, nil, h)
	second := openHosts(t, gputrain.Spec{}, nil, h)
	for _, pool := range []*gputrain.Compute{first, second} {
		if _, err := norm.Run(pool, point{3, 4}); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if got, err := norm.Run(second, point{6, 8}); err != nil || got != 100 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := second.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
}

func TestHomesOfEveryKind(t *testing.T) {
	work := func(t *testing.T, h *ownHost) (dir string) {
		t.Helper()
		pool := openHosts(t, gputrain.Spec{}, nil, h)
		up := filepath.Join(t.TempDir(), "f")
		write(t, up, []byte("up"))
		if err := pool.Upload(up, "a b/f"); err != nil {
			t.Fatal(err)
		}
		if got, err := norm.Run(pool, point{3, 4}); err != nil || got != 25 {
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
		h := newHostAt(t, filepath.Join(t.TempDir(), "the user's  own home"))
		if dir := work(t, h); !strings.HasPrefix(dir, h.home+"/.gputrain/") {
			t.Errorf("the task ran in %q", dir)
		}
	})
	t.Run("read-only", func(t *testing.T) {
		home, tmp := t.TempDir(), t.TempDir()
		disktest.ReadOnly(t, home)
		h := newHostAt(t, home, "TMPDIR="+tmp)
		t.Cleanup(func() { wantEmpty(t, tmp) })
		if dir := work(t, h); !strings.HasPrefix(dir, tmp+"/") {
			t.Errorf("the task ran in %q", dir)
		}
	})
}

// knownHosts writes a file that says that the host has the key.
func knownHosts(t testing.TB, h *ownHost, key xssh.PublicKey) string {
	t.Helper()
	host, port, err := net.SplitHostPort(h.link.Addr)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "known_hosts")
	write(t, file, []byte(fmt.Sprintf("[%s]:%s %s", host, port, xssh.MarshalAuthorizedKey(key))))
	return file
}

// agent runs an SSH agent that holds a key until the test ends.
func agent(t *testing.T, keyFile string) {
	t.Helper()
	add := opensshtest.Client(t, "ssh-add")
	dir, err := os.MkdirTemp("", "agent") // a socket's path must be short
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
	until(t, "the agent", func() bool { return exec.Command(add, keyFile).Run() == nil })
}
