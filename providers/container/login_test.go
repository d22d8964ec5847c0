//go:build unix

package container

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/registrytest"
	"github.com/gputrain/gputrain/providers/driver"
)

// A spec's image is pulled with its login from a registry, and the login is nowhere after that.
func TestSpecImageIsPulled(t *testing.T) {
	long(t)
	requireDocker(t)
	r := registrytest.Start(t)
	r.Push(t, "team/train:1", "linux/"+runtime.GOARCH, registrytest.Busybox, "")
	opened, err := Config{}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	d := opened.(*containerDriver)
	req := driver.Launch{Query: driver.Query{Image: r.Name("team/train:1")}}
	public := d.images.of(req)
	if _, err := public.baseImage(t.Context()); !errors.Is(err, driver.ErrNotFound) {
		t.Errorf("without a login: %v", err)
	}
	req.ImageLogin = driver.ImageLogin{User: r.User, Password: driver.Secret(r.Password)}
	for _, configured := range []string{"", req.Query.Image} {
		given := d.images
		given.image = configured
		private := given.of(req)
		got, err := private.baseImage(t.Context())
		if err != nil || got.name != r.Name("team/train:1") {
			t.Fatalf("with the image %q in Config: %+v, %v", configured, got, err)
		}
		if _, err := d.engine.run(t.Context(), "rmi", got.name); err != nil {
			t.Error(err)
		}
	}
	for _, dir := range []string{"/dev/shm", os.TempDir()} {
		if left, _ := filepath.Glob(filepath.Join(dir, "gputrain-login-*")); len(left) > 0 {
			t.Errorf("%q is left", left)
		}
	}
	set := images{image: "mine:1"}
	if other := set.of(req); other.image != "mine:1" || other.login != nil || d.images.image != "" {
		t.Error("another image is used, or gets the login")
	}
}

// A pool's containers run the image of its spec, whose Config may leave that open, or name the same.
func TestSpecImageRuns(t *testing.T) {
	requireDocker(t)
	spec := gputrain.Spec{Image: gputrain.Image{Docker: HomeMadeImage}}
	pool, err := gputrain.Open(t.Context(), Config{}, spec, gputrain.WithResultsDir(t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Phase == "docker" {
			t.Error("there is a container in a container")
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if r, err := pool.Run(gputrain.Script("[ -e /run/gputrain/node ] && echo node")); err != nil || string(r.Stdout) != "node\n" {
		t.Errorf("got %q, %v", r.Stdout, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	other, err := gputrain.Open(t.Context(), Config{Image: "mine:1"}, spec)
	if err == nil {
		other.Close()
	}
	if !errors.Is(err, gputrain.ErrInvalid) || !strings.Contains(err.Error(), "mine:1") {
		t.Errorf("got %v", err)
	}
}
