//go:build unix

package docker

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/registrytest"
	"github.com/gputrain/gputrain/providers/container"
	"github.com/gputrain/gputrain/providers/ssh"
)

const base = container.HomeMadeImage

// platform is the engine's.
const platform = "linux/" + runtime.GOARCH

// wantNoContainers checks that the engine has no container of a pool.
func wantNoContainers(t testing.TB, pool string) {
	t.Helper()
	if left := e2etest.Docker(t, "ps", "--all", "--filter", "label=gputrain.docker.pool="+pool, "--format", "{{.Names}} {{.Status}}"); left != "" {
		t.Errorf("containers are left:\n%s", left)
	}
}

// containersOf returns the names of a pool's containers.
func containersOf(t testing.TB, pool string) []string {
	t.Helper()
	return strings.Fields(e2etest.Docker(t, "ps", "--filter", "label=gputrain.docker.pool="+pool, "--format", "{{.Names}}"))
}

// long leaves a test out of a short run.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it waits for several containers")
	}
}

// has reports whether the engine has an image.
func has(t testing.TB, image string) bool {
	t.Helper()
	return e2etest.Docker(t, "image", "ls", "--quiet", "--filter", "reference="+image) != ""
}

// phases collects the states of the phase "docker".
type phases struct {
	mu     sync.Mutex
	states []string
}

func (p *phases) option() gputrain.Option {
	return gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventPhase && e.Phase == "docker" {
			p.mu.Lock()
			defer p.mu.Unlock()
			p.states = append(p.states, e.State)
		}
	})
}

func (p *phases) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.states, " ")
}

// TestOwnHost opens a pool on a host, with an image of a private registry, and uses every feature of a pool there. The
// registry's password must be nowhere meanwhile, and the host must be as it was found after that.
func TestOwnHost(t *testing.T) {
	e2etest.NeedDocker(t)
	r := registrytest.Start(t)
	r.Push(t, "team/train:1", platform, registrytest.Busybox, "nobody", "FLAVOUR=vanilla")
	h := e2etest.NewHost(t)
	state := t.TempDir()
	var shown e2etest.Shown
	var seen phases
	watch := searchFor(t, r.Password, base64.StdEncoding.EncodeToString([]byte(r.User+":"+r.Password)))
	t.Setenv("TEAM_REGISTRY", r.Password)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2, Image: gputrain.Image{
		Docker: r.Name("team/train:1"), DockerUser: r.User, DockerPassword: "env://TEAM_REGISTRY",
		Env: map[string]string{"EXTRA": "more"}, Setup: []string{`echo "$FLAVOUR" > setup`},
	}}, []gputrain.Option{gputrain.WithStateDir(state), seen.option(), shown.Option()}, h)
	watch.stop(t, state, h.Home, "/dev/shm", "/run")
	if out := shown.Out.String() + shown.Err.String(); !strings.Contains(out, "docker] ") || !strings.Contains(out, "Digest: sha256:") {
		t.Errorf("the pull does not show: %q", out)
	}
	task := gputrain.Script(`cat setup; echo "$FLAVOUR $EXTRA $HOME"; id -u; [ -e /.dockerenv ] && echo made > out`)
	task.Outputs = []string{"out"}
	result, err := pool.Run(task)
	if err != nil || string(result.Stdout) != "vanilla\nvanilla more /root\n0\n" {
		t.Errorf("the task says %q, %v", result.Stdout, err)
	} else if got, err := os.ReadFile(filepath.Join(result.OutputDir, "out")); string(got) != "made\n" {
		t.Errorf("its output is %q, %v", got, err)
	}
	if got, err := e2etest.Norm.Gather(pool, e2etest.Point{X: 1}, e2etest.Point{X: 2}, e2etest.Point{X: 3}); err != nil || !slices.Equal(got, []float64{1, 4, 9}) {
		t.Errorf("functions return %v, %v", got, err)
	}
	up, down := t.TempDir(), t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
	e2etest.Write(t, filepath.Join(up, "data"), data)
	for _, to := range []string{"up", "/opt/up"} { // the second one is not the host's
		if err := errors.Join(pool.Upload(up, to), pool.Download(to+"/data", filepath.Join(down, to))); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(down, to, "0/data")); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s gives %d bytes, %v", to, len(got), err)
		}
	}
	if e2etest.Exists("/opt/up") {
		t.Error("the upload is on the host")
	}
	names := containersOf(t, pool.ID())
	if len(names) != 1 {
		t.Errorf("there are the containers %q", names)
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if got := seen.String(); got != "started done" {
		t.Errorf("the phase was %q", got)
	}
	wantNoContainers(t, pool.ID())
	h.WantAsFound(t)
	if has(t, r.Name("team/train")) || has(t, "localhost/gputrain/pulled") {
		t.Error("the image is left, and the pool has pulled it")
	}
}

