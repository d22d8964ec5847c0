package massedcompute

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A spot machine that vanishes was preempted, and is replaced.
func TestSpotMachineThatVanishesIsReplaced(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Replaced(t, standard.Reached(f.config()), gputrain.Spec{Accelerator: oneL40.Accelerator, Allocation: driver.Spot}, func(id string) {
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
	cloudtest.Broadcast(t, standard.Reached(f.config()), oneL40, nil)
	if n := len(f.Records(opLaunch)); n != 4 { // two that failed, and two in their place
		t.Errorf("%d launches", n)
	}
	cloudtest.Empty(t, f.account())
}
