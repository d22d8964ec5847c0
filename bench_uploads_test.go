package gputrain_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/internal/test/growth"
	"github.com/gputrain/gputrain/providers/sim"
)

// BenchmarkJoinAfterUploads measures how long a node takes to join a pool in which one file was
// uploaded again and again, as a training program does that changes its model.
func BenchmarkJoinAfterUploads(b *testing.B) {
	c := sim.New(sim.Options{Dir: b.TempDir()})
	defer c.Close()
	file := e2etest.SomeFile(b)
	growth.Report(b, []int{16, 64, 256}, func(n int) time.Duration {
		p, err := gputrain.Open(b.Context(), sim.Config{Cloud: c}, gputrain.Spec{})
		if err != nil {
			b.Fatal(err)
		}
		defer p.Close()
		for range n {
			if err := p.Upload(file, "in/rates"); err != nil {
				b.Fatal(err)
			}
		}
		start := time.Now()
		if err := p.Resize(2); err != nil {
			b.Fatal(err)
		}
		return time.Since(start)
	})
}
