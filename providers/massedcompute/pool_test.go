package massedcompute

import (
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A spot machine that vanishes was preempted, and is replaced.
func TestSpotMachineThatVanishesIsReplaced(t *testing.T) {
	standard.Replaced(t, gputrain.Spec{Accelerator: oneL40.Accelerator, Allocation: driver.Spot}, func(f *fake, id string) {
		f.Do(func() { f.end(nil, id) })
	})
}

// A product whose machines fail is avoided, though their region is known only once they exist.
func TestProductThatFailsIsAvoided(t *testing.T) {
	standard.Pool(t, cloudtest.Pool[*fake]{
		Before: func(f *fake) {
			f.offer("gpu_1x_l40_high_ram", "1x L40 (48GB)", 90, 2)
			f.failing = "gpu_1x_l40"
		},
		After: func(t *testing.T, f *fake) {
			if n := len(f.Records(opLaunch)); n != 4 { // two that failed, and two in their place
				t.Errorf("%d launches", n)
			}
		},
	})
}
