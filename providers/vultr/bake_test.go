package vultr

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestBaking(t *testing.T) {
	standard.Baking(t, func(f *fake) { f.snapDelay = 3 }, func(t *testing.T, _ *fake, b gputrain.BakedImage) {
		if b.Region != "" || b.Base != "os 2284" || b.SizeGiB != 8 {
			t.Errorf("the image is %+v", b)
		}
	})
}

func TestBakeUnderFaults(t *testing.T) {
	listed := func(req driver.Bake, r driver.Resource) bool { return r.Name == req.Name }
	standard.BakeUnderFaults(t, "", listed, map[string]cloudtest.BakeFault[*fake]{
		"slow":            {Change: func(f *fake) { f.snapDelay = 20 }},
		"lost answer":     {Fault: fakecloud.Fault{Op: opMakeSnapshot, After: true, Cut: true}},
		"no effect":       {Fault: fakecloud.Fault{Op: opMakeSnapshot, Cut: true, Times: 9}, Kind: driver.ErrUnavailable},
		"lists that fail": {Fault: fakecloud.Fault{Op: opSnapshots, Answer: fakecloud.Failure(503, "", ""), Times: 3}},
		"lost mark":       {Fault: fakecloud.Fault{Op: opDescribe, After: true, Cut: true}},
		"mark refused":    {Fault: fakecloud.Fault{Op: opDescribe, Answer: failure(401, "Invalid API token.")}, Kind: driver.ErrAuth, Left: true},
		"failed":          {Change: func(f *fake) { f.snapFails = true }, Left: true},
		"machine gone": {Change: func(f *fake) {
			for _, r := range f.machines[Cloud].All(nil) {
				f.end(nil, Cloud, r.row["id"].(string))
			}
		}, Kind: driver.ErrNotFound},
	})
}

// Bare metal has no snapshots.
func TestBakeOfMetal(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cfg := f.config()
	cfg.Mode = BareMetal
	d := cloudtest.Open(t, cfg).(*vultrDriver)
	_, err := d.Bake(t.Context(), driver.Bake{Pool: cloudtest.Info("bake-1"), Instance: driver.Instance{ID: instanceID(BareMetal, "1")}, Key: "k", Name: "n"})
	if !errors.Is(err, driver.ErrUnsupported) {
		t.Error(err)
	}
	if base(cfg)(driver.Offer{}) != "" {
		t.Error("its offers start from images")
	}
}
