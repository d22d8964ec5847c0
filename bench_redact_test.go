package gputrain

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/growth"
)

// BenchmarkRedactionGrowth has tasks that each have a secret of their own and print it:
// what all of them take together, by their number.
func BenchmarkRedactionGrowth(b *testing.B) {
	growth.Report(b, []int{1250, 5000, 20000}, func(n int) time.Duration {
		tasks := make([]map[string]Secret, n)
		lines := make([][]byte, n)
		for i := range tasks {
			tasks[i] = map[string]Secret{"TOKEN": Secret(fmt.Sprintf("sk-%032x-%d", i*7919, i))}
			lines[i] = fmt.Appendf(nil, "epoch %d: loss 0.25, signed in with %s\n", i, string(tasks[i]["TOKEN"]))
		}
		secrets := &redactor{}
		o := newOutput(options{stdout: io.Discard}, secrets)
		begun := time.Now()
		for i := range tasks {
			secrets.learn(tasks[i])
			w, _ := o.writers("task")
			w.Write(lines[i])
			w.flush()
		}
		return time.Since(begun)
	})
}
