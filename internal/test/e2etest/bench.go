package e2etest

import (
	"testing"

	"github.com/gputrain/gputrain"
)

// BenchmarkFirstResult measures the time from Open to the result of the first command.
func BenchmarkFirstResult(b *testing.B, provider gputrain.Provider) {
	for b.Loop() {
		pool, err := gputrain.Open(b.Context(), provider, gputrain.Spec{}, gputrain.WithStateDir(b.TempDir()))
		if err != nil {
			b.Fatal(err)
		}
		if _, err := pool.Run(gputrain.Cmd("true")); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		if err := pool.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
