package scaleway

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A volume outlives its server, takes time to be detached, and is found by its tags.
func TestVolumesAreDeletedToo(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.letGo = 5
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	list, err := d.List(t.Context(), "p1")
	if err != nil || len(list) != 2 || list[1].Kind != "volume" || list[1].Name != "p1-0" || list[1].Region != testZone {
		t.Errorf("%+v, %v", list, err)
	}
	if price, known := list[1].HourlyUSD.USD(); known {
		t.Errorf("a volume is said to cost %v", price)
	}
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
		t.Errorf("%v: %+v", err, f.account())
	}
	if n := len(f.Records(opDeleteVolume)); n != 6 {
		t.Errorf("%d attempts", n)
	}
}

// If a list has more volumes than requested, other users' volumes are not deleted.
func TestVolumesOfOthersStay(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.unfiltered = true
	others := f.foreign()
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.Do(func() { // a volume that a user attached
		volumes := f.servers.All(nil)[1].row["volumes"].(row)
		volumes["1"] = row{"id": strings.TrimPrefix(others[1], testZone+"/"), "volume_type": "sbs_volume", "zone": testZone}
	})
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if left := f.account(); len(left) != len(others) {
		t.Errorf("there is %+v", left)
	}
}

// If an end was interrupted between the server and its volume, another Terminate, or Release,
// deletes the volume.
func TestVolumeWithoutItsServer(t *testing.T) {
	t.Parallel()
	for name, finish := range map[string]func(d driver.Driver, id string) error{
		"terminate": func(d driver.Driver, id string) error { return d.Terminate(t.Context(), id) },
		"release":   func(d driver.Driver, _ string) error { return d.Release(t.Context(), cloudtest.Info("p1")) },
	} {
		f := startFake(t)
		d := cloudtest.Open(t, f.config())
		in, other := cloudtest.MustLaunch(t, d, l4.Query(), 0), cloudtest.MustLaunch(t, d, l4.Query(), 1)
		refused := f.Inject(fakecloud.Fault{Op: opDeleteVolume, Times: -1, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
		err := d.Terminate(t.Context(), in.ID)
		cloudtest.Is(t, err, driver.ErrAuth, "scaleway", "terminate", testKey)
		if err != nil && !strings.Contains(err.Error(), "remains and is billed") {
			t.Errorf("%s: %v", name, err)
		}
		refused.Remove()
		another := cloudtest.Open(t, f.config())
		if list, err := another.List(t.Context(), "p1"); err != nil || len(list) != 3 {
			t.Errorf("%s: %+v, %v", name, list, err)
		}
		if err := finish(another, in.ID); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if left := f.account(); len(left) != 2 || left[0].ID != other.ID {
			t.Errorf("%s: there is %+v", name, left)
		}
	}
}

// A running server is ended even if its volumes cannot be marked: they were marked at its
// start.
func TestEndWithoutTheMark(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.Inject(fakecloud.Fault{Op: opTagVolume, Times: -1, Answer: failure(403, "permissions_denied", "insufficient permissions", nil)})
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
		t.Errorf("%v: %+v", err, f.account())
	}
}

// A running server is terminated. A stopped one, for which the API refuses that, is deleted.
// One that is stopped in place is powered off first.
func TestEndOfAStoppedServer(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	for state, op := range map[string]string{"running": opAction, "stopped": opDelete, "stopped in place": opDelete} {
		in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
		f.set(in.ID, row{"state": state})
		before := len(f.Records(op))
		if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
			t.Errorf("%s: %v: %+v", state, err, f.account())
		}
		if len(f.Records(op)) != before+1 {
			t.Errorf("%s: not by %s", state, op)
		}
	}
}

// An end that is too early for the server's state is repeated.
func TestEndInATransientState(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	d := cloudtest.Open(t, f.config())
	in := cloudtest.MustLaunch(t, d, l4.Query(), 0)
	f.Inject(fakecloud.Fault{Op: opAction, Times: 2, Answer: failure(409, "transient_state", "resource is in a transient state", row{"current_state": "starting"})})
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.account()) > 0 {
		t.Errorf("%v: %+v", err, f.account())
	}
}