// A search looks for texts in the command lines of all processes, again and again.
type search struct {
	texts []string
	done  chan struct{}
	found chan string
}

func searchFor(t *testing.T, texts ...string) *search {
	s := &search{texts: texts, done: make(chan struct{}), found: make(chan string, 1)}
	go func() {
		defer close(s.found)
		for {
			select {
			case <-s.done:
				return
			case <-time.After(2 * time.Millisecond):
			}
			lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
			for _, name := range lines {
				line, _ := os.ReadFile(name)
				if what := s.in(line); what != "" {
					s.found <- fmt.Sprintf("the command line %q", line)
					return
				}
			}
		}
	}()
	return s
}

func (s *search) in(text []byte) string {
	for _, secret := range s.texts {
		if bytes.Contains(text, []byte(secret)) {
			return secret
		}
	}
	return ""
}

// stop ends the search, and looks in all files of folders and in Docker's own configuration too.
func (s *search) stop(t *testing.T, dirs ...string) {
	t.Helper()
	close(s.done)
	if what := <-s.found; what != "" {
		t.Errorf("a secret is in %s", what)
	}
	home, _ := os.UserHomeDir()
	for _, dir := range append(dirs, filepath.Join(home, ".docker"), "/etc/docker") {
		filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return nil
			}
			text, _ := os.ReadFile(name)
			if s.in(text) != "" || strings.Contains(name, "gputrain-docker-") && dir != "/run" {
				t.Errorf("a secret is in %s", name)
			}
			return nil
		})
	}
}

// TestImageThatIsThere runs an image that the host had: it stays, and an image with a cache keeps what it needs again.
func TestImageThatIsThere(t *testing.T) {
	long(t)
	e2etest.NeedDocker(t)
	h := e2etest.NewHost(t)
	c := ssh.Config{Hosts: []ssh.Host{h.Host()}, KeepCache: true}
	for range 2 {
		var seen phases
		pool := e2etest.OpenOwn(t, c, gputrain.Spec{Image: gputrain.Image{Docker: base}}, seen.option())
		if got, err := e2etest.Norm.Run(pool, e2etest.Point{X: 3, Y: 4}); err != nil || got != 25 {
			t.Errorf("got %v, %v", got, err)
		}
		if err := pool.Close(); err != nil {
			t.Fatal(err)
		}
		if got := seen.String(); got != "started cached" {
			t.Errorf("the phase was %q", got)
		}
		wantNoContainers(t, pool.ID())
		caches, _ := filepath.Glob(filepath.Join(h.Home, ".gputrain/cache/docker-*/bin/*"))
		if len(caches) != 1 {
			t.Errorf("the cache has the programs %q", caches)
		}
	}
	if !has(t, base) {
		t.Error("the image is gone")
	}
	os.RemoveAll(filepath.Join(h.Home, ".gputrain"))
}

