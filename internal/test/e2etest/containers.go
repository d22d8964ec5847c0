package e2etest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// OpenContainers returns a pool of containers that is closed at the end of the test and must leave nothing behind. The
// containers have Python, which Debian's own image lacks, if the image of scripts/container-image exists.
func OpenContainers(t testing.TB, cfg container.Config, spec gputrain.Spec, opts ...gputrain.Option) *gputrain.Compute {
	t.Helper()
	if cfg.Image == "" && exec.Command("docker", "image", "inspect", container.HomeMadeImage).Run() == nil {
		cfg.Image = container.HomeMadeImage
	}
	opts = append([]gputrain.Option{gputrain.WithResultsDir(t.TempDir())}, opts...)
	pool, err := gputrain.Open(t.Context(), cfg, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pool.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		WantNothingOf(t, pool.ID())
	})
	return pool
}

// WantNothingOf checks by label and by name that the engine has no container and no network of a pool. id may also be a
// prefix of an ID.
func WantNothingOf(t testing.TB, id string) {
	t.Helper()
	for _, filter := range []string{"label=gputrain.pool=" + id, "name=" + id} {
		if left := Docker(t, "ps", "--all", "--filter", filter, "--format", "{{.Names}} {{.Status}}"); left != "" {
			t.Errorf("containers are left:\n%s", left)
		}
		if left := Docker(t, "network", "ls", "--filter", filter, "--format", "{{.Name}}"); left != "" {
			t.Errorf("networks are left:\n%s", left)
		}
	}
}

// Docker runs the docker command independently of the pool, and returns its output.
func Docker(t testing.TB, args ...string) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd := exec.Command("docker", args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Errorf("docker %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// NeedDocker skips the test if there is no container engine, or fails it if
// GPUTRAIN_REQUIRE_DOCKER is set.
func NeedDocker(t testing.TB) {
	t.Helper()
	var said []string
	for _, image := range []string{container.DefaultImage, container.HomeMadeImage} {
		out, err := exec.Command("docker", "image", "inspect", image).CombinedOutput()
		if err == nil {
			return
		}
		said = append(said, strings.TrimSpace(string(out)))
	}
	why := "no container engine with an image for the tests: install docker.io, and scripts/container-image makes the image: " + strings.Join(said, "; ")
	if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
		t.Fatal(why)
	}
	t.Skip(why)
}
