//go:build unix

package docker

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/registrytest"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// A victim is a program that is killed while it has a pool with a container.
type victim struct {
	Hosts  []ssh.Host // none means a local node, in Dir
	Dir    string
	State  string
	Docker string
	User   string // of the image's registry, with the password in the variable VICTIM_PASSWORD
	Script string // of a task
	Lease  time.Duration
	Holds  bool // the task holds the lease
	// DieIn is the phase in which it says so.
	DieIn string
}

var dies = e2etest.NewRole("victim", func(v victim) error {
	img := gputrain.Image{Docker: v.Docker, DockerUser: v.User}
	if v.User != "" {
		img.DockerPassword = "env://VICTIM_PASSWORD"
	}
	pool, err := gputrain.Open(context.Background(), v.provider(), gputrain.Spec{Nodes: 1, MaxNodes: 2, IdleTimeout: time.Hour, Lease: v.Lease, Image: img},
		gputrain.WithName("victim"), gputrain.WithStateDir(v.State), gputrain.WithEvents(func(e gputrain.Event) {
			if e.Phase == v.DieIn && e.State == "started" {
				e2etest.Say("phase %s", e.Pool)
			}
		}))
	if err != nil {
		return err
	}
	e2etest.Say("pool %s", pool.ID())
	task := gputrain.Script(v.Script)
	task.HoldsLease = v.Holds
	_, err = pool.Run(task)
	return err
})

func (v victim) provider() gputrain.Provider {
	if v.Dir != "" {
		return local.Config{Dir: v.Dir}
	}
	return ssh.Config{Hosts: v.Hosts}
}

// gone waits until the engine has no container of a pool.
func gone(t *testing.T, pool string) {
	t.Helper()
	e2etest.Until(t, "the container's end", func() bool {
		return e2etest.Docker(t, "ps", "--all", "--quiet", "--filter", "label=gputrain.docker.pool="+pool) == ""
	})
}

// TestKilledContainers kills programs with a pool on a host. The container ends with the lease, by Reap, or with the pool of
// a program that attaches, and the host is as it was found.
func TestKilledContainers(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: programs are killed")
	}
	e2etest.NeedDocker(t)
	t.Run("the lease lapses", func(t *testing.T) {
		t.Parallel()
		h := e2etest.NewHost(t)
		v := victim{Hosts: []ssh.Host{h.Host()}, State: t.TempDir(), Docker: base, Lease: 15 * time.Second, Script: "sleep 600"}
		c := dies.Start(t, v)
		id := c.Await("pool ")
		c.Kill()
		gone(t, id)
		h.WantAsFound(t)
		if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
			t.Error(err)
		}
	})
	t.Run("a task holds the lease", func(t *testing.T) {
		t.Parallel()
		long(t)
		h := e2etest.NewHost(t)
		// The task sees that its container outlives the lease twice.
		v := victim{Hosts: []ssh.Host{h.Host()}, State: t.TempDir(), Docker: base, Lease: 5 * time.Second, Holds: true, Script: ": >../begun; sleep 15; : >../held; until [ -e ../go ]; do sleep 0.1; done"}
		c := dies.Start(t, v)
		id := c.Await("pool ")
		v.within(t, h, "begun")
		c.Kill()
		held := v.within(t, h, "held")
		if len(containersOf(t, id)) != 1 {
			t.Error("the container ended before its task")
		}
		e2etest.WriteText(t, filepath.Join(filepath.Dir(held), "go"), "")
		gone(t, id)
		h.WantAsFound(t)
		if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
			t.Error(err)
		}
	})
	for _, phase := range []string{"docker", ""} {
		t.Run("reaped in phase "+phase, func(t *testing.T) {
			t.Parallel()
			h := e2etest.NewHost(t)
			v := victim{Hosts: []ssh.Host{h.Host()}, State: t.TempDir(), Docker: base, Script: "sleep 600", DieIn: phase}
			c := dies.Start(t, v)
			id := ""
			if phase == "" {
				id = c.Await("pool ")
			} else {
				id = c.Await("phase ")
			}
			c.Kill()
			if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
				t.Error(err)
			}
			wantNoContainers(t, id)
			h.WantAsFound(t)
		})
	}
	for _, where := range []string{"own host", "local node"} {
		t.Run("attached: "+where, func(t *testing.T) {
			t.Parallel()
			v := victim{State: t.TempDir(), Docker: base, Script: "echo begun; : >../begun; while [ ! -e ../go ]; do sleep 0.1; done; echo over"}
			var h *e2etest.OwnHost
			if where == "own host" {
				h = e2etest.NewHost(t)
				v.Hosts = []ssh.Host{h.Host()}
			} else {
				v.Dir = t.TempDir()
			}
			c := dies.Start(t, v)
			id := c.Await("pool ")
			v.within(t, h, "begun")
			c.Kill()
			pool, err := gputrain.Attach(t.Context(), v.provider(), "victim", gputrain.WithStateDir(v.State), gputrain.WithResultsDir(t.TempDir()))
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			if n := len(containersOf(t, id)); n != 1 {
				t.Errorf("there are %d containers", n)
			}
			e2etest.WriteText(t, v.within(t, h, "work")+"/../go", "")
			jobs := pool.Jobs()
			if len(jobs) == 0 {
				t.Fatal("the task is not there")
			}
			r, err := jobs[0].Wait()
			if err != nil || string(r.Stdout) != "begun\nover\n" || r.Attempts != 1 {
				t.Errorf("got %+v, %v", r, err)
			}
			if err := pool.Close(); err != nil {
				t.Error(err)
			}
			wantNoContainers(t, id)
			if h != nil {
				h.WantAsFound(t)
			} else if left, _ := os.ReadDir(v.Dir); len(left) > 0 {
				t.Errorf("%v is left", left)
			}
		})
	}
	t.Run("the folder is removed", func(t *testing.T) {
		t.Parallel()
		long(t)
		h := e2etest.NewHost(t)
		v := victim{Hosts: []ssh.Host{h.Host()}, State: t.TempDir(), Docker: base, Script: ": >../begun; sleep 600"}
		c := dies.Start(t, v)
		id := c.Await("pool ")
		v.within(t, h, "begun")
		c.Kill()
		if err := os.RemoveAll(filepath.Join(h.Home, ".gputrain")); err != nil {
			t.Error(err)
		}
		gone(t, id)
		h.WantAsFound(t)
		if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
			t.Error(err)
		}
	})
	t.Run("local node, reaped", func(t *testing.T) {
		t.Parallel()
		v := victim{Dir: t.TempDir(), State: t.TempDir(), Docker: base, Script: "sleep 600"}
		c := dies.Start(t, v)
		id := c.Await("pool ")
		c.Kill()
		if _, err := gputrain.StateDir(v.State).Reap(t.Context(), v.provider()); err != nil {
			t.Error(err)
		}
		wantNoContainers(t, id)
		if left, _ := os.ReadDir(v.Dir); len(left) > 0 {
			t.Errorf("%v is left", left)
		}
	})
}

