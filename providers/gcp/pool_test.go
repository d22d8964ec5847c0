package gcp

import (
	"errors"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloudtest"
)

// A pool whose calls fail in many ways still opens and closes, and makes nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	for _, fault := range []fakecloud.Fault{
		{Op: opTypes, Answer: fakecloud.Failure(503, "", "")},
		{Op: opSKUs, Answer: fakecloud.GoogleError(403, "forbidden", "Cloud Billing API has not been used")},
		{Op: opAddRule, After: true, Cut: true},
		{Op: opInsert, After: true, Answer: fakecloud.HTML()},
		{Op: opInsert, Answer: fakecloud.GoogleError(403, "rateLimitExceeded", "Rate Limit Exceeded")},
		{Op: opZoneOp, Answer: fakecloud.Garbage()},
		{Op: opGet, Answer: fakecloud.GoogleError(500, "internalError", "Internal error")},
		{Op: opKeys, Cut: true},
		{Op: opDelete, Answer: fakecloud.GoogleError(400, "resourceNotReady", "The resource is not ready")},
		{Op: opDelete, After: true, Cut: true},
		{Op: opDelRule, After: true, Answer: fakecloud.Failure(502, "", "")},
	} {
		f.Inject(fault)
	}
	pool, err := gputrain.Open(t.Context(), dialed{f.config()}, gputrain.Spec{Accelerator: accelerators.L4(), Nodes: 2}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if results, err := pool.Broadcast(gputrain.Cmd("true")); err != nil || len(results) != 2 {
		t.Errorf("%v, %v", results, err)
	}
	if live := f.live(); len(live) != 4 { // two nodes and two rules
		t.Errorf("%v", live)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// If one zone has no capacity, the next zone is used.
func TestPoolInTheNextZone(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	f.emptyZone = testZone
	cfg := f.config()
	cfg.Region = "us-central1"
	pool, err := gputrain.Open(t.Context(), dialed{cfg}, gputrain.Spec{Accelerator: accelerators.L4(accelerators.Count(2))}, gputrain.WithStateDir(t.TempDir()))
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
	_, err := gputrain.Open(t.Context(), dialed{f.config()}, oneL4, gputrain.WithStateDir(t.TempDir()))
	if !errors.Is(err, driver.ErrQuota) {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// A spot node that Google takes back is replaced, and nothing is left.
func TestPreemptedNodeIsReplaced(t *testing.T) {
	t.Parallel()
	f := startFake(t)
	cloudtest.Replaced(t, dialed{f.config()}, gputrain.Spec{Accelerator: accelerators.L4(), Allocation: driver.Spot}, f.preempt)
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}
