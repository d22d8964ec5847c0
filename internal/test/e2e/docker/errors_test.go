//go:build unix

package docker

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/registrytest"
	"github.com/gputrain/gputrain/providers/local"
	"github.com/gputrain/gputrain/providers/ssh"
)

// TestImageErrors opens pools whose images cannot be run. Each error has its kind, the phase, and what to do, and
// nothing is left.
func TestImageErrors(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	e2etest.NeedDocker(t)
	r := registrytest.Start(t)
	other := map[string]string{"linux/amd64": "linux/arm64"}[platform]
	if other == "" {
		other = "linux/amd64"
	}
	r.Push(t, "there", platform, registrytest.Busybox, "")
	r.Push(t, "silent", platform, registrytest.NoShell, "")
	r.Push(t, "other", other, registrytest.Busybox, "")
	t.Cleanup(func() {
		if has(t, r.Addr+"/*") || has(t, "localhost/gputrain/pulled") {
			t.Error("an image is left")
		}
	})
	login := gputrain.Image{DockerUser: r.User, DockerPassword: gputrain.Secret(r.Password)}
	wrong := gputrain.Image{DockerUser: r.User, DockerPassword: "pw-of-another-one"}
	for _, tt := range []struct {
		name, image string
		with        gputrain.Image
		env         string // of the host
		kind        error
		says        []string
	}{
		{"no such image", r.Name("missing:2"), login, "", gputrain.ErrNotFound, []string{r.Addr, "missing:2", "Image.Docker"}},
		{"no login", r.Name("there"), gputrain.Image{}, "", gputrain.ErrAuth, []string{r.Addr, "there", "DockerPassword"}},
		{"wrong login", r.Name("there"), wrong, "", gputrain.ErrAuth, []string{r.Addr, "there", "DockerPassword"}},
		{"no shell", r.Name("silent"), login, "", gputrain.ErrUnsupported, []string{"no shell", "POSIX"}},
		{"another platform", r.Name("other"), login, "", gputrain.ErrUnsupported, []string{other, "Spec.Arch"}},
		{"no registry", "127.0.0.1:1/there", login, "", gputrain.ErrUnavailable, []string{"127.0.0.1:1", "connection refused"}},
		{"no daemon", r.Name("there"), login, "DOCKER_HOST=unix:///nonexistent", gputrain.ErrUnavailable, []string{"daemon", "systemctl start docker"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var env []string
			if tt.env != "" {
				env = append(env, tt.env)
			}
			h := e2etest.NewHost(t, env...)
			img := tt.with
			img.Docker = tt.image
			pool, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{h.Host()}}, gputrain.Spec{Image: img})
			if err == nil {
				pool.Close()
				t.Fatal("the pool is open")
			}
			failed, ok := errors.AsType[*gputrain.BootstrapError](err)
			if !ok || failed.Phase != "docker" || !errors.Is(err, gputrain.ErrBootstrap) || !errors.Is(err, tt.kind) {
				t.Errorf("got %v", err)
			}
			for _, s := range tt.says {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("it does not say %q: %v", s, err)
				}
			}
			if _, leak := errors.AsType[*gputrain.LeakError](err); leak || strings.Contains(err.Error(), string(img.DockerPassword)) && img.DockerPassword != "" {
				t.Errorf("got %v", err)
			}
			h.WantAsFound(t)
		})
	}
}

// TestSpecsThatAreRefused checks what is refused before anything is contacted.
func TestSpecsThatAreRefused(t *testing.T) {
	for name, img := range map[string]gputrain.Image{
		"no image":               {Docker: "-v /:/host"},
		"a login for nothing":    {DockerUser: "a", DockerPassword: "b"},
		"a user alone":           {Docker: "debian", DockerUser: "a"},
		"a password alone":       {Docker: "debian", DockerPassword: "b"},
		"a user with a colon":    {Docker: "debian", DockerUser: "a:b", DockerPassword: "b"},
		"a reference to nothing": {Docker: "debian", DockerUser: "a", DockerPassword: "env://NO_SUCH_VARIABLE_HERE"},
	} {
		if _, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Image: img}); !errors.Is(err, gputrain.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestContextEndsInThePhase ends the context while the phase runs: nothing is left.
func TestContextEndsInThePhase(t *testing.T) {
	e2etest.NeedDocker(t)
	h := e2etest.NewHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	id := ""
	_, err := gputrain.Open(ctx, ssh.Config{Hosts: []ssh.Host{h.Host()}}, gputrain.Spec{Image: gputrain.Image{Docker: base}}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Phase == "docker" {
			id = e.Pool
			cancel()
		}
	}))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, leak := errors.AsType[*gputrain.LeakError](err); leak {
		t.Error(err)
	}
	wantNoContainers(t, id)
	h.WantAsFound(t)
}

// TestLocalNodes opens a pool of two local nodes, each in a container of its own, whose image was built here. A mount's
// target is there, too.
func TestLocalNodes(t *testing.T) {
	e2etest.NeedDocker(t)
	dir := t.TempDir()
	pool, err := gputrain.Open(t.Context(), local.Config{Dir: dir}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{Docker: base}}, gputrain.WithResultsDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if n := len(containersOf(t, pool.ID())); n != 2 {
		t.Errorf("there are %d containers", n)
	}
	results, err := pool.Broadcast(gputrain.Script(`[ -e /.dockerenv ] && echo "$GPUTRAIN_RANK"; umask 077; mkdir -p deep/er; : > deep/er/f`))
	if err != nil || string(results[0].Stdout) != "0\n" || string(results[1].Stdout) != "1\n" {
		t.Errorf("got %+v, %v", results, err)
	}
	if got, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || got != 25 {
		t.Errorf("got %v, %v", got, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	wantNoContainers(t, pool.ID())
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%s is left in %s", left, filepath.Base(dir))
	}
}
