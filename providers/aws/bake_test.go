package aws

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestBaking(t *testing.T) {
	standard.Baking(t, func(f *fake) { f.amiDelay = 3 }, func(t *testing.T, _ *fake, b gputrain.BakedImage) {
		if b.Region != "us-east-1" || b.Arch != "amd64" || b.Base != parameter("24.04", "amd64", plain) || !strings.HasPrefix(b.ID, "ami-") {
			t.Errorf("the image is %+v", b)
		}
		if usd, _ := b.MonthlyUSD(); !near(usd, b.SizeGiB*0.05) {
			t.Errorf("%v GiB cost $%v a month", b.SizeGiB, usd)
		}
	})
}

// bakeRequest returns a driver of a fake without machines, and a request for an image of a machine.
func bakeRequest(t *testing.T, f *fake) (*awsDriver, driver.Bake) {
	t.Helper()
	f.noMachines = true
	d := f.open()
	return d, cloudtest.BakeRequest(t, d, gputrain.Spec{}.Query())
}

func TestBakeUnderFaults(t *testing.T) {
	listed := func(_ driver.Bake, r driver.Resource) bool { return r.Region == "us-east-1" }
	standard.BakeUnderFaults(t, "the snapshot failed", listed, map[string]cloudtest.BakeFault[*fake]{
		"slow":               {Change: func(f *fake) { f.amiDelay = 20 }},
		"lost answer":        {Fault: fakecloud.Fault{Op: "CreateImage", After: true, Cut: true}},
		"no effect":          {Fault: fakecloud.Fault{Op: "CreateImage", Cut: true}, Kind: driver.ErrUnavailable},
		"lists that fail":    {Fault: fakecloud.Fault{Op: "DescribeImages", Answer: fakecloud.Failure(503, "", ""), Times: 20}},
		"lost mark":          {Fault: fakecloud.Fault{Op: "CreateTags", After: true, Cut: true, Times: 9}},
		"mark refused":       {Fault: fakecloud.Fault{Op: "CreateTags", Answer: denial("CreateTags")}, Kind: driver.ErrAuth, Left: true},
		"failed":             {Change: func(f *fake) { f.amiFails = true }, Left: true},
		"quota":              {Change: func(f *fake) { f.foreignImage(); f.amiQuota = 1 }, Kind: driver.ErrQuota},
		"permission missing": {Change: func(f *fake) { f.denied["CreateImage"] = true }, Kind: driver.ErrAuth},
	})
}

// Another image of the configuration is another base, and another region's, accelerator's or user's is too.
func TestBase(t *testing.T) {
	t.Parallel()
	h := func(i *images, o driver.Offer) string { return i.base(o) }
	gpu := driver.Offer{Accelerator: a10g.Accelerator, Arch: "amd64"}
	seen := map[string]bool{}
	for _, base := range []string{
		h(&images{ubuntu: "24.04"}, driver.Offer{Arch: "amd64"}), h(&images{ubuntu: "22.04"}, driver.Offer{Arch: "amd64"}), h(&images{ubuntu: "24.04"}, driver.Offer{Arch: "arm64"}),
		h(&images{ubuntu: "24.04"}, gpu), h(&images{ami: "ami-1", ubuntu: "24.04"}, gpu), h(&images{ubuntu: "24.04", username: "me"}, gpu),
	} {
		if base == "" || seen[base] {
			t.Errorf("the base %q comes twice", base)
		}
		seen[base] = true
	}
	if h(&images{ubuntu: "24.04"}, driver.Offer{}) != h(&images{ubuntu: "24.04"}, driver.Offer{Arch: "amd64"}) {
		t.Error("an unknown architecture is another base")
	}
}

// A snapshot that has outlived its AMI is deleted by DeleteBaked, also if the AMI is gone already. Without that, List has
// it as its pool's, and Release deletes it.
func TestSnapshotsWithoutAnImage(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d, req := bakeRequest(t, f)
	deregister := func(id string) { f.Do(func() { f.amis.Delete(nil, id) }) }
	snapshots := func() (left []driver.Resource) {
		for _, id := range []string{"", req.Pool.ID, "p1"} {
			all, err := d.List(t.Context(), id)
			if err != nil {
				t.Error(err)
			}
			all = slices.DeleteFunc(all, func(r driver.Resource) bool { return r.Kind != kindSnapshot })
			if id == "p1" && len(all) != 0 || id == req.Pool.ID && len(all) != len(left) {
				t.Errorf("List of %q has %+v", id, all)
			}
			if id == "" {
				left = all
			}
		}
		return left
	}
	bake := func() string {
		b, err := d.Bake(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if left := snapshots(); len(left) != 0 {
			t.Errorf("beside the image there is %+v", left)
		}
		return b.ID
	}
	for _, gone := range []bool{false, true} {
		id := bake()
		f.Do(func() { f.snapsStay = true })
		if gone {
			deregister(id)
		}
		if err := d.DeleteBaked(t.Context(), id, "ami-0123456789"); err != nil {
			t.Error(err)
		}
		f.Do(func() {
			if left := f.snapshots.All(nil); len(left) != 0 {
				t.Errorf("DeleteBaked has left %v", left)
			}
		})
	}
	deregister(bake())
	left := snapshots()
	if len(left) != 1 || left[0].Pool != req.Pool.ID || left[0].Name != req.Name || left[0].Created.IsZero() {
		t.Errorf("List has %+v", left)
	} else if usd, known := left[0].HourlyUSD.USD(); !known || usd <= 0 {
		t.Errorf("it costs %v", left[0].HourlyUSD)
	}
	req.Name += "-b"
	kept, err := d.Bake(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Terminate(t.Context(), req.Instance.ID), d.Release(t.Context(), req.Pool)); err != nil {
		t.Error(err)
	}
	f.Do(func() {
		if left := f.snapshots.All(nil); len(left) != 1 || f.imageWith(left[0]["SnapshotId"]).row["ImageId"] != kept.ID {
			t.Errorf("Release has left %v beside the image %s", left, kept.ID)
		}
	})
}
