package market

import (
	"context"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
)

// Nodes that want a machine within gatherFor of the first are gathered.
const gatherFor = 20 * time.Millisecond

// A Gathering collects nodes that want a machine at the same time, so that one purchase serves
// them all. Its zero value is ready to use.
type Gathering[N any] struct {
	mu    sync.Mutex
	nodes []N // guarded by mu
}

// Add adds a node. The first caller blocks for a moment, or until ctx ends, and gets all nodes
// that were added meanwhile, its own among them. The other callers get none.
func (g *Gathering[N]) Add(ctx context.Context, node N) []N {
	g.mu.Lock()
	g.nodes = append(g.nodes, node)
	first := len(g.nodes) == 1
	g.mu.Unlock()
	if !first {
		return nil
	}
	retry.Sleep(ctx, gatherFor)
	g.mu.Lock()
	defer g.mu.Unlock()
	nodes := g.nodes
	g.nodes = nil
	return nodes
}
