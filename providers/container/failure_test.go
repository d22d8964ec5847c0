package container

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/providers/driver"
)

func TestNoEngine(t *testing.T) {
	t.Run("no such command", func(t *testing.T) {
		wantFailure(t, Config{Binary: "/nonexistent/docker"}, driver.ErrUnavailable, "Binary")
	})
	t.Run("no command at all", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		wantFailure(t, Config{}, driver.ErrUnavailable, "install Docker or podman")
	})
	t.Run("another program", func(t *testing.T) {
		wantFailure(t, Config{Binary: fakeEngine(t, `echo GNU sed 4.9`)}, driver.ErrUnsupported, "none of docker")
	})
	t.Run("no rights", func(t *testing.T) {
		wantFailure(t, Config{Binary: fakeEngine(t, `case $1 in
			--version) echo Docker version 28.2.2, build e6534b4 ;;
			*) echo 'permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock' >&2; exit 1 ;;
			esac`)}, driver.ErrAuth, "docker group")
	})
	t.Run("not running", func(t *testing.T) {
		requireDocker(t)
		t.Setenv("DOCKER_HOST", "unix:///nonexistent/docker.sock")
		wantFailure(t, Config{}, driver.ErrUnavailable, "start the engine")
	})
	t.Run("cancelled", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := (Config{Binary: fakeEngine(t, "echo Docker version 1")}).Open(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Open: %v", err)
		}
	})
}

func wantFailure(t *testing.T, cfg Config, kind error, hint string) {
	t.Helper()
	_, err := cfg.Open(t.Context())
	var e *driver.Error
	if !errors.As(err, &e) || !errors.Is(err, kind) || !strings.Contains(err.Error(), hint) {
		t.Fatalf("Open: %v, want a %v that says %q", err, kind, hint)
	}
	if e.Provider != "container" || e.Op != "open" {
		t.Errorf("provider %q, operation %q", e.Provider, e.Op)
	}
}

// fakeEngine returns an engine's command that runs a shell script.
func fakeEngine(t *testing.T, script string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "engine")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// What an engine prints without end is kept up to a bound, of its complaints the end.
func TestEngineWithoutEnd(t *testing.T) {
	for name, script := range map[string]string{"stdout": "yes | head -c 300M\nexit 1", "stderr": "yes | head -c 300M >&2\necho last >&2\nexit 1"} {
		e := &engine{path: fakeEngine(t, script)}
		out, err := e.run(t.Context(), "ps")
		if err == nil || len(out) > maxAnswer || len(err.Error()) > 8<<10 {
			t.Errorf("%s: %d bytes, %.300v", name, len(out), err)
		}
		if name == "stdout" && !errors.Is(err, bounded.ErrTooLong) || name == "stderr" && !strings.HasSuffix(err.Error(), "last") {
			t.Errorf("%s: %.300v", name, err)
		}
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, cfg := range map[string]Config{
		"image":    {Image: "--privileged"},
		"spaces":   {Image: "debian bookworm"},
		"platform": {Platform: "--privileged"},
		"shm":      {ShmSizeGiB: -1},
		"network":  {Network: "host"},
		"network2": {Network: "--privileged"},
		"prefix":   {NamePrefix: "-x"},
		"user":     {User: "0:0"},
		"user2":    {User: "x; reboot"},
		"two GPUs": {GPUs: "all", OwnGPUs: []string{"0"}},
		"GPU":      {OwnGPUs: []string{"0,1"}},
		"GPU2":     {OwnGPUs: []string{"0", "1", "0"}},
		"device":   {Devices: []string{"--privileged"}},
		"label":    {Labels: map[string]string{"gputrain.pool": "mine"}},
		"args":     {RunArgs: []string{"a\x00b"}},
	} {
		if _, err := cfg.Open(t.Context()); !errors.Is(err, driver.ErrInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestLaunchFailures(t *testing.T) {
	long(t)
	requireDocker(t)
	t.Run("network missing", func(t *testing.T) {
		r := newRig(t, Config{})
		got, err := r.driver.Launch(t.Context(), r.request(1, gputrain.Spec{}))
		if len(got) != 0 || err == nil || !strings.Contains(err.Error(), networkName(r.pool.ID)) {
			t.Errorf("Launch: %v %v", got, err)
		}
	})
	t.Run("one of several", func(t *testing.T) {
		r := newRig(t, Config{})
		if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
			t.Fatal(err)
		}
		req := r.request(3, gputrain.Spec{})
		req.Nodes[1].HostKey.Private = "no key at all"
		got, err := r.driver.Launch(t.Context(), req)
		if len(got) != 2 || got[0].Rank != 0 || got[1].Rank != 2 {
			t.Errorf("launched: %+v", got)
		}
		if err == nil || !strings.Contains(err.Error(), req.Nodes[1].Name) || !strings.Contains(err.Error(), "host key") {
			t.Errorf("the error lacks sshd's last words: %v", err)
		}
		if n := len(r.list(t.Context())); n != 3 { // two machines and the network
			t.Errorf("%d resources", n)
		}
	})
	t.Run("no GPU", func(t *testing.T) {
		r := newRig(t, Config{GPUs: "all"})
		if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
			t.Fatal(err)
		}
		got, err := r.driver.Launch(t.Context(), r.request(1, gputrain.Spec{}))
		if err == nil {
			t.Skip("this engine has GPUs")
		}
		if len(got) != 0 || !errors.Is(err, driver.ErrUnsupported) {
			t.Errorf("Launch: %v %v", got, err)
		}
	})
	t.Run("mount missing", func(t *testing.T) {
		r := newRig(t, Config{})
		if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
			t.Fatal(err)
		}
		spec := gputrain.Spec{Mounts: []driver.Mount{{Source: "/nonexistent/data", Target: "/data"}}}
		if _, err := r.driver.Launch(t.Context(), r.request(1, spec)); !errors.Is(err, driver.ErrNotFound) {
			t.Errorf("Launch: %v", err)
		}
	})
}

// A repeated launch, as after a lost answer, makes no second machine, and adopts no other
// pool's machine.
func TestLaunchAdopts(t *testing.T) {
	requireDocker(t)
	r := newRig(t, Config{})
	if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
		t.Fatal(err)
	}
	req := r.request(1, gputrain.Spec{})
	args, err := r.driver.createArgs(req, req.Nodes[0], defaultOf("docker"), nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r.do(args...) // and the answer is lost
	got, err := r.driver.Launch(t.Context(), req)
	if err != nil || len(got) != 1 {
		t.Fatalf("Launch: %v %v", got, err)
	}
	r.sh(r.connect(got[0]), "true")

	again := r.request(1, gputrain.Spec{}) // the same name, another key
	if got, err := r.driver.Launch(t.Context(), again); err == nil || len(got) != 0 {
		t.Errorf("another's node was taken: %+v", got)
	}
	if n := len(r.list(t.Context())); n != 2 {
		t.Errorf("%d resources", n)
	}
}

// The engine's command can fail although it has made the container.
func TestLaunchAdoptsAfterALostAnswer(t *testing.T) {
	long(t)
	requireDocker(t)
	real, err := exec.LookPath("docker")
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, Config{Binary: fakeEngine(t, `if [ "$1" = create ]; then
			'`+real+`' "$@" >/dev/null
			echo 'error during connect: unexpected EOF' >&2
			exit 1
		fi
		exec '`+real+`' "$@"`)})
	nodes := r.up(2, gputrain.Spec{})
	for _, in := range nodes {
		r.sh(r.connect(in), "true")
	}
	if n := len(r.list(t.Context())); n != 3 { // two machines and the network
		t.Errorf("%d resources", n)
	}
}
