package gcp

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/providers/driver"
)

// If one zone has no capacity, the next zone is used.
func TestPoolInTheNextZone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.emptyZone = testZone
	cfg := f.config()
	cfg.Region = "us-central1"
	pool, err := gputrain.Open(t.Context(), standard.Reached(cfg), gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(2))}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if n := pool.Nodes()[0]; n.Region != otherZone {
		t.Errorf("%+v", n)
	}
	if err := pool.Close(); err != nil || len(f.live()) != 0 {
		t.Errorf("%v; left: %v", err, f.live())
	}
}

// A used-up quota is reported as ErrQuota.
func TestPoolWithoutQuota(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.room, f.stockout = 0, []row{{"code": "QUOTA_EXCEEDED", "message": "Quota 'GPUS_ALL_REGIONS' exceeded.  Limit: 0.0 globally."}}
	_, err := gputrain.Open(t.Context(), standard.Reached(f.config()), oneL4, gputrain.WithStateDir(t.TempDir()))
	if !errors.Is(err, driver.ErrQuota) {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// A spot node that Google takes back is replaced, and nothing is left.
func TestPreemptedNodeIsReplaced(t *testing.T) {
	standard.Replaced(t, gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}, (*fake).preempt)
}
