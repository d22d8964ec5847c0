package gcp

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

var l4 = gputrain.Spec{Accelerator: accelerators.L4()}

func TestBaking(t *testing.T) {
	standard.Baking(t, func(f *fake) { f.imageDelay = 3 }, func(t *testing.T, _ *fake, b gputrain.BakedImage) {
		if b.Region != "" || b.Arch != "amd64" || b.Base != "deeplearning-platform-release/common-cu129-ubuntu-2404-nvidia-580 of gputrain" || b.ID != b.Name || b.SizeGiB != 4 {
			t.Errorf("the image is %+v", b)
		}
		if usd, _ := b.MonthlyUSD(); usd < 0.1999 || usd > 0.2001 {
			t.Errorf("%v GiB cost $%v a month", b.SizeGiB, usd)
		}
	})
}

// The end of a pool waits for an image that is being finished, and Bake returns it.
func TestBakeOfAnEndedContext(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	held := make(chan struct{})
	finishing := f.Inject(fakecloud.Fault{Op: opLabelImage, Hold: held})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	closing := make(chan struct{})
	go func() {
		<-finishing.Reached()
		cancel()
		<-closing
		time.Sleep(300 * time.Millisecond) // in which the pool would end
		if n := len(f.Records(opDelete)); n != 0 {
			t.Errorf("the machine is ended by %d calls", n)
		}
		close(held)
	}()
	spec := l4
	spec.Image.Setup = []string{"true"}
	made, err := gputrain.Bake(ctx, standard.Reached(f.config()), spec, gputrain.WithStateDir(t.TempDir()), gputrain.WithoutGuardian(), gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventPool && e.State == "closing" {
			close(closing)
		}
	}))
	if err != nil || ctx.Err() == nil {
		t.Errorf("%+v, %v", made, err)
	}
	if live := f.live(); len(live) != 1 || live[0] != "image "+made.Name {
		t.Errorf("beside the image there is %q", live)
	}
}

// bakeRequest returns a driver of a fake without machines, and a request for an image of a machine.
func bakeRequest(t *testing.T, f *fake) (*gcpDriver, driver.Bake) {
	t.Helper()
	f.noMachines = true
	d := f.open()
	return d, cloudtest.BakeRequest(t, d, l4.Query())
}

func TestBakeUnderFaults(t *testing.T) {
	listed := func(req driver.Bake, r driver.Resource) bool { return r.Lease == req.Pool.Lease && !r.Created.IsZero() }
	standard.BakeUnderFaults(t, "FAILED", listed, map[string]cloudtest.BakeFault[*fake]{
		"slow":            {Change: func(f *fake) { f.imageDelay = 20 }},
		"lost answer":     {Fault: fakecloud.Fault{Op: opMakeImage, After: true, Cut: true}},
		"lost answers":    {Fault: fakecloud.Fault{Op: opMakeImage, After: true, Cut: true, Times: 9}},
		"no effect":       {Fault: fakecloud.Fault{Op: opMakeImage, Cut: true, Times: 9}, Kind: driver.ErrUnavailable},
		"lists that fail": {Fault: fakecloud.Fault{Op: opImages, Answer: fakecloud.Failure(503, "", ""), Times: 20}},
		"lost mark":       {Fault: fakecloud.Fault{Op: opLabelImage, After: true, Cut: true, Times: 9}},
		"mark refused": {Fault: fakecloud.Fault{Op: opLabelImage, Answer: fakecloud.GoogleError(403, "forbidden", "Required 'compute.images.setLabels' permission")},
			Kind: driver.ErrAuth, Left: true},
		"failed":       {Change: func(f *fake) { f.imageFails = true }, Left: true},
		"quota":        {Change: func(f *fake) { f.imageQuota = true }, Kind: driver.ErrQuota},
		"machine gone": {Change: func(f *fake) { f.end(nil, instanceID(testZone, "bake-1-0")) }, Kind: driver.ErrNotFound},
	})
}

// An image that has lost its labels when it is finished gets them again, and is listed. One without labels that is not
// the pool's is left alone.
func TestFinishWithoutLabels(t *testing.T) {
	t.Parallel()
	for _, own := range []bool{true, false} {
		f := startFake(t)
		d, req := bakeRequest(t, f)
		b := d.bakery.Images.(*baked)
		id, err := b.MakeImage(t.Context(), cloud.ImageOrder{Bake: req, Tag: pooltag.Of(req.Pool, time.Now())})
		if err != nil {
			t.Fatal(err)
		}
		images, err := b.Images(t.Context())
		if err != nil || len(images) != 1 {
			t.Fatalf("%+v, %v", images, err)
		}
		f.Do(func() {
			i, _ := f.images.Get(nil, id)
			delete(i.row, "labels")
			if !own {
				i.row["description"] = "nightly"
			}
		})
		if err := b.FinishImage(t.Context(), images[0], req.Key); errors.Is(err, driver.ErrNotFound) == own || own && err != nil {
			t.Errorf("own %v: %v", own, err)
		}
		if all, err := d.BakedImages(t.Context()); err != nil || (len(all) == 1) != own {
			t.Errorf("own %v: %+v, %v", own, all, err)
		}
		if own {
			continue
		}
		f.Do(func() {
			if i, _ := f.images.Get(nil, id); i.row["labels"] != nil {
				t.Errorf("another program's image has the labels %v", i.row["labels"])
			}
		})
	}
}

// The documented permissions suffice for images, and all are needed. Without them a pool works.
func TestBakePermissions(t *testing.T) {
	t.Parallel()
	documented := documentedPermissions(t)
	bake := documented["for gputrain.Bake"]
	if len(bake) == 0 {
		t.Fatal("none are documented")
	}
	f := startFake(t)
	f.granted = map[string]bool{}
	for _, p := range slices.Concat(documented[""], documented["unless NoFirewall"], documented["unless PrivateIP"], bake) {
		f.granted[p] = true
	}
	d, req := bakeRequest(t, f)
	b, err := d.Bake(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	q := l4.Query()
	q.Baked = cloudtest.BakeKey
	o := cloudtest.AllOffers(t, d, q)[0]
	next := request(l4, o, 0)
	if got, err := d.Launch(t.Context(), next); err != nil || o.Baked != b.ID {
		t.Errorf("%+v, %v", got, err)
	}
	if err := d.DeleteBaked(t.Context(), b.ID); err != nil {
		t.Error(err)
	}
	f.Do(func() {
		for _, p := range bake {
			if !f.used[p] {
				t.Errorf("%s is documented, and nothing needs it: %v", p, slices.Sorted(maps.Keys(f.used)))
			}
			delete(f.granted, p)
		}
	})
	o = cloudtest.AllOffers(t, d, q)[0]
	if o.Baked != "" || !slices.ContainsFunc(o.Warnings, func(w string) bool { return strings.Contains(w, "whether there is a baked image for it is not known") }) {
		t.Errorf("%+v", o)
	}
	if _, err := d.List(t.Context(), ""); err != nil {
		t.Error(err)
	}
	if _, err := d.BakedImages(t.Context()); !errors.Is(err, driver.ErrAuth) {
		t.Errorf("%v", err)
	}
}
