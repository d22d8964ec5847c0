package runpod

import (
	"strings"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
)

// A plan says that offers which global networking joins have a private network, and how slow it is. Nodes are rented with
// it, and have addresses on it. Members of a cluster have a faster one.
func TestPrivateNetworkIsGlobalNetworking(t *testing.T) {
	f := startFake(t)
	spec := gputrain.Spec{Accelerator: accelerators.H100(), Nodes: 2, Network: gputrain.NetworkPrivate}
	plan, err := gputrain.Plan(t.Context(), f.config(), spec)
	if err != nil || len(plan) == 0 {
		t.Fatalf("%+v, %v", plan, err)
	}
	if best := plan[0]; best.Rejected != "" || !strings.Contains(strings.Join(best.Warnings, "\n"), "100 Mbit/s") {
		t.Errorf("%+v", best)
	}
	pool, err := gputrain.Open(t.Context(), f.config(), spec, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, n := range pool.Nodes() {
		if !strings.HasPrefix(n.PrivateAddr, "10.1.2.") {
			t.Errorf("%+v", n)
		}
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	cluster := f.config()
	cluster.ClusterMode = Instant
	plan, err = gputrain.Plan(t.Context(), cluster, spec)
	if err != nil || len(plan) == 0 || plan[0].Rejected != "" || strings.Contains(strings.Join(plan[0].Warnings, "\n"), "100 Mbit/s") {
		t.Errorf("%+v, %v", plan, err)
	}
}