// within waits until a file is in the folder that the victim's container has in the pool's, and returns that file's
// path.
func (v victim) within(t *testing.T, h *e2etest.OwnHost, name string) (path string) {
	t.Helper()
	above := v.Dir + "/*"
	if h != nil {
		above = h.Home
	}
	e2etest.Until(t, name, func() bool {
		found, _ := filepath.Glob(above + "/.gputrain/pools/*/in/" + name)
		if len(found) == 1 {
			path = found[0]
		}
		return len(found) == 1
	})
	return path
}

// TestNewNodesOfAnAttachedPool gives a pool that was attached to one more node. It gets the registry's password by
// WithSecrets, since the pool's files do not have it, and the image of the first node, though the tag has moved.
func TestNewNodesOfAnAttachedPool(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it makes four containers")
	}
	long(t)
	e2etest.NeedDocker(t)
	r := registrytest.Start(t)
	r.Push(t, "kept", platform, registrytest.Busybox, "", "VERSION=1")
	a, b := e2etest.NewHost(t), e2etest.NewHost(t)
	v := victim{Hosts: []ssh.Host{a.Host(), b.Host()}, State: t.TempDir(), Docker: r.Name("kept"), User: r.User, Script: ": >../begun; sleep 600"}
	t.Setenv("VICTIM_PASSWORD", r.Password)
	c := dies.Start(t, v)
	id := c.Await("pool ")
	c.Kill()
	r.Push(t, "kept", platform, registrytest.Busybox, "", "VERSION=2")
	filepath.WalkDir(v.State, func(name string, d fs.DirEntry, err error) error {
		if text, _ := os.ReadFile(name); strings.Contains(string(text), r.Password) {
			t.Errorf("%s has the password", name)
		}
		return nil
	})
	pool, err := gputrain.Attach(t.Context(), v.provider(), "victim", gputrain.WithStateDir(v.State), gputrain.WithResultsDir(t.TempDir()),
		gputrain.WithSecrets(map[string]gputrain.Secret{"Image.DockerPassword": "env://VICTIM_PASSWORD"}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, j := range pool.Jobs() {
		j.Cancel()
		j.Wait()
	}
	if err := pool.Resize(2); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "two nodes", func() bool { return len(containersOf(t, id)) == 2 && e2etest.AllReady(pool) })
	results, err := pool.Broadcast(gputrain.Script(`echo "$VERSION"`))
	if err != nil || len(results) != 2 || string(results[0].Stdout) != "1\n" || string(results[1].Stdout) != "1\n" {
		t.Errorf("the nodes say %+v, %v", results, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	wantNoContainers(t, id)
	if has(t, r.Addr+"/*") || has(t, "localhost/gputrain/pulled") {
		t.Error("an image is left")
	}
}

// TestContainerThatEnds kills a node's container: the node is lost and replaced, and its task runs again.
func TestContainerThatEnds(t *testing.T) {
	long(t)
	e2etest.NeedDocker(t)
	r := registrytest.Start(t)
	r.Push(t, "mortal", platform, registrytest.Busybox, "")
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Image: gputrain.Image{Docker: r.Name("mortal"), DockerUser: r.User, DockerPassword: gputrain.Secret(r.Password)}}, nil, h)
	first := containersOf(t, pool.ID())
	task := gputrain.Script(`[ "$GPUTRAIN_ATTEMPT" = 1 ] || exit 0; kill -s TERM 1; sleep 600`)
	results, err := pool.Gather(task)
	if err != nil || results[0].Attempts != 2 {
		t.Errorf("got %+v, %v", results, err)
	}
	if second := containersOf(t, pool.ID()); len(second) != 1 || strings.Join(second, "") == strings.Join(first, "") {
		t.Errorf("the containers were %q and are %q", first, second)
	}
	if err := pool.Close(); err != nil && !errors.As(err, new(*gputrain.LeakError)) {
		t.Error(err)
	}
	wantNoContainers(t, pool.ID())
	if has(t, r.Addr+"/*") {
		t.Error("the image is left")
	}
}
