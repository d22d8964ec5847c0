package vastai

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

// A pool's network is made before the first node and removed after the last. Nodes
// reach each other by it.
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
	master := map[string]bool{}
	results, err := pool.Broadcast(gputrain.Cmd("sh", "-c", "echo $GPUTRAIN_MASTER_ADDR"))
	if err != nil {
		t.Error(err)
	}
	for i, r := range results {
		master[strings.TrimSpace(string(r.Stdout))] = true
		if addr := pool.Nodes()[i].PrivateAddr; !strings.HasPrefix(addr, "10.0.0.") {
			t.Errorf("node %d has the private address %q", i, addr)
		}
	}
	if len(results) != 2 || len(master) != 1 || !master[pool.Nodes()[0].PrivateAddr] || pool.Nodes()[0].PrivateAddr == pool.Nodes()[1].PrivateAddr {
		t.Errorf("%v is the master of %+v", master, pool.Nodes())
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

// A node that is outbid is stopped, and its disk is billed. It is destroyed and
// replaced.
func TestOutbidNodeIsDestroyedAndReplaced(t *testing.T) {
	standard.Replaced(t, gputrain.Spec{Allocation: driver.Spot}, func(f *fake, id string) {
		f.set(id, row{"actual_status": "exited", "intended_status": "stopped", "cur_state": "stopped", "next_state": "stopped"})
		f.machine(id).Kill()
	})
}
