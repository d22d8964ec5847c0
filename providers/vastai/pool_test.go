package vastai

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/fakecloud"
)

// A pool whose calls fail in every way that they can opens and closes all the same, and
// has made nothing twice.
func TestPoolUnderFaults(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil, nil, nil)
	for _, fault := range []fakecloud.Fault{
		{Op: opSearch, Answer: fakecloud.Failure(503, "", "")},
		{Op: opAddKey, After: true, Cut: true},
		{Op: opCreate, After: true, Cut: true},
		{Op: opCreate, Answer: fakecloud.Failure(410, row{"success": false, "error": "no_such_ask", "msg": "error 410/3907: no_such_ask Instance type 1 is no longer available."}, "")},
		{Op: opList, Lag: fakecloud.Lag{Calls: 2}, Times: 2},
		{Op: opShow, Answer: fakecloud.Garbage()},
		{Op: opDestroy, Answer: fakecloud.Failure(429, "API requests too frequent: endpoint threshold=0.2", "")},
		{Op: opDestroy, After: true, Cut: true},
		{Op: opDelKey, Answer: fakecloud.Failure(502, "", "")},
	} {
		f.Inject(fault)
	}
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{Nodes: 2}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if results, err := pool.Broadcast(gputrain.Cmd("true")); err != nil || len(results) != 2 {
		t.Errorf("%v, %v", results, err)
	}
	if n := len(f.live()); n != 3 {
		t.Errorf("%v", f.live())
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}

// A pool's network is made before its first node, and removed after its last.
func TestPoolOnAnOverlay(t *testing.T) {
	t.Parallel()
	f := startFake(t, row{"cluster_id": 42}, row{"cluster_id": 42}, nil)
	cfg := f.config()
	cfg.UseOverlay = true
	pool, err := gputrain.Open(t.Context(), cfg, gputrain.Spec{Nodes: 2}, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if live := f.live(); len(live) != 4 || live[3] != "network gputrain-"+pool.ID() {
		t.Errorf("%v", live)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
	ends, removed := f.Records(opDestroy), f.Records(opDelNet)
	if len(removed) != 1 || len(ends) != 2 || removed[0].N < ends[1].N {
		t.Errorf("the network was removed before its nodes: %v, %v", removed, ends)
	}
}

// A node that is outbid is stopped, and its disk billed: it is destroyed, and another
// takes its place.
func TestOutbidNodeIsDestroyedAndReplaced(t *testing.T) {
	t.Parallel()
	f := startFake(t, nil, nil)
	lost := make(chan struct{}, 8)
	pool, err := gputrain.Open(t.Context(), f.config(), gputrain.Spec{Allocation: gputrain.Spot}, gputrain.WithStateDir(t.TempDir()),
		gputrain.WithEvents(func(e gputrain.Event) {
			if e.State == gputrain.NodeLost.String() {
				lost <- struct{}{}
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	first := pool.Nodes()[0].ID
	f.set(first, row{"actual_status": "exited", "intended_status": "stopped", "cur_state": "stopped", "next_state": "stopped"})
	f.machine(first).Kill()
	select {
	case <-lost:
	case <-time.After(patience):
		t.Fatal("nobody notices")
	}
	if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
		t.Error(err)
	}
	if now := pool.Nodes()[0].ID; now == first {
		t.Error("the node is still the first machine")
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if live := f.live(); len(live) != 0 {
		t.Errorf("left: %v", live)
	}
}
