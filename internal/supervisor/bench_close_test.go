//go:build unix

package supervisor

import (
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/growth"
)

// BenchmarkCloseGrowth closes all nodes of one machine at once, by their number.
func BenchmarkCloseGrowth(b *testing.B) {
	srv := quietServer(b)
	growth.Report(b, []int{32, 128, 512}, func(n int) time.Duration {
		nodes := make([]*Node, n)
		for i := range nodes {
			nodes[i] = start(b, connect(b, srv, ""), inHome(config(b, "perl")))
			trueOn(b, nodes[i])
		}
		begun := time.Now()
		var all sync.WaitGroup
		for _, node := range nodes {
			all.Go(func() {
				if err := node.Close(b.Context(), true); err != nil {
					b.Error(err)
				}
			})
		}
		all.Wait()
		return time.Since(begun)
	})
}

// inHome puts a node into its default folder, beside other nodes of the same user.
func inHome(cfg Config) Config {
	cfg.Root = ""
	return cfg
}
