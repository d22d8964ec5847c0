package cloudtest

import (
	"errors"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

// BakeKey is the key of the images that BakeRequest asks for.
const BakeKey = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"

// BakeRequest launches a machine of the first offer, for a pool of its own, and returns the request for an image of it.
func BakeRequest(t testing.TB, d driver.Driver, q driver.Query) driver.Bake {
	t.Helper()
	pool := Info("bake-1")
	if err := d.Prepare(t.Context(), pool); err != nil {
		t.Fatal(err)
	}
	req := Request(t, q, AllOffers(t, d, q)[0], 0)
	req.Pool, req.Nodes[0].Name = pool, "bake-1-0"
	got, err := d.Launch(t.Context(), req)
	return driver.Bake{Pool: pool, Instance: One(t, got, err), Key: BakeKey, Name: "gputrain-baked-1"}
}

// A BakeFault is what goes wrong while an image is made.
type BakeFault[F Fake] struct {
	// Fault is that of the calls, and Change that of the cloud, unless they are zero.
	Fault  fakecloud.Fault
	Change func(F)
	// Kind is that of the error. Nil means success, unless Left is set.
	Kind error
	// Left means that the image is not finished, and there until Release.
	Left bool
}

// BakeUnderFaults makes images while calls fail, or their answers are lost: there is one image or none, and Release deletes one
// that is not finished. Without a Kind, the error about it contains reason, the cloud's own; listed reports whether List describes
// it as it must.
func (c Cloud[F, C]) BakeUnderFaults(t *testing.T, reason string, listed func(driver.Bake, driver.Resource) bool, faults map[string]BakeFault[F]) {
	t.Parallel()
	for name, b := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.still(t)
			d := Open(t, c.Config(f)).(baker)
			req := BakeRequest(t, d, c.Spec.Query())
			if b.Change != nil {
				f.Do(func() { b.Change(f) })
			}
			if b.Fault.Op != "" {
				f.Inject(b.Fault)
			}
			others := c.kinds(f)["image"]
			bakeCheck{
				driver: d, kind: b.Kind, left: b.Left, reason: reason,
				count:  func() int { return c.kinds(f)["image"] - others },
				listed: func(r driver.Resource) bool { return listed(req, r) },
			}.run(t, req)
		})
	}
}

type baker interface {
	driver.Driver
	driver.Baker
}

// A bakeCheck has a driver make an image, and checks what that leaves.
type bakeCheck struct {
	driver baker
	kind   error
	left   bool
	reason string
	count  func() int // of images in the cloud
	listed func(driver.Resource) bool
}

// run makes the image, and ends the pool.
func (c bakeCheck) run(t *testing.T, request driver.Bake) {
	t.Helper()
	number := map[bool]int{true: 1}
	d, pool := c.driver, request.Pool
	b, err := d.Bake(t.Context(), request)
	switch {
	case c.kind != nil && !errors.Is(err, c.kind), (err == nil) != (c.kind == nil && !c.left):
		t.Fatalf("%+v, %v; want %v", b, err, c.kind)
	case c.left && c.kind == nil && !strings.Contains(err.Error(), c.reason):
		t.Errorf("%v does not give the cloud's reason", err)
	}
	if want, n := number[err == nil || c.left], c.count(); n != want {
		t.Errorf("there are %d images, want %d", n, want)
	}
	listed, listErr := d.List(t.Context(), "")
	n := 0
	for _, r := range listed {
		if r.Kind == "image" && r.Pool == pool.ID && r.Owner == pool.Owner && c.listed(r) {
			n++
		}
	}
	if listErr != nil || n != number[c.left] {
		t.Errorf("List has %+v, %v", listed, listErr)
	}
	if err := d.Terminate(t.Context(), request.Instance.ID); err != nil {
		t.Error(err)
	}
	if err := d.Release(t.Context(), pool); err != nil {
		t.Error(err)
	}
	finished, err := d.BakedImages(t.Context())
	if err != nil || len(finished) != number[b.ID != ""] || c.count() != len(finished) {
		t.Errorf("after Release the images are %+v, %v", finished, err)
	}
}
