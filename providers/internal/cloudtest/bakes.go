package cloudtest

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
)

// Baking makes an image of a machine, which takes its time after slow, has pools start from it, and deletes it: see [Baking]. looks
// gets the image, beside which there is nothing in the account.
func (c Cloud[F, C]) Baking(t *testing.T, slow func(F), looks func(*testing.T, F, gputrain.BakedImage)) {
	t.Parallel()
	f := c.Start(t)
	slow(f)
	Baking(t, c.provider(f), c.Spec, func(b gputrain.BakedImage) {
		if all := c.Account(f); len(all) != 1 || all[0].Kind != "image" || all[0].Name != b.Name && all[0].ID != b.ID {
			t.Errorf("beside the image there is %+v", all)
		}
		looks(t, f, b)
	})
	Empty(t, c.Account(f))
}

// A BakeFault is what goes wrong while an image is made.
type BakeFault[F Fake] struct {
	// Fault is that of the calls, and Change that of the cloud, unless they are zero.
	Fault  fakecloud.Fault
	Change func(F)
	// Kind and Left are as in [BakeCheck].
	Kind error
	Left bool
}

// BakeUnderFaults makes images while calls fail, or their answers are lost: there is one image or none, and Release deletes one
// that is not finished. reason and listed are Reason and Listed of [BakeCheck].
func (c Cloud[F, C]) BakeUnderFaults(t *testing.T, reason string, listed func(driver.Bake, driver.Resource) bool, faults map[string]BakeFault[F]) {
	t.Parallel()
	for name, b := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := c.still(t)
			d := Open(t, c.Config(f)).(bakes)
			req := BakeRequest(t, d, c.Spec.Query())
			if b.Change != nil {
				f.Do(func() { b.Change(f) })
			}
			if b.Fault.Op != "" {
				f.Inject(b.Fault)
			}
			others := c.kinds(f)["image"]
			BakeCheck{
				Driver: d, Request: req, Kind: b.Kind, Left: b.Left, Reason: reason,
				Count:  func() int { return c.kinds(f)["image"] - others },
				Listed: func(r driver.Resource) bool { return listed(req, r) },
			}.Run(t)
		})
	}
}

type bakes interface {
	driver.Driver
	driver.Baker
}
