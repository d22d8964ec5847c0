package massedcompute

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A pool works from Open to an empty account, with real SSH nodes.
func TestPool(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), oneL40, func(pool *gputrain.Compute) {
		for _, n := range pool.Nodes() {
			if usd, known := n.HourlyUSD.USD(); !known || usd != 0.86 || n.InstanceType != "gpu_1x_l40" || n.Region != "us-central-1" {
				t.Errorf("%+v", n)
			}
		}
	})
	cloudtest.Empty(t, f.account())
}

// A pool whose calls fail in many ways still opens and closes, and makes nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, fault := range []fakecloud.Fault{
		{Op: opInventory, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opLaunch, After: true, Cut: true},
		{Op: opLaunch, Answer: failure(400, "no capacity available")},
		{Op: opLaunch, Answer: fakecloud.Failure(429, "Too Many Requests", "")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opTerminate, After: true, Cut: true},
		{Op: opTerminate, Answer: fakecloud.HTML()},
		{Op: opDelKey, Answer: fakecloud.Failure(502, "", "")},
	} {
		f.Inject(fault)
	}
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), oneL40, func(*gputrain.Compute) {
		if all := f.account(); len(all) != 3 { // two machines and a key
			t.Errorf("%+v", all)
		}
	})
	cloudtest.Empty(t, f.account())
}

// A spot machine that vanishes was preempted, and is replaced.
func TestSpotMachineThatVanishesIsReplaced(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Replaced(t, cloudtest.Dialed(f.config()), gputrain.Spec{Accelerator: oneL40.Accelerator, Allocation: driver.Spot}, func(id string) {
		f.Do(func() { f.end(nil, id) })
	})
	cloudtest.Empty(t, f.account())
}

// A product whose machines fail is avoided, though their region is known only once they exist.
func TestProductThatFailsIsAvoided(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.offer("gpu_1x_l40_high_ram", "1x L40 (48GB)", 90, 2)
	f.failing = "gpu_1x_l40"
	cloudtest.Broadcast(t, cloudtest.Dialed(f.config()), oneL40, nil)
	if n := len(f.Records(opLaunch)); n != 4 { // two that failed, and two in their place
		t.Errorf("%d launches", n)
	}
	cloudtest.Empty(t, f.account())
}
