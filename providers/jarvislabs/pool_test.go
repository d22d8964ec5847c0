package jarvislabs

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestBroadcast(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Broadcast(t, f.config(), l4, func(*gputrain.Compute) {
		if n := len(f.everything()); n != 3 { // and the key
			t.Errorf("%+v", f.everything())
		}
	})
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}

// A pool whose calls fail in many ways still opens and closes, and makes nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, fault := range []fakecloud.Fault{
		{Op: opGroups, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: refuse(200, "Requested GPU is not available at the moment")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Reply(200, row{"success": false})},
		{Op: opDestroy, Answer: fakecloud.Failure(502, "", "")},
		{Op: opDestroy, After: true, Cut: true},
		{Op: opDelKey, After: true, Answer: fakecloud.Failure(500, "", "")},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, f.config(), l4, func(*gputrain.Compute) {
		if n := len(f.everything()); n != 3 {
			t.Errorf("%+v", f.everything())
		}
	})
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}
