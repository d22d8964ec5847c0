//go:build unix

package gputrain_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/container"
)

// Streams go on over a link that is cut again and again: nothing is lost,
// nothing comes twice, and the function runs once.
func streamsOverALinkThatIsCut(t *testing.T) {
	h := newHost(t)
	pool := openHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	journal := filepath.Join(t.TempDir(), "journal")
	const n, every = 3000, 500
	i := 0
	for v, err := range counter.Run(pool, countTo{N: n, Journal: journal}) {
		if err != nil || v != i {
			t.Fatalf("%d: %d, %v", i, v, err)
		}
		if i++; i%every == 0 {
			h.link.Cut()
		}
	}
	if b, _ := os.ReadFile(journal); i != n || string(b) != "over: <nil>\n" {
		t.Errorf("%d values; it says %q", i, b)
	}
	i = 0
	for v, err := range squares.Run(pool, func(yield func(int) bool) {
		for j := range n {
			if j%every == every/2 {
				h.link.Cut()
			}
			if !yield(j) {
				return
			}
		}
	}) {
		if err != nil || v != i*i {
			t.Fatalf("%d: %d, %v", i, v, err)
		}
		i++
	}
	if i != n {
		t.Errorf("%d squares", i)
	}
	i = 0
	for block, err := range blocks.Run(pool, 12) {
		if err != nil || len(block) != 1<<20 || block[0] != float32(i) {
			t.Fatalf("block %d: %d numbers, %v", i, len(block), err)
		}
		if i++; i%3 == 0 {
			h.link.CutAfter(1 << 20)
		}
	}
	if i != 12 {
		t.Errorf("%d blocks", i)
	}
}

// settler yields where it runs: at once, or only from its second attempt on.
var settler = gputrain.GeneratorFunc("stream/settler", func(ctx context.Context, patient bool, yield func(int) bool) error {
	n := gputrain.ThisNode(ctx)
	if patient && n.Attempt == 1 {
		fmt.Println("here is", n.NodeRank)
		<-ctx.Done()
		return ctx.Err()
	}
	yield(n.NodeRank)
	if !patient {
		<-ctx.Done()
	}
	return ctx.Err()
})

// A stream on a node that is lost starts again elsewhere only if nothing of it
// has been seen.
func streamOnALostContainer(t *testing.T) {
	started := make(chan int, 10)
	pool := openContainers(t, container.Config{}, gputrain.Spec{Nodes: 3, MaxReplacements: -1}, gputrain.WithEvents(func(e gputrain.Event) {
		if e.Kind == gputrain.EventTask && e.State == "started" {
			started <- e.Node
		}
	}))
	nodes := pool.Nodes()
	n := 0
	var last error
	for rank, err := range settler.Run(pool, false) {
		if last = err; err != nil {
			break
		}
		if n++; n == 1 {
			<-started
			docker(t, "kill", nodes[rank].ID)
		}
	}
	if n != 1 || !errors.Is(last, gputrain.ErrNodeLost) {
		t.Errorf("%d values, %v", n, last)
	}
	var killing sync.WaitGroup
	killing.Go(func() { docker(t, "kill", nodes[<-started].ID) })
	got, err := gather(settler.Run(pool, true))
	if again := <-started; len(got) != 1 || err != nil || got[0] != again {
		t.Errorf("%v, %v; it was started again on node %d", got, err, again)
	}
	killing.Wait()
}
