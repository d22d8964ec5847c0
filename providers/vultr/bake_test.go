package vultr

import (
	"context"
	"errors"
	"net"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A reached provider reaches its machines by fakecloud.Dial.
type reached struct{ Config }

func (p reached) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return reachedDriver{d.(*vultrDriver)}, nil
}

type reachedDriver struct{ *vultrDriver }

func (reachedDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return fakecloud.Dial(ctx, in.SSH.Addr)
}

var bakeSpec = gputrain.Spec{Accelerator: accelerators.L40S()}

// A snapshot is made of a machine, pools start from it, and it is deleted.
func TestBaking(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.snapDelay = 3
	cloudtest.Baking(t, reached{f.config()}, bakeSpec, func(b gputrain.BakedImage) {
		if all := f.account(); len(all) != 1 || all[0].ID != b.ID {
			t.Errorf("beside the image there is %+v", all)
		}
		if b.Region != "" || b.Base != "os 2284" || b.SizeGiB != 8 {
			t.Errorf("the image is %+v", b)
		}
	})
	if all := f.account(); len(all) != 0 {
		t.Errorf("left: %+v", all)
	}
}

// Calls that fail, or whose answers are lost, make one image or none, and Release deletes one that is not finished.
func TestBakeUnderFaults(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		fault  fakecloud.Fault
		change func(*fake)
		kind   error // nil means success
		left   bool  // a snapshot, until Release
	}{
		"slow":            {change: func(f *fake) { f.snapDelay = 20 }},
		"lost answer":     {fault: fakecloud.Fault{Op: opMakeSnapshot, After: true, Cut: true}},
		"no effect":       {fault: fakecloud.Fault{Op: opMakeSnapshot, Cut: true, Times: 9}, kind: driver.ErrUnavailable},
		"lists that fail": {fault: fakecloud.Fault{Op: opSnapshots, Answer: fakecloud.Failure(503, "", ""), Times: 3}},
		"lost mark":       {fault: fakecloud.Fault{Op: opDescribe, After: true, Cut: true}},
		"mark refused":    {fault: fakecloud.Fault{Op: opDescribe, Answer: failure(401, "Invalid API token.")}, kind: driver.ErrAuth, left: true},
		"failed":          {change: func(f *fake) { f.snapFails = true }, left: true},
		"machine gone":    {change: func(f *fake) { f.end(nil, Cloud, onlyMachine(f)) }, kind: driver.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.noMachines = true
			d := cloudtest.Open(t, f.config()).(*vultrDriver)
			req := cloudtest.BakeRequest(t, d, bakeSpec.Query())
			f.Do(func() {
				if tt.change != nil {
					tt.change(f)
				}
			})
			if tt.fault.Op != "" {
				f.Inject(tt.fault)
			}
			cloudtest.BakeCheck{
				Driver: d, Request: req, Kind: tt.kind, Left: tt.left,
				Count: func() int { return countImages(f) }, Listed: func(r driver.Resource) bool { return r.Name == req.Name },
			}.Run(t)
		})
	}
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

func onlyMachine(f *fake) (id string) {
	for _, r := range f.machines[Cloud].All(nil) {
		id = r.row["id"].(string)
	}
	return id
}

func countImages(f *fake) (n int) {
	for _, r := range f.account() {
		if r.Kind == "image" {
			n++
		}
	}
	return n
}
