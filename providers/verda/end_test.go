package verda

import (
	"slices"
	"testing"

	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A machine that is being provisioned cannot be deleted: the call is repeated until it
// succeeds.
func TestEndWhileProvisioning(t *testing.T) {
	t.Parallel()
	f := still(t)
	f.status, f.busy = "provisioning", 3
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	if err := d.Terminate(t.Context(), in.ID); err != nil || len(f.Records(opAct)) != 4 {
		t.Errorf("%v after %d calls", err, len(f.Records(opAct)))
	}
	f.Do(func() { f.busy = 1000 })
	in = cloudtest.MustLaunch(t, d, driver.Query{}, 1)
	err := d.Terminate(t.Context(), in.ID)
	cloudtest.Is(t, err, driver.ErrUnavailable, "verda", "terminate") // though it is a 403
}

// The delete names the system volume, which may otherwise stay. A volume that a user attached
// stays.
func TestEndTakesTheVolume(t *testing.T) {
	t.Parallel()
	f := still(t)
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	const data = "e8d5d4f0-1111-4222-8333-444455556666"
	f.Do(func() { f.volumes.Put(nil, data, volumeRow(data, "data", "attached", nil)) })
	f.set(in.ID, row{"volume_ids": []string{data}})
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Fatal(err)
	}
	f.Do(func() {
		if all := f.volumes.All(nil); len(all) != 1 || all[0]["id"] != data {
			t.Errorf("%v", all)
		}
	})
	in = cloudtest.MustLaunch(t, d, driver.Query{}, 1)
	f.set(in.ID, row{"os_volume_id": "a-volume-that-is-gone"}) // must not keep the machine alive
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	if now := cloudtest.Describe(t, d, in.ID); now.State != driver.InstanceTerminated {
		t.Errorf("%v", now.State)
	}
}

// If the first answer to a deletion is lost, the last one counts.
func TestDeletionsWhoseAnswersAreLost(t *testing.T) {
	t.Parallel()
	f := still(t)
	f.leaves = "detached"
	d := cloudtest.Prepared(t, f.config())
	in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
	if err := d.Terminate(t.Context(), in.ID); err != nil {
		t.Error(err)
	}
	f.Inject(fakecloud.Fault{Op: opDelVolume, After: true, Cut: true})
	f.Inject(fakecloud.Fault{Op: opDelKey, After: true, Cut: true})
	if err := d.Release(t.Context(), cloudtest.Info("p1")); err != nil {
		t.Error(err)
	}
	if left := f.everything(); len(left) != 0 {
		t.Errorf("%v", left)
	}
}

// Volumes that outlive their machines are listed, also from the trash, and are deleted
// permanently.
func TestLeftoverVolumes(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"detached", "detaching", "created", "deleted"} {
		f := still(t)
		f.leaves = status
		foreign := f.foreign()
		d := cloudtest.Prepared(t, f.config())
		in := cloudtest.MustLaunch(t, d, driver.Query{}, 0)
		if err := d.Terminate(t.Context(), in.ID); err != nil {
			t.Fatal(err)
		}
		other := cloudtest.Open(t, f.config())
		list, err := other.List(t.Context(), "p1")
		i := slices.IndexFunc(list, func(r driver.Resource) bool { return r.Kind == "volume" })
		if err != nil || i < 0 || list[i].Name != "gputrain-p1-0-os" || list[i].Pool != "p1" || list[i].Owner == "" || list[i].HourlyUSD != driver.USD(0.0274) {
			t.Errorf("%s: %+v, %v", status, list, err)
		}
		f.Do(func() { // without tags its name identifies it
			for _, v := range f.volumes.All(nil) {
				v["tags"] = nil
			}
		})
		if err := other.Release(t.Context(), cloudtest.Info("p1")); err != nil {
			t.Error(err)
		}
		if left := f.everything(); len(left) != len(foreign) {
			t.Errorf("%s: %v", status, left)
		}
	}
}

// A discontinued spot machine was preempted. One that this driver deleted, or an on-demand
// one, is gone, though the API still reports it. Ending it deletes its leftover volume.
func TestDiscontinued(t *testing.T) {
	t.Parallel()
	f := still(t)
	f.lingers, f.leaves = true, "detached"
	d := cloudtest.Prepared(t, f.config())
	spot := cloudtest.MustLaunch(t, d, driver.Query{Allocation: driver.Spot}, 0)
	f.set(spot.ID, row{"status": "discontinued"})
	f.Do(func() {
		r, _ := f.instances.Get(nil, spot.ID)
		f.setVolume(r.row["os_volume_id"].(string), "detached")
	})
	if now := cloudtest.Describe(t, d, spot.ID); now.State != driver.InstancePreempted {
		t.Errorf("%v", now.State)
	}
	mine := cloudtest.MustLaunch(t, d, driver.Query{Allocation: driver.Spot}, 1)
	if err := d.Terminate(t.Context(), spot.ID, mine.ID); err != nil {
		t.Fatal(err)
	}
	if err := d.Terminate(t.Context(), mine.ID); err != nil { // and now its volume
		t.Error(err)
	}
	for _, id := range []string{spot.ID, mine.ID} {
		if now := cloudtest.Describe(t, d, id); now.State != driver.InstanceTerminated {
			t.Errorf("%v", now.State)
		}
	}
	if left := f.everything(); len(left) != 1 || left[0].Kind != "key" {
		t.Errorf("%v", left)
	}
}
