package hyperstack

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

func TestBroadcast(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), h100, func(pool *gputrain.Compute) {
		if n := f.kinds(); n["machine"] != 2 || n["environment"] != 1 || n["key"] != 1 {
			t.Errorf("%v", n)
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
		{Op: opFlavors, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddEnv, After: true, Cut: true},
		{Op: opAddKey, After: true, Answer: fakecloud.HTML()},
		{Op: opSubnet, Answer: fakecloud.Failure(502, "", "")},
		{Op: opCreate, After: true, Cut: true},
		{Op: opMachines, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opMachine, Answer: fakecloud.Failure(429, "", "")},
		{Op: opDelete, Answer: refuse(400, "bad_request", "Virtual machine is currently being created and cannot be deleted yet")},
		{Op: opDelete, After: true, Cut: true},
		{Op: opDelEnv, Answer: refuse(400, "bad_request", "Environment has virtual machines")},
		{Op: opDelEnv, After: true, Cut: true},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), h100, func(*gputrain.Compute) {
		if n := f.kinds(); n["machine"] != 2 || n["environment"] != 1 || n["key"] != 1 {
			t.Errorf("%v", n)
		}
	})
	if left := f.everything(); len(left) > 0 {
		t.Errorf("left: %+v", left)
	}
}
