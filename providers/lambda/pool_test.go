package lambda

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A pool works from Open to an empty account, with real SSH nodes.
func TestPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), oneA10, func(pool *gputrain.Compute) {
		for _, n := range pool.Nodes() {
			if usd, known := n.HourlyUSD.USD(); !known || usd != 0.75 || n.InstanceType != "gpu_1x_a10" {
				t.Errorf("%+v", n)
			}
		}
	})
	cloudtest.Empty(t, f.account())
}

// A pool is left only if asked twice: nothing but its program ends its machines. It is taken up again at once.
func TestDetach(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	spec := oneA10
	spec.Concurrency = 2
	cloudtest.Detach(t, cloudtest.Dialed(f.config()), spec, "cannot end itself, and there is no guardian")
	cloudtest.Empty(t, f.account())
}

// A pool whose calls fail in many ways still opens and closes, and makes nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, fault := range []fakecloud.Fault{
		{Op: opTypes, Answer: failure(500, "global/internal-error", "oops")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opLaunch, After: true, Answer: fakecloud.HTML()},
		{Op: opLaunch, Answer: failure(400, "instance-operations/launch/insufficient-capacity", "Not enough capacity to fulfill launch request.")},
		{Op: opLaunch, Answer: fakecloud.Failure(429, "Too Many Requests", "")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opTerminate, After: true, Cut: true},
		{Op: opTerminate, Answer: fakecloud.Failure(502, "<html>Bad Gateway</html>", "")},
		{Op: opDelKey, Cut: true},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), oneA10, func(*gputrain.Compute) {
		if all := f.account(); len(all) != 3 { // two machines and a key
			t.Errorf("%+v", all)
		}
	})
	cloudtest.Empty(t, f.account())
}

// A machine that comes up unhealthy, as GH200s do, is ended and replaced.
func TestUnhealthyBootIsReplaced(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.unhealthy = 1
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), oneA10, func(*gputrain.Compute) {
		if n := len(f.launched()); n != 2 {
			t.Errorf("%d machines exist", n)
		}
	})
	if n := len(f.Records(opLaunch)); n != 3 {
		t.Errorf("%d launches", n)
	}
	cloudtest.Empty(t, f.account())
}

// A preempted machine that Lambda does not find at its termination is gone, though it is still
// listed: the pool ends without a leak, and its key is removed.
func TestPreemptedMachineThatIsNotFound(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]fakecloud.Fault{
		"not found": {Missing: true}, "nothing ended": {Answer: data(row{"terminated_instances": []row{}})},
	} {
		f := startFake(t)
		pool, err := gputrain.Open(t.Context(), cloudtest.Dialed(f.config()), oneA10, gputrain.WithStateDir(t.TempDir()))
		if err != nil {
			t.Fatal(err)
		}
		defer pool.Close()
		f.set(pool.Nodes()[0].ID, row{"status": "preempted"})
		fault.Op, fault.Times = opTerminate, -1
		f.Inject(fault)
		if err := pool.Close(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range f.account() {
			if r.Kind == "key" {
				t.Errorf("%s: left: %+v", name, r)
			}
		}
	}
}
