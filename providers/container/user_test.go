//go:build unix

package container

import (
	"context"
	"errors"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/providers/driver"
)

// withUsers makes an image of an engine with the users "worker", whose account is locked as
// useradd leaves it, "homeless" and "barred". It is removed with the test.
func withUsers(t *testing.T, binary string) string {
	t.Helper()
	return changed(t, binary, defaultOf(binary),
		`useradd --create-home --shell /bin/sh worker && useradd --home-dir /nonexistent homeless && useradd --create-home --shell /usr/sbin/nologin barred`)
}

// changed makes an image of another by a script. It is removed with the test.
func changed(t *testing.T, binary, image, script string) string {
	t.Helper()
	name := "gputrain-test/users:" + strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-"))
	id := do(t, binary, "create", "--pull", "never", "--user", "0:0", "--entrypoint", "sh", image, "-c", script)
	defer func() { do(t, binary, "rm", "--force", id) }()
	do(t, binary, "start", "--attach", id)
	do(t, binary, "commit", id, name)
	t.Cleanup(func() {
		if d, err := (Config{Binary: binary, Image: name}).Open(context.Background()); err == nil {
			if ready, _, err := d.(*containerDriver).images.readyName(context.Background()); err == nil {
				_ = exec.Command(binary, "image", "rm", ready).Run()
			}
		}
		do(t, binary, "image", "rm", name)
	})
	return name
}

// Tasks run as Config.User, in that user's home, and the node still ends itself.
func TestUser(t *testing.T) {
	long(t)
	onEngines(t, func(t *testing.T, binary string) {
		image := withUsers(t, binary)
		r := newRig(t, Config{Binary: binary, Image: image, User: "worker"})
		nodes := r.up(2, gputrain.Spec{})
		if nodes[0].SSH.User != "worker" {
			t.Fatalf("the pool logs in as %q", nodes[0].SSH.User)
		}
		c := r.connect(nodes[0])
		if got := r.sh(c, "id -un; pwd; echo $HOME; touch mine"); got != "worker\n/home/worker\n/home/worker" {
			t.Errorf("a session is of\n%s", got)
		}
		if got := r.sh(c, "cat /run/gputrain/host_key 2>&1 || true"); strings.Contains(got, "PRIVATE KEY") {
			t.Error("the user can read the node's host key")
		}
		if got := r.sh(c, "kill -TERM 1 2>&1 || echo refused"); !strings.HasSuffix(got, "refused") {
			t.Errorf("the user may end process 1: %s", got)
		}
		// Another program, with another Config, describes the node in the same way.
		other, err := Config{Binary: binary}.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got, err := other.Describe(t.Context(), nodes[0].ID)
		if err != nil || got[0].SSH.User != "worker" {
			t.Fatalf("described %+v, %v", got, err)
		}
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		_ = s.Run(other.(driver.Scripter).Scripts(got[0]).SelfDestruct) // the session ends with its node
		r.gone(nodes[0].ID)
		if got, err := r.driver.Describe(t.Context(), nodes[1].ID); err != nil || got[0].State != driver.InstanceRunning {
			t.Errorf("the other node is %+v, %v", got, err)
		}
	})
}

// A user that cannot have tasks is found at the launch, with the reason.
func TestUserThatCannotLogIn(t *testing.T) {
	long(t)
	requireDocker(t)
	image := withUsers(t, "docker")
	for user, reason := range map[string]string{"absent": "has no user absent", "homeless": "has no home folder", "barred": "its shell is /usr/sbin/nologin"} {
		r := newRig(t, Config{Image: image, User: user})
		if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
			t.Fatal(err)
		}
		nodes, err := r.driver.Launch(t.Context(), r.request(1, gputrain.Spec{}))
		if len(nodes) > 0 || !errors.Is(err, driver.ErrInvalid) || !strings.Contains(err.Error(), reason) || !strings.Contains(err.Error(), "set User") {
			t.Errorf("%s: launched %d, %v", user, len(nodes), err)
		}
	}
}

// A pool does everything as its user that it does as root: its files, its commands and its
// functions are there, and Close leaves nothing.
func TestPoolOfAUser(t *testing.T) {
	long(t)
	requireDocker(t)
	r := newRig(t, Config{Image: withUsers(t, "docker"), User: "worker", NamePrefix: "gputrain-test."})
	pool, err := gputrain.Open(t.Context(), r.driver.cfg, gputrain.Spec{Image: gputrain.Image{Setup: []string{"id -un >who"}}}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	result, err := pool.Run(gputrain.Cmd("sh", "-c", "cat who; id -un"))
	if err != nil || string(result.Stdout) != "worker\nworker\n" {
		t.Errorf("%q, %v", result.Stdout, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
}

// System packages are installed as root, for a user's nodes too, and the rest of the image is
// the user's own.
func TestPhasesOfAUser(t *testing.T) {
	long(t)
	requireDocker(t)
	image := changed(t, "docker", alpineLike(t, "gputrain-test/alpine-like:user"),
		"mkdir -p /home/worker && chown 1000:1000 /home/worker && echo worker:x:1000:1000::/home/worker:/bin/sh >>/etc/passwd && echo 'worker:!:20000:0:::::' >>/etc/shadow")
	r := newRig(t, Config{Image: image, User: "worker"})
	spec := gputrain.Spec{Image: gputrain.Image{Apt: []string{"tool"}}}
	name := r.phasesOf(spec)
	node := r.up(1, spec)[0]
	if got := r.sh(r.connect(node), "id -u; ls /installed"); got != "1000\ntool" {
		t.Errorf("the node has %q", got)
	}
	if !r.hasImage(name) {
		t.Error("the image was not kept")
	}

	img := bootstrap.Image{Apt: []string{"git"}, Python: "3.12", Pip: []string{"numpy"}, Requirements: "requirements.txt", PipIndexes: []string{"https://example.com"}}
	parts := map[string]bootstrap.Image{}
	for user, part := range byUser("worker", img) {
		parts[user] = part
	}
	if want := map[string]bootstrap.Image{root: {Apt: img.Apt}, "worker": {Python: img.Python, Pip: img.Pip, Requirements: img.Requirements, PipIndexes: img.PipIndexes}}; !reflect.DeepEqual(parts, want) {
		t.Errorf("parts are %+v", parts)
	}
}
