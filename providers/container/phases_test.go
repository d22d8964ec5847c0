//go:build unix

package container

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/bootstrap"
	"github.com/gputrain/gputrain/providers/driver"
)

// phasesOf returns the image that a spec's nodes start from once its phases are kept. It is
// removed with the test.
func (r *rig) phasesOf(spec gputrain.Spec) string {
	r.Helper()
	ready, _, err := r.driver.images.readyImage(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	img, ok := r.driver.images.sharedPhases(packagesOf(spec.Image))
	if !ok {
		r.Fatal("there is nothing to keep")
	}
	name, err := phasesName(ready, r.driver.cfg.user(), img)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		r.end(context.Background()) // the containers that use it
		_ = exec.Command(r.driver.engine.path, "image", "rm", name).Run()
	})
	return name
}

// hasImage reports whether the engine has an image.
func (r *rig) hasImage(name string) bool {
	return exec.Command(r.driver.engine.path, "image", "inspect", name).Run() == nil
}

// The packages of an Image are installed once, in a container of their own, and the nodes of
// this and later pools start from the result.
func TestPhasesAreKept(t *testing.T) {
	long(t)
	requireDocker(t)
	image := alpineLike(t, "gputrain-test/alpine-like:phases")
	first := newRig(t, Config{Image: image})
	spec := gputrain.Spec{Image: gputrain.Image{Apt: []string{"tool"}, Env: map[string]string{"WANDB_API_KEY": "hunter2"}}}
	name := first.phasesOf(spec)
	const installs = "grep -c 'wait 1200 tool' /apk-calls"
	for _, in := range first.up(2, spec) {
		c := first.connect(in)
		if got := first.sh(c, "ls /installed; "+installs); got != "tool\n1" {
			t.Errorf("%s has %q", in.Name, got)
		}
	}
	id := do(t, "docker", "image", "inspect", "--format", "{{.Id}}", name)

	second := newRig(t, Config{Image: image})
	nodes := second.up(1, spec)
	if got := second.sh(second.connect(nodes[0]), installs); got != "1" {
		t.Errorf("it was installed %s times", got)
	}
	if again := do(t, "docker", "image", "inspect", "--format", "{{.Id}}", name); again != id {
		t.Error("the image was made again")
	}
	if left := do(t, "docker", "ps", "--all", "--quiet", "--filter", "name=gputrain-phases-"+strings.TrimPrefix(name, phasesRepository+":")); left != "" {
		t.Errorf("the container that made it is left: %s", left)
	}
	plain := newRig(t, Config{Image: image}) // which asks for no packages and gets none
	nodes = plain.up(1, gputrain.Spec{})
	if got := plain.sh(plain.connect(nodes[0]), "ls /installed 2>/dev/null || echo none"); got != "none" {
		t.Errorf("without an Image it has %q", got)
	}
}

// The image holds nothing of a pool, and no variable of Image.Env that the phases do not need.
func TestPhasesHoldNothingOfAPool(t *testing.T) {
	long(t)
	requireDocker(t)
	r := newRig(t, Config{Image: alpineLike(t, "gputrain-test/alpine-like:clean")})
	spec := gputrain.Spec{Image: gputrain.Image{
		Apt: []string{"tool"}, Env: map[string]string{"TOKEN": "hunter2", "PIP_RETRIES": "7"}, Include: []string{"doc.go"}, Setup: []string{"echo setup >/was-set-up"},
	}}
	name := r.phasesOf(spec)
	node := r.up(1, spec)[0]
	host := strings.Fields(r.sh(r.connect(node), "sed -n 3p /run/gputrain/host_key"))
	if len(host) != 1 || len(host[0]) < 40 {
		t.Fatalf("the node's host key is %q", host)
	}
	client := strings.Fields(r.pool.AuthorizedKey)[1]
	for what, needle := range map[string]string{"the host key": host[0], "the client's key": client, "the pool's ID": r.pool.ID, "a secret": "hunter2"} {
		find := []string{"run", "--rm", "--pull", "never", "--entrypoint", "sh", name, "-c",
			`grep -rlF -e "$0" /etc /home /installed /opt /root /run /tmp /usr/sbin /var /apk-calls /was-set-up 2>/dev/null; :`, needle}
		if found := do(t, "docker", find...); found != "" {
			t.Errorf("%s is in %s", what, found)
		}
	}
	if said := do(t, "docker", "image", "inspect", name) + do(t, "docker", "history", "--no-trunc", name); strings.Contains(said, "hunter2") || strings.Contains(said, r.pool.ID) {
		t.Errorf("the engine says of the image\n%s", said)
	}
	if got := do(t, "docker", "run", "--rm", "--pull", "never", "--entrypoint", "sh", name, "-c", "ls -AR /run /root 2>/dev/null; :"); strings.Contains(got, "host_key") || strings.Contains(got, "doc.go") {
		t.Errorf("the image has %s", got)
	}
}

