//go:build unix

package sim_test

import (
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/growth"
	"github.com/gputrain/gputrain/providers/sim"
)

// BenchmarkTerminate ends machines with real processes, all by one call.
func BenchmarkTerminate(b *testing.B) {
	growth.Report(b, []int{12, 50, 200}, func(n int) time.Duration {
		c := sim.New(sim.Options{Dir: b.TempDir()})
		defer c.Close()
		d, err := sim.Config{Cloud: c}.Open(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		defer d.Close()
		got, err := d.Launch(b.Context(), request(b, d, "bench", n))
		if err != nil || len(got) != n {
			b.Fatalf("%d machines: %v", len(got), err)
		}
		var ids []string
		for _, in := range got {
			ids = append(ids, in.ID)
		}
		begun := time.Now()
		if err := d.Terminate(b.Context(), ids...); err != nil {
			b.Fatal(err)
		}
		return time.Since(begun)
	})
}
