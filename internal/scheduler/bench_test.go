package scheduler

import (
	"strconv"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/growth"
)

// BenchmarkOnRankGrowth schedules 2000 tasks, each for one node, by the number of nodes.
func BenchmarkOnRankGrowth(b *testing.B) {
	benchmarkTargets(b, func(i, nodes int) Target { return OnRank(i % nodes) })
}

// BenchmarkOnLabelsGrowth does the same with nodes that are chosen by a label.
func BenchmarkOnLabelsGrowth(b *testing.B) {
	benchmarkTargets(b, func(i, nodes int) Target {
		return OnLabels(map[string]string{"host": "p-" + strconv.Itoa(i%nodes)})
	})
}

func benchmarkTargets(b *testing.B, target func(i, nodes int) Target) {
	growth.Report(b, []int{250, 1000, 4000}, func(nodes int) time.Duration {
		const tasks = 2000
		s, _ := newTest(b, nodes, 2, false)
		defer s.running.Add(-tasks)
		start := time.Now()
		for i := range tasks {
			batch := s.NewBatch(b.Context(), b.Context())
			w := newWork(batch, 0, 0, target(i, nodes), nil)
			if err := s.Impossible(w.target, 0); err != nil {
				b.Fatal(err)
			}
			n, slot := s.claim(&w.Task)
			if n == nil {
				b.Fatal("no slot is free")
			}
			if s.pass(n, slot) != nil {
				b.Fatal("something waits")
			}
		}
		return time.Since(start)
	})
}
