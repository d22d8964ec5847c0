package hyperstack

import (
	"context"
	"fmt"
	"net"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A dialed provider reaches its machines by fakecloud.Dial.
type dialed struct{ Config }

func (p dialed) Open(ctx context.Context) (driver.Driver, error) {
	d, err := p.Config.Open(ctx)
	if err != nil {
		return nil, err
	}
	return dialedDriver{d.(*hyperstackDriver)}, nil
}

type dialedDriver struct{ *hyperstackDriver }

func (dialedDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	return fakecloud.Dial(ctx, in.SSH.Addr)
}

// An image is made of a machine's snapshot, pools start from it, and it is deleted with the snapshot.
func TestBaking(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.snapDelay = 3
	cloudtest.Baking(t, dialed{f.config()}, h100, func(b gputrain.BakedImage) {
		if all := f.everything(); len(all) != 1 || all[0].Name != b.Name {
			t.Errorf("beside the image there is %+v", all)
		}
		if b.Region != "CANADA-1" || b.Arch != "amd64" || b.Base != "the newest Ubuntu of ubuntu" || b.ID != b.Name || b.SizeGiB != 100 {
			t.Errorf("the image is %+v", b)
		}
		d := cloudtest.Open(t, f.config())
		q := h100.Query()
		q.Baked = b.Key
		for _, o := range cloudtest.AllOffers(t, d, q) {
			if (o.Baked == b.ID) != (o.Region == "CANADA-1") {
				t.Errorf("an offer in %s starts from %q", o.Region, o.Baked)
			}
		}
	})
	if all := f.everything(); len(all) != 0 {
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
		"lost answer":     {fault: fakecloud.Fault{Op: opSnapshot, After: true, Cut: true}},
		"no effect":       {fault: fakecloud.Fault{Op: opSnapshot, Cut: true, Times: 9}, kind: driver.ErrUnavailable},
		"lists that fail": {fault: fakecloud.Fault{Op: opSnapshots, Answer: fakecloud.Failure(503, "", ""), Times: 3}},
		"lost image":      {fault: fakecloud.Fault{Op: opMakeImage, After: true, Cut: true}},
		"image refused":   {fault: fakecloud.Fault{Op: opMakeImage, Answer: refuse(401, "unauthorized", "Unauthorized")}, kind: driver.ErrAuth, left: true},
		"failed":          {change: func(f *fake) { f.snapFails = true }, left: true},
		"machine gone":    {change: func(f *fake) { f.machines.Delete(nil, f.onlyMachine()) }, kind: driver.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := startFake(t)
			f.noMachines = true
			d := cloudtest.Open(t, f.config()).(*hyperstackDriver)
			req := cloudtest.BakeRequest(t, d, h100.Query())
			f.Do(func() {
				if tt.change != nil {
					tt.change(f)
				}
			})
			if tt.fault.Op != "" {
				f.Inject(tt.fault)
			}
			cloudtest.BakeCheck{
				Driver: d, Request: req, Kind: tt.kind, Left: tt.left, Reason: "ERROR",
				Count: func() int { return f.count("image") }, Listed: func(r driver.Resource) bool { return !r.Created.IsZero() },
			}.Run(t)
		})
	}
}

func (f *fake) onlyMachine() string {
	for _, r := range f.machines.All(nil) {
		return fmt.Sprint(r.row["id"])
	}
	return ""
}

func (f *fake) count(kind string) (n int) {
	for _, r := range f.everything() {
		if r.Kind == kind {
			n++
		}
	}
	return n
}
