package cloudtest

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
)

// Baking has an image made of a machine, which takes its time after slow, opens a pool that starts from it, and deletes it. Each
// Setup command of the pool must have been run in the image. looks gets the image, beside which there is nothing in the account.
func (c Cloud[F, C]) Baking(t *testing.T, slow func(F), looks func(*testing.T, F, gputrain.BakedImage)) {
	t.Parallel()
	f, spec := c.Start(t), c.Spec
	slow(f)
	p := c.provider(f)
	spec.Image.Setup = []string{"echo made >file; echo ran >>~/setups"}
	var mu sync.Mutex
	var phases []string
	opts := []gputrain.Option{gputrain.WithStateDir(t.TempDir()), gputrain.WithoutGuardian(), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventPhase && e.State != "started" {
			mu.Lock()
			defer mu.Unlock()
			phases = append(phases, e.Phase+" "+e.State)
		}
	})}
	wantPhases := func(want string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if got := strings.Join(phases, ", "); got != want {
			t.Errorf("the phases are %q; want %q", got, want)
		}
		phases = nil
	}
	image, err := gputrain.Bake(t.Context(), p, spec, opts...)
	if err != nil {
		t.Fatal(err)
	}
	wantPhases("setup 1/1 done, bake done")
	if usd, known := image.MonthlyUSD(); known && usd <= 0 || image.SizeGiB <= 0 || image.Created.IsZero() || time.Since(image.Created) > time.Hour {
		t.Errorf("the image is %+v", image)
	}
	if all := c.Account(f); len(all) != 1 || all[0].Kind != "image" || all[0].Name != image.Name && all[0].ID != image.ID {
		t.Errorf("beside the image there is %+v", all)
	}
	looks(t, f, image)
	if again, err := gputrain.Bake(t.Context(), p, spec, opts...); again != image || err != nil {
		t.Errorf("a second Bake: %+v, %v; want %+v", again, err, image)
	}
	wantPhases("")
	if all, err := gputrain.BakedImages(t.Context(), p); len(all) != 1 || all[0] != image || err != nil {
		t.Errorf("the images are %+v, %v", all, err)
	}
	run := func() {
		t.Helper()
		pool, err := gputrain.Open(t.Context(), p, spec, opts...)
		if err != nil {
			t.Fatal(err)
		}
		r, err := pool.Run(gputrain.Script("cat file; wc -l <~/setups"))
		if got := strings.Join(strings.Fields(string(r.Stdout)), " "); got != "made 1" || err != nil {
			t.Errorf("a node has %q, %v", got, err)
		}
		if err := pool.Close(); err != nil {
			t.Error(err)
		}
	}
	run()
	wantPhases("baked image cached, setup 1/1 cached")
	if _, err := gputrain.StateDir(t.TempDir()).Reap(t.Context(), p); err != nil {
		t.Error(err)
	}
	if err := gputrain.DeleteBaked(t.Context(), p, image, image); err != nil {
		t.Error(err)
	}
	if all, err := gputrain.BakedImages(t.Context(), p); len(all) != 0 || err != nil {
		t.Errorf("the images are %+v, %v", all, err)
	}
	run()
	wantPhases("setup 1/1 done")
	Empty(t, c.Account(f))
}