// A failed phase is not kept, and is tried in its own container only once. The nodes come up
// nevertheless: the phase fails there too, with the reason.
func TestFailedPhasesAreNotKept(t *testing.T) {
	long(t)
	requireDocker(t)
	r := newRig(t, Config{Image: alpineLike(t, "gputrain-test/alpine-like:failed")})
	spec := gputrain.Spec{Image: gputrain.Image{Apt: []string{"absent"}}}
	name := r.phasesOf(spec)
	said := &labelled{}
	if err := r.driver.Prepare(t.Context(), r.pool); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		req := r.request(1, spec)
		req.Output = said.of
		nodes, err := r.driver.Launch(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.sh(r.connect(nodes[0]), "grep -c absent /apk-calls; true"); got != "0" {
			t.Errorf("on the node it was tried %s times", got)
		}
		if err := r.driver.Terminate(t.Context(), nodes[0].ID); err != nil {
			t.Fatal(err)
		}
	}
	if r.hasImage(name) {
		t.Error("an image was kept")
	}
	if got := said.String(); strings.Count(got, "there is no such package") != 1 || !strings.HasPrefix(got, "packages: ") {
		t.Errorf("the phases say %q", got)
	}
}

// A labelled writer stores the output of phases, with their names.
type labelled struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *labelled) of(phase string) io.Writer { return &labelledPhase{l, phase} }

func (l *labelled) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

type labelledPhase struct {
	*labelled
	phase string
}

func (l *labelledPhase) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(&l.text, "%s: %s", l.phase, p)
	return len(p), nil
}

// Pools that need the same image at once wait while one of them makes it. A pool that gives up
// does not delay the others.
func TestPhasesOfManyPoolsAtOnce(t *testing.T) {
	long(t)
	requireDocker(t)
	image := alpineLike(t, "gputrain-test/alpine-like:at-once")
	r := newRig(t, Config{Image: image})
	spec := gputrain.Spec{Image: gputrain.Image{Apt: []string{"tool"}}}
	name := r.phasesOf(spec)
	ready, _, err := r.driver.images.readyImage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	var made sync.Map
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			ctx := t.Context()
			if i == 0 {
				ctx = gone
			}
			got, err := r.driver.images.phasedImage(ctx, ready, driver.Launch{Query: spec.Query(), Packages: packagesOf(spec.Image)})
			if (err != nil) != (i == 0) || err == nil && got != name {
				t.Errorf("%d: %q, %v", i, got, err)
			}
			if err == nil {
				made.Store(do(t, "docker", "image", "inspect", "--format", "{{.Id}}", name), true)
			}
		})
	}
	all.Wait()
	count := 0
	made.Range(func(any, any) bool { count++; return true })
	if count != 1 {
		t.Errorf("%d images were made", count)
	}
}

