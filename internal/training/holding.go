package training

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
)

// A holding is the nodes that a training has.
type holding struct {
	mu    sync.Mutex
	nodes []Node
}

// grow waits until the training has so many nodes of a pool.
func (h *holding) grow(ctx context.Context, from Pool, nodes int) ([]Node, error) {
	all, err := from.Grow(ctx, nodes)
	if err == nil {
		h.mu.Lock()
		h.nodes = slices.Clone(all)
		h.mu.Unlock()
	}
	return all, err
}

func (h *holding) drop(n Node) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.nodes = slices.DeleteFunc(h.nodes, func(had Node) bool { return had == n })
}

// Answering returns what reports whether all nodes that a training has answer before ctx ends, but for those that are given up.
func Answering(t *Training) func(ctx context.Context) bool {
	return func(ctx context.Context) bool { return answer(ctx, t) }
}

func answer(ctx context.Context, t *Training) bool {
	t.held.mu.Lock()
	nodes := slices.Clone(t.held.nodes)
	t.held.mu.Unlock()
	var silent atomic.Bool
	var asked sync.WaitGroup
	for _, n := range nodes {
		asked.Go(func() {
			if n.Context().Err() == nil && !n.Answers(ctx) {
				silent.Store(true)
			}
		})
	}
	asked.Wait()
	return !silent.Load()
}
