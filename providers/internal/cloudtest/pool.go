package cloudtest

import (
	"maps"
	"testing"

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
	Broadcast(t, c.provider(f), c.Spec, func(pool *gputrain.Compute) {
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
	})
	if left := c.kinds(f); !maps.Equal(left, others) {
		t.Errorf("left: %+v", c.Account(f))
	}
	if p.After != nil {
		p.After(t, f)
	}
}
