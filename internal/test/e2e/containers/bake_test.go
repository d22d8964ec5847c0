package containers

import (
	"context"
	"errors"
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

// A bakery bakes images of containers, which are removed at the end of the test.
type bakery struct {
	t    testing.TB
	cfg  container.Config
	spec gputrain.Spec

	mu     sync.Mutex
	phases []string // "pip cached"
	pool   string   // of the last phase
}

func newBakery(t testing.TB, image gputrain.Image) *bakery {
	e2etest.NeedDocker(t)
	b := &bakery{t: t, cfg: container.Config{Image: container.HomeMadeImage}, spec: gputrain.Spec{Image: image}}
	t.Cleanup(func() {
		if err := gputrain.DeleteBaked(context.Background(), b.cfg, b.images(context.Background())...); err != nil {
			t.Error(err)
		}
	})
	return b
}

// uniqueImage returns an image that no other test has, with a Python environment, a file and two Setup commands. The
// commands record in the home folder how often they have run.
func uniqueImage(t testing.TB) (image gputrain.Image, file string) {
	file = filepath.Join(t.TempDir(), "data.txt")
	e2etest.WriteText(t, file, "one\n")
	image = newPythonImage(t)
	image.Include = []string{file}
	image.Setup = []string{"pwd >where; echo 1 >>~/first-setup", "cat data.txt >copied; echo 2 >>~/second-setup"}
	return image, file
}

func (b *bakery) opts() []gputrain.Option {
	b.phases = nil
	return []gputrain.Option{gputrain.WithResultsDir(b.t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventPhase && e.State != "started" {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.phases, b.pool = append(b.phases, e.Phase+" "+e.State), e.Pool
		}
	})}
}

func (b *bakery) bake() gputrain.BakedImage {
	b.t.Helper()
	img, err := gputrain.Bake(b.t.Context(), b.cfg, b.spec, b.opts()...)
	if err != nil {
		b.t.Fatal(err)
	}
	return img
}

// images returns the images for the bakery's spec.
func (b *bakery) images(ctx context.Context) (own []gputrain.BakedImage) {
	b.t.Helper()
	all, err := gputrain.BakedImages(ctx, b.cfg)
	if err != nil {
		b.t.Error(err)
	}
	for _, img := range all {
		if img.Key == b.spec.Query().Baked {
			own = append(own, img)
		}
	}
	return own
}

// run opens a pool for the bakery's spec, compares its phases, and returns what a script prints there.
func (b *bakery) run(script, wantPhases string) string {
	b.t.Helper()
	return b.runAt(b.cfg, script, wantPhases)
}

func (b *bakery) runAt(provider gputrain.Provider, script, wantPhases string) string {
	b.t.Helper()
	pool, err := gputrain.Open(b.t.Context(), provider, b.spec, b.opts()...)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() {
		if err := pool.Close(); err != nil {
			b.t.Error(err)
		}
		e2etest.WantNothingOf(b.t, pool.ID())
		if got := strings.Join(b.phases, ", "); got != wantPhases { // all events have been seen
			b.t.Errorf("the phases are %s; want %s", got, wantPhases)
		}
	}()
	r, err := pool.Run(gputrain.Script(script))
	if err != nil {
		b.t.Fatalf("%v\n%s", err, r.Stderr)
	}
	return strings.TrimSpace(string(r.Stdout))
}

// counts prints how often each Setup command has run, what they have made, and what the environment is.
const counts = `wc -l <~/first-setup; wc -l <~/second-setup; cat data.txt copied; [ "$(cd "$(cat where)" && pwd -P)" = "$(pwd -P)" ] && echo here
python -c 'import sys; print(sys.prefix != sys.base_prefix)'`