// The name of an image with phases depends on everything that determines its content, and on
// nothing else. An image with a possible secret is not shared.
func TestPhasesName(t *testing.T) {
	shared := newImages(&engine{dialect: docker}, Config{})
	name := func(ready string, image gputrain.Image) string {
		img, ok := shared.sharedPhases(packagesOf(image))
		if !ok {
			return ""
		}
		name, err := phasesName(ready, root, img)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	base := gputrain.Image{Apt: []string{"git"}, Python: "3.12", Pip: []string{"numpy"}}
	requirements := func(text string) string {
		file := filepath.Join(t.TempDir(), "requirements.txt")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return file
	}
	with := func(change func(*gputrain.Image)) gputrain.Image {
		img := base
		img.Env = map[string]string{}
		change(&img)
		return img
	}
	want := name("ready:1", base)
	for what, image := range map[string]gputrain.Image{
		"env":     with(func(i *gputrain.Image) { i.Env["LEARNING_RATE"], i.Env["HF_TOKEN"] = "0.1", "hunter2" }),
		"setup":   with(func(i *gputrain.Image) { i.Setup = []string{"make"} }),
		"include": with(func(i *gputrain.Image) { i.Include = []string{"doc.go"} }),
	} {
		if got := name("ready:1", image); got != want {
			t.Errorf("%s: another name", what)
		}
	}
	seen := []string{want, name("ready:2", base)}
	for _, image := range []gputrain.Image{
		with(func(i *gputrain.Image) { i.Apt = []string{"git", "gcc"} }),
		with(func(i *gputrain.Image) { i.Python = "3.11" }),
		with(func(i *gputrain.Image) { i.Pip = []string{"numpy==2"} }),
		with(func(i *gputrain.Image) { i.PipIndexes = []string{"https://example.com/simple"} }),
		with(func(i *gputrain.Image) { i.Requirements = requirements("numpy") }),
		with(func(i *gputrain.Image) { i.Requirements = requirements("torch") }),
		with(func(i *gputrain.Image) { i.Env["PIP_NO_INDEX"] = "1" }),
		with(func(i *gputrain.Image) { i.Env["https_proxy"] = "http://proxy:3128" }),
	} {
		seen = append(seen, name("ready:1", image))
	}
	if slices.Contains(seen, "") || len(slices.Compact(slices.Sorted(slices.Values(seen)))) != len(seen) {
		t.Errorf("names are not all there, or not different: %q", seen)
	}
	for what, image := range map[string]gputrain.Image{
		"nothing": {}, "files alone": {Include: []string{"doc.go"}, Setup: []string{"make"}},
		"a password":      with(func(i *gputrain.Image) { i.Env["PIP_INDEX_URL"] = "https://me:hunter2@example.com/simple" }),
		"a token":         with(func(i *gputrain.Image) { i.Env["UV_PUBLISH_TOKEN"] = "hunter2" }),
		"an index's name": with(func(i *gputrain.Image) { i.Env["UV_INDEX_OURS_USERNAME"] = "hunter2" }),
		"a proxy's":       with(func(i *gputrain.Image) { i.Env["HTTPS_PROXY"] = "http://me:hunter2@proxy:3128" }),
	} {
		if got := name("ready:1", image); got != "" {
			t.Errorf("%s: %s", what, got)
		}
	}
	shared = newImages(&engine{dialect: docker}, Config{RunArgs: []string{"--tmpfs", "/root"}})
	if _, ok := shared.sharedPhases(packagesOf(base)); ok {
		t.Error("with RunArgs a node is not what the driver knows")
	}
	if own, err := phasesName("ready:1", "worker", bootstrap.Image{Apt: base.Apt, Python: base.Python, Pip: base.Pip}); err != nil || own == want {
		t.Errorf("another user's environment is that of root: %s %v", own, err)
	}
	if _, err := phasesName("ready:1", root, bootstrap.Image{Apt: []string{"--force"}}); err == nil {
		t.Error("an Image that is wrong has a name")
	}
}

// A new image replaces the oldest one.
func TestOldPhasesAreRemoved(t *testing.T) {
	var here []string
	for i := range keptImages + 3 {
		here = append(here, fmt.Sprintf("2026-01-%02d 00:00:00 +0000 UTC\t%s:%d", i+1, phasesRepository, i))
	}
	slices.Reverse(here) // as engines list them
	s := newShelf(t, pullFails)
	s.list(strings.Join(here, "\n") + "\n")
	d, err := Config{Binary: s.engine()}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	d.(*containerDriver).images.prunePhases(t.Context())
	for i := range keptImages + 3 {
		removed := s.count(fmt.Sprintf("image rm %s:%d\n", phasesRepository, i))
		if want := i < 3; (removed == 1) != want {
			t.Errorf("image %d: removed %d times", i, removed)
		}
	}
	if n := s.count("image rm"); n != 3 {
		t.Errorf("%d images were removed", n)
	}
}
