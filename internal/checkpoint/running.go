package checkpoint

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Running are the keepers of the tasks that run on one node. The zero value has none.
type Running struct {
	mu    sync.Mutex
	nodes map[*Keeper]Node
	calls map[*func(left time.Duration, spared bool)]bool
}

// Add adds a keeper, with what its task has of the node.
func (r *Running) Add(k *Keeper, n Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.nodes == nil {
		r.nodes = map[*Keeper]Node{}
	}
	r.nodes[k] = n
}

// Announce calls f with the end of the node, when it is announced or taken back, until stop is called.
func (r *Running) Announce(f func(left time.Duration, spared bool)) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.calls == nil {
		r.calls = map[*func(time.Duration, bool)]bool{}
	}
	r.calls[&f] = true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.calls, &f)
	}
}

// Remove removes a keeper, which may be nil, once its task has ended on the node.
func (r *Running) Remove(k *Keeper) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.nodes, k)
}

// Notice announces the node's end to all tasks. A task that cannot be told goes on.
func (r *Running) Notice(ctx context.Context, left time.Duration) {
	r.each(func(k *Keeper, n Node) { _ = k.Notice(ctx, []Node{n}, left) }, left, false)
}

// Spared takes a Notice back.
func (r *Running) Spared(ctx context.Context) {
	r.each(func(k *Keeper, n Node) { _ = k.Spared(ctx, []Node{n}) }, 0, true)
}

func (r *Running) each(do func(*Keeper, Node), left time.Duration, spared bool) {
	r.mu.Lock()
	nodes, calls := maps.Clone(r.nodes), maps.Clone(r.calls)
	r.mu.Unlock()
	var told sync.WaitGroup
	for call := range calls {
		told.Go(func() { (*call)(left, spared) })
	}
	for k, n := range nodes {
		told.Go(func() { do(k, n) })
	}
	told.Wait()
}