// A pool whose image was baked starts from it: no phase runs again. Files that have changed are sent, and then the Setup
// commands run again.
func TestBake(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	image, file := uniqueImage(t)
	b := newBakery(t, image)
	plain := "python cached, pip cached, files done, setup 1/2 done, setup 2/2 done"
	baked := b.bake()
	if got := strings.Join(b.phases, ", "); got != plain+", bake done" {
		t.Errorf("Bake's phases are %s", got)
	}
	e2etest.WantNothingOf(t, b.pool)
	if baked.Provider != "container" || baked.Key != b.spec.Query().Baked || !strings.HasPrefix(baked.Name, "gputrain-baked-"+baked.Key[:16]) ||
		time.Since(baked.Created).Abs() > 10*time.Minute || baked.SizeGiB <= 0 || baked.Base == "" || baked.Arch == "" {
		t.Errorf("the image is %+v", baked)
	}
	if usd, known := baked.MonthlyUSD(); usd != 0 || !known {
		t.Errorf("it costs %v, %v", usd, known)
	}
	if got := b.images(t.Context()); len(got) != 1 || got[0] != baked {
		t.Errorf("the images are %+v; want %+v", got, baked)
	}
	plan, err := gputrain.Plan(t.Context(), b.cfg, b.spec)
	if err != nil || plan[0].Offer.Baked != baked.ID || !slices.Contains(plan[0].Warnings, "starts from the baked image "+baked.ID) {
		t.Errorf("the plan is %+v, %v", plan, err)
	}
	again := b.bake()
	if again != baked || b.phases != nil {
		t.Errorf("a second Bake has returned %+v after %q", again, b.phases)
	}

	cached := "baked image cached, python cached, pip cached, files cached, setup 1/2 cached, setup 2/2 cached"
	if got := b.run(counts, cached); got != "1\n1\none\none\nhere\nTrue" {
		t.Errorf("a node of the image has %q", got)
	}
	if got := b.runAt(gputrain.Cheapest(b.cfg), counts, cached); got != "1\n1\none\none\nhere\nTrue" {
		t.Errorf("a node of a group has %q", got)
	}
	e2etest.WriteText(t, file, "two\n")
	if got := b.run(counts, "baked image cached, python cached, pip cached, files done, setup 1/2 done, setup 2/2 done"); got != "2\n2\ntwo\ntwo\nhere\nTrue" {
		t.Errorf("with another file it has %q", got)
	}
	if ended, err := gputrain.StateDir(t.TempDir()).Reap(t.Context(), b.cfg); err != nil || slices.ContainsFunc(ended, func(r gputrain.Resource) bool { return r.Kind == "image" }) {
		t.Errorf("Reap has ended %+v, %v", ended, err)
	}
	if err := gputrain.DeleteBaked(t.Context(), b.cfg, baked, baked); err != nil {
		t.Error(err)
	}
	if err := gputrain.DeleteBaked(t.Context(), b.cfg, baked); err != nil {
		t.Errorf("an image that is gone: %v", err)
	}
	if got := b.run(counts, plain); got != "1\n1\ntwo\ntwo\nhere\nTrue" {
		t.Errorf("without the image it has %q", got)
	}
	baked.Account = "another"
	if err := gputrain.DeleteBaked(t.Context(), b.cfg, baked); !errors.Is(err, gputrain.ErrNotFound) {
		t.Errorf("an image of another account: %v", err)
	}
}

// Nothing of the pool that made an image is in it: no key, no log, no mark on its containers.
func TestBakedImagesKeepNoSecrets(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: TestBake has made an image and a pool of it")
	}
	image, _ := uniqueImage(t)
	image.Setup = append(image.Setup, `cp /run/gputrain/authorized_keys ~/.was 2>/dev/null; echo ran; mkdir -p ~/.ssh /etc/ssh; cut -d" " -f2 ~/.was >/tmp/key; cat ~/.was >>~/.ssh/authorized_keys
echo "other-key" >>~/.ssh/authorized_keys; echo secret >~/.bash_history; echo line >/var/log/test.log; echo 0123456789abcdef >/etc/machine-id; rm ~/.was`)
	b := newBakery(t, image)
	b.spec.AuthorizedKeys = []string{"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEjM47rJIh9Q5Ph8KX4XVDFZSCgkaPtAoQvdmunNCWoP me@laptop"}
	baked := b.bake()
	labels := e2etest.Docker(t, "image", "inspect", "--format", "{{json .Config}}", baked.ID)
	for _, private := range []string{`"gputrain.hostkey":"ssh-`, `"gputrain.pool":"bake`, `"gputrain.lease":"9`, "ssh-ed25519", "enterScript"} {
		if strings.Contains(labels, private) {
			t.Errorf("the image's configuration has %s: %s", private, labels)
		}
	}
	// As a container of its own, before any pool has been in it.
	shown := e2etest.Docker(t, "run", "--rm", "--pull", "never", "--entrypoint", "sh", baked.ID, "-c", `
ls -A /run/gputrain ~/.gputrain/pools 2>&1
cat ~/.ssh/authorized_keys
ls ~/.bash_history /tmp /etc/ssh/ssh_host_* 2>/dev/null
wc -c </var/log/test.log; wc -c </etc/machine-id
grep -rlsE "PRIVATE KEY|AAAAC3NzaC1lZDI1NTE5" / --include='*' --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr || :`)
	want := strings.Join([]string{
		"ls: cannot access '/run/gputrain': No such file or directory", "ls: cannot access '/root/.gputrain/pools': No such file or directory",
		"other-key", "/tmp:", "0", "0",
	}, "\n")
	if shown != want {
		t.Errorf("the image has\n%s\nwant\n%s", shown, want)
	}
	if n := b.run("grep -c . ~/.ssh/authorized_keys", "baked image cached, python cached, pip cached, files cached, setup 1/3 cached, setup 2/3 cached, setup 3/3 cached"); n != "2" {
		t.Errorf("a node has %s keys", n)
	}
}