// TestOneImageForAll moves a tag between two nodes: both have the image of the first one.
func TestOneImageForAll(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it pulls images")
	}
	e2etest.NeedDocker(t)
	r := registrytest.Start(t)
	r.Push(t, "moving", platform, registrytest.Busybox, "", "VERSION=1")
	a, b := e2etest.NewHost(t), e2etest.NewHost(t)
	pool := e2etest.OpenOwn(t, ssh.Config{Hosts: []ssh.Host{a.Host(), b.Host()}}, gputrain.Spec{Nodes: 1, MaxNodes: 2, Image: gputrain.Image{
		Docker: r.Name("moving"), DockerUser: r.User, DockerPassword: gputrain.Secret(r.Password),
	}})
	r.Push(t, "moving", platform, registrytest.Busybox, "", "VERSION=2")
	if err := pool.Resize(2); err != nil {
		t.Fatal(err)
	}
	e2etest.Until(t, "two nodes", func() bool { return len(containersOf(t, pool.ID())) == 2 && e2etest.AllReady(pool) })
	results, err := pool.Broadcast(gputrain.Script(`echo "$VERSION"`))
	if err != nil || len(results) != 2 || string(results[0].Stdout) != "1\n" || string(results[1].Stdout) != "1\n" {
		t.Errorf("the nodes say %+v, %v", results, err)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if has(t, r.Name("moving")) {
		t.Error("an image is left")
	}
}

// TestHostsOfOneEngine has two hosts pull the same image at once, from one engine: it is removed with the last container.
func TestHostsOfOneEngine(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it pulls images")
	}
	long(t)
	e2etest.NeedDocker(t)
	r := registrytest.Start(t)
	r.Push(t, "both", platform, registrytest.Busybox, "")
	a, b := e2etest.NewHost(t), e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Image: gputrain.Image{Docker: r.Name("both"), DockerUser: r.User, DockerPassword: gputrain.Secret(r.Password)}}, nil, a, b)
	if n := len(containersOf(t, pool.ID())); n != 2 {
		t.Errorf("there are %d containers", n)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	wantNoContainers(t, pool.ID())
	if has(t, r.Addr+"/*") || has(t, "localhost/gputrain/pulled") {
		t.Error("the image is left")
	}
	a.WantAsFound(t)
	b.WantAsFound(t)
}

// TestSharedAcceleratorsOfAnImage shares the devices of a host in containers. The host has no MPS, only the image has.
func TestSharedAcceleratorsOfAnImage(t *testing.T) {
	long(t)
	e2etest.NeedDocker(t)
	bin := e2etest.FakeGPUs(t, 1)
	h := e2etest.NewHostAt(t, e2etest.ShortDir(t), "PATH="+bin+":"+os.Getenv("PATH"))
	spec := gputrain.Spec{Accelerator: accelerators.A100(), GPUSharing: 2, Image: gputrain.Image{Docker: base}}
	refused, err := gputrain.Open(t.Context(), ssh.Config{Hosts: []ssh.Host{h.Host()}}, spec)
	if err == nil {
		refused.Close()
	}
	if !errors.Is(err, gputrain.ErrNoOffers) || !strings.Contains(err.Error(), "the container of Image.Docker has no nvidia-cuda-mps-control") {
		t.Errorf("with an image without MPS: %v", err)
	}

	dir := t.TempDir()
	e2etest.FakeMPS(t, dir)
	spec.Image.Docker = "localhost/gputrain-test/mps:" + strings.ToLower(rand.Text())
	e2etest.Write(t, filepath.Join(dir, "Dockerfile"), []byte("FROM "+base+"\nCOPY nvidia-cuda-mps-control /usr/local/bin/\n"))
	e2etest.Docker(t, "build", "--quiet", "--tag", spec.Image.Docker, dir)
	t.Cleanup(func() { e2etest.Docker(t, "rmi", spec.Image.Docker) })
	pool := e2etest.OpenHosts(t, spec, nil, h)
	task := gputrain.Script(`test -e "$CUDA_MPS_PIPE_DIRECTORY/control" && echo "$CUDA_VISIBLE_DEVICES $CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"`)
	task.Accelerators = 1
	result, err := pool.Run(task)
	if err != nil || string(result.Stdout) != "0 50\n" {
		t.Errorf("the task says %q, %v", result.Stdout, err)
	}
}
