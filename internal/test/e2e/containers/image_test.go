package containers

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// newPythonImage returns an image with a Python environment that no pool has used yet. The engine's copy is removed at
// the end of the test.
func newPythonImage(t testing.TB) gputrain.Image {
	t.Helper()
	kept := func() []string {
		out, err := exec.Command("docker", "image", "ls", "--format", "{{.Repository}}:{{.Tag}}", "localhost/gputrain/phases").Output()
		if err != nil {
			t.Error(err)
		}
		return strings.Fields(string(out))
	}
	before := kept()
	t.Cleanup(func() {
		for _, name := range kept() {
			if !slices.Contains(before, name) {
				_ = exec.Command("docker", "image", "rm", name).Run() // another program may use it
			}
		}
	})
	file := filepath.Join(t.TempDir(), "requirements.txt")
	if err := os.WriteFile(file, []byte("pip # which the environment has\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return gputrain.Image{Python: "3", Requirements: file, Env: map[string]string{"PIP_RETRIES": strconv.FormatInt(time.Now().UnixNano(), 10), "UV_OFFLINE": "1"}}
}

// What the phases install is kept: all nodes of the first pool and a second pool with the same image have it.
func TestContainersKeepPhases(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	e2etest.NeedDocker(t)
	if exec.Command("docker", "image", "inspect", container.HomeMadeImage).Run() != nil {
		const without = "no image with Python here: scripts/container-image --force makes one"
		if os.Getenv("GPUTRAIN_REQUIRE_DOCKER") != "" {
			t.Fatal(without)
		}
		t.Skip(without)
	}
	image := newPythonImage(t)
	for _, pool := range []string{"first", "second"} {
		var mu sync.Mutex
		var states []string
		pool := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{Nodes: 2, Image: image}, gputrain.WithName(pool), gputrain.WithEvents(func(e gputrain.Event) {
			if e.Kind == gputrain.EventPhase && e.State != "started" {
				mu.Lock()
				defer mu.Unlock()
				states = append(states, e.Phase+" "+e.State)
			}
		}))
		results, err := pool.Broadcast(gputrain.Script(`python -c 'import sys; print(sys.prefix != sys.base_prefix)'`))
		if err != nil || len(results) != 2 || string(results[0].Stdout) != "True\n" {
			t.Fatalf("%+v, %v", results, err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
		mu.Lock()
		slices.Sort(states)
		if want := []string{"pip cached", "pip cached", "python cached", "python cached"}; !slices.Equal(states, want) {
			t.Errorf("the phases are %q, want %q", states, want)
		}
		mu.Unlock()
	}
}

// BenchmarkOpenWithPhases opens pools of one container and runs one task: without an image, and the first and the
// second pool with one Python image.
func BenchmarkOpenWithPhases(b *testing.B) {
	e2etest.NeedDocker(b)
	open := func(image gputrain.Image) time.Duration {
		begun := time.Now()
		pool := e2etest.OpenContainers(b, container.Config{}, gputrain.Spec{Image: image})
		if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
			b.Fatal(err)
		}
		took := time.Since(begun)
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
		return took
	}
	least := map[string]time.Duration{}
	for b.Loop() {
		image := newPythonImage(b)
		for _, what := range []struct {
			name  string
			image gputrain.Image
		}{{"plain", gputrain.Image{}}, {"first", image}, {"second", image}} {
			if took := open(what.image); least[what.name] == 0 || took < least[what.name] {
				least[what.name] = took
			}
		}
	}
	b.ReportMetric(0, "ns/op")
	for what, took := range least {
		b.ReportMetric(float64(took.Milliseconds()), "ms-"+what)
	}
}