// What cannot be baked is refused before anything is made.
func TestBakeRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("scripts/test -deep runs it: it starts many containers")
	}
	e2etest.NeedDocker(t)
	spec := gputrain.Spec{Image: gputrain.Image{Setup: []string{"true # " + strconv.FormatInt(time.Now().UnixNano(), 10)}}}
	labels := map[string]string{"gputrain-test": "bake-refuses-" + strconv.FormatInt(time.Now().UnixNano(), 36)} // others bake meanwhile
	for name, tt := range map[string]struct {
		provider gputrain.Provider
		spec     gputrain.Spec
		kind     error
	}{
		"nothing":  {container.Config{Labels: labels}, gputrain.Spec{Image: gputrain.Image{Env: map[string]string{"A": "1"}}}, gputrain.ErrInvalid},
		"a group":  {gputrain.Cheapest(container.Config{Labels: labels}, container.Config{NamePrefix: "b", Labels: labels}), spec, gputrain.ErrUnsupported},
		"one of 1": {gputrain.FirstOf(container.Config{Labels: labels}), spec, gputrain.ErrUnsupported},
		"run args": {container.Config{Labels: labels, RunArgs: []string{"--env", "TOKEN=x"}}, spec, gputrain.ErrUnsupported},
		"a spec":   {container.Config{Labels: labels}, gputrain.Spec{Nodes: -1}, gputrain.ErrInvalid},
		"none":     {nil, spec, gputrain.ErrInvalid},
	} {
		if _, err := gputrain.Bake(t.Context(), tt.provider, tt.spec, gputrain.WithResultsDir(t.TempDir())); !errors.Is(err, tt.kind) {
			t.Errorf("%s: %v; want %v", name, err, tt.kind)
		}
	}
	label := "label=gputrain-test=" + labels["gputrain-test"]
	if left := e2etest.Docker(t, "ps", "--all", "--quiet", "--filter", label) + e2etest.Docker(t, "network", "ls", "--quiet", "--filter", label); left != "" {
		t.Errorf("left: %s", left)
	}
}

// BenchmarkOpenBaked opens a pool of one container and runs one task: without a baked image for its Setup command,
// which takes a second, and with one.
func BenchmarkOpenBaked(b *testing.B) {
	image := gputrain.Image{Setup: []string{"sleep 1; echo " + strconv.FormatInt(time.Now().UnixNano(), 10) + " >done"}}
	k := newBakery(b, image)
	open := func() time.Duration {
		begun := time.Now()
		pool, err := gputrain.Open(b.Context(), k.cfg, k.spec, gputrain.WithResultsDir(b.TempDir()))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := pool.Run(gputrain.Cmd("cat", "done")); err != nil {
			b.Fatal(err)
		}
		took := time.Since(begun)
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
		return took
	}
	without, with := time.Hour, time.Hour
	for b.Loop() {
		without = min(without, open())
		img := k.bake()
		with = min(with, open())
		if err := gputrain.DeleteBaked(b.Context(), k.cfg, img); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(without.Milliseconds()), "ms-without")
	b.ReportMetric(float64(with.Milliseconds()), "ms-baked")
}
