package cloudtest

import (
	"errors"
	"strings"
	"testing"

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

// A BakeCheck has a driver make an image while something fails, and checks what that leaves: one image or none, which is
// deleted by Release if it is not finished.
type BakeCheck struct {
	Driver interface {
		driver.Driver
		driver.Baker
	}
	Request driver.Bake
	// Kind is that of the error. Nil means success, unless Left is set.
	Kind error
	// Left means that the image is not finished, and there until Release. Without a Kind its error then contains Reason,
	// the cloud's own.
	Left   bool
	Reason string
	// Count returns how many images the cloud has of the request's name.
	Count func() int
	// Listed, if not nil, reports whether List has described an image that is not finished as it must.
	Listed func(driver.Resource) bool
}

// Run makes the image, and ends the pool.
func (c BakeCheck) Run(t *testing.T) {
	t.Helper()
	number := map[bool]int{true: 1}
	d, pool := c.Driver, c.Request.Pool
	b, err := d.Bake(t.Context(), c.Request)
	switch {
	case c.Kind != nil && !errors.Is(err, c.Kind), (err == nil) != (c.Kind == nil && !c.Left):
		t.Fatalf("%+v, %v; want %v", b, err, c.Kind)
	case c.Left && c.Kind == nil && !strings.Contains(err.Error(), c.Reason):
		t.Errorf("%v does not give the cloud's reason", err)
	}
	if want, n := number[err == nil || c.Left], c.Count(); n != want {
		t.Errorf("there are %d images, want %d", n, want)
	}
	listed, listErr := d.List(t.Context(), "")
	n := 0
	for _, r := range listed {
		if r.Kind == "image" && r.Pool == pool.ID && r.Owner == pool.Owner && (c.Listed == nil || c.Listed(r)) {
			n++
		}
	}
	if listErr != nil || n != number[c.Left] {
		t.Errorf("List has %+v, %v", listed, listErr)
	}
	if err := d.Terminate(t.Context(), c.Request.Instance.ID); err != nil {
		t.Error(err)
	}
	if err := d.Release(t.Context(), pool); err != nil {
		t.Error(err)
	}
	finished, err := d.BakedImages(t.Context())
	if err != nil || len(finished) != number[b.ID != ""] || c.Count() != len(finished) {
		t.Errorf("after Release the images are %+v, %v", finished, err)
	}
}
