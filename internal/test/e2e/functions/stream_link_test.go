//go:build unix

package functions

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/container"
)

// Streams continue over a link that is cut repeatedly: nothing is lost, nothing arrives twice, and
// the function runs once.
func TestStreamsOverALinkThatIsCut(t *testing.T) {
	h := e2etest.NewHost(t)
	pool := e2etest.OpenHosts(t, gputrain.Spec{Concurrency: 2}, nil, h)
	journal := filepath.Join(t.TempDir(), "journal")
	const n, every = 3000, 500
	i := 0
	for v, err := range counter.Run(pool, countTo{N: n, Journal: journal}) {
		if err != nil || v != i {
			t.Fatalf("%d: %d, %v", i, v, err)
		}
		if i++; i%every == 0 {
			h.Link.Cut()
		}
	}
	if b, _ := os.ReadFile(journal); i != n || string(b) != "over: <nil>\n" {
		t.Errorf("%d values; it says %q", i, b)
	}
	i = 0
	for v, err := range squares.Run(pool, func(yield func(int) bool) {
		for j := range n {
			if j%every == every/2 {
				h.Link.Cut()
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
			h.Link.CutAfter(1 << 20)
		}
	}
	if i != 12 {
		t.Errorf("%d blocks", i)
	}
}

// settler yields its node's rank. If patient, it does so only from its second attempt on.
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

// A stream on a lost node starts again elsewhere only if none of its values has been received.
func TestStreamOnALostContainer(t *testing.T) {
	e2etest.NeedDocker(t)
	started := make(chan int, 10)
	pool := e2etest.OpenContainers(t, container.Config{}, gputrain.Spec{Nodes: 3, MaxReplacements: -1}, gputrain.WithEvents(func(e gputrain.Event) {
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
			e2etest.Docker(t, "kill", nodes[rank].ID)
		}
	}
	if n != 1 || !errors.Is(last, gputrain.ErrNodeLost) {
		t.Errorf("%d values, %v", n, last)
	}
	var killing sync.WaitGroup
	killing.Go(func() { e2etest.Docker(t, "kill", nodes[<-started].ID) })
	got, err := gather(settler.Run(pool, true))
	if again := <-started; len(got) != 1 || err != nil || got[0] != again {
		t.Errorf("%v, %v; it was started again on node %d", got, err, again)
	}
	killing.Wait()
}
