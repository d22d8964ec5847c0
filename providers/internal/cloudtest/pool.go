package cloudtest

import (
	"context"
	"maps"
	"os"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/fakecloud"
)

// A Pool is a pool of two nodes in a fake.
type Pool[F Fake] struct {
	// Before prepares the fake, or is nil. What it puts into the account stays there.
	Before func(F)
	// Faults are those of its calls.
	Faults []fakecloud.Fault
	// Unpriced means that the nodes' prices are not known.
	Unpriced bool
	// Node has facts of each node, if it is not zero.
	Node Node
	// Open looks at the open pool, and After at the fake once it is closed, if they are not nil.
	Open  func(*testing.T, F, *gputrain.Compute)
	After func(*testing.T, F)
}

// A Node is what a pool reports of a node. Zero fields are not compared.
type Node struct {
	USD                  float64 // an hour
	InstanceType, Region string
}

// Pool opens a pool of two, with real SSH nodes, runs a command and a function on both, and closes it. It opens and closes
// whatever calls fail, makes nothing twice, and leaves nothing of its own. Each node has a type and a price.
func (c Cloud[F, C]) Pool(t *testing.T, p Pool[F]) {
	t.Parallel()
	f := c.Start(t)
	if p.Before != nil {
		p.Before(f)
	}
	others := c.kinds(f)
	for _, fault := range p.Faults {
		f.Inject(fault)
	}
	spec := c.Spec
	spec.Nodes = 2
	pool, err := gputrain.Open(t.Context(), c.provider(f), spec, gputrain.WithStateDir(t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	Use(t, pool)
	want := maps.Clone(c.Made)
	for kind, n := range others {
		want[kind] += n
	}
	if n := c.kinds(f); !maps.Equal(n, want) {
		t.Errorf("there are %v, want %v", n, want)
	}
	for _, n := range pool.Nodes() {
		if usd, known := n.HourlyUSD.USD(); (!known || usd <= 0) && !p.Unpriced || n.InstanceType == "" ||
			p.Node.USD != 0 && usd != p.Node.USD || p.Node.InstanceType != "" && n.InstanceType != p.Node.InstanceType || p.Node.Region != "" && n.Region != p.Node.Region {
			t.Errorf("%+v; want %+v", n, p.Node)
		}
	}
	if p.Open != nil {
		p.Open(t, f, pool)
	}
	if err := pool.Close(); err != nil {
		t.Error(err)
	}
	if left := c.kinds(f); !maps.Equal(left, others) {
		t.Errorf("left: %+v", c.Account(f))
	}
	if p.After != nil {
		p.After(t, f)
	}
}

// Replaced opens a pool of one, ends its machine by lose as the cloud would, and checks that the loss is noticed and another
// machine replaces it. Nothing is left when the pool is closed.
func (c Cloud[F, C]) Replaced(t *testing.T, spec gputrain.Spec, lose func(f F, id string)) {
	t.Parallel()
	f := c.Start(t)
	lost := make(chan struct{}, 8)
	pool, err := gputrain.Open(t.Context(), c.provider(f), spec, gputrain.WithStateDir(t.TempDir()), gputrain.WithEvents(func(e gputrain.Event) {
		if e.State == gputrain.NodeLost.String() {
			lost <- struct{}{}
		}
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	first := pool.Nodes()[0].ID
	lose(f, first)
	select {
	case <-lost:
	case <-time.After(5 * time.Minute):
		t.Fatal("the loss was not noticed")
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
	Empty(t, c.Account(f))
}

// Use runs a command and a function on each of a pool's two nodes, which are processes of their own.
func Use(t *testing.T, pool *gputrain.Compute) {
	t.Helper()
	results, err := pool.Broadcast(gputrain.Cmd("sh", "-c", "echo $GPUTRAIN_NODE_RANK"))
	if err != nil || len(results) != 2 || string(results[0].Stdout) != "0\n" || string(results[1].Stdout) != "1\n" {
		t.Errorf("commands: %v, %v", results, err)
	}
	all, err := whoAmI.Broadcast(pool, 40)
	if err != nil || len(all) != 2 || all[0].Sum != 40 || all[1].Sum != 41 || all[0].PID == all[1].PID || all[0].PID == os.Getpid() || all[1].PID == os.Getpid() {
		t.Errorf("functions: %v, %v", all, err)
	}
}

// A worker is where a function has run: a number and the node's rank, and the process.
type worker struct{ Sum, PID int }

var whoAmI = gputrain.Func("cloudtest.whoAmI", func(ctx context.Context, n int) (worker, error) {
	return worker{n + gputrain.ThisNode(ctx).Rank, os.Getpid()}, nil
})
