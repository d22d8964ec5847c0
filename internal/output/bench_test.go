package output

import (
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/growth"
	"github.com/gputrain/gputrain/providers/driver"
)

// BenchmarkRedactionGrowth runs tasks that each print a secret of their own. It reports the total time by their number.
func BenchmarkRedactionGrowth(b *testing.B) {
	growth.Report(b, []int{1250, 5000, 20000}, func(n int) time.Duration {
		tasks := make([]map[string]driver.Secret, n)
		lines := make([][]byte, n)
		for i := range tasks {
			tasks[i] = map[string]driver.Secret{"TOKEN": driver.Secret(fmt.Sprintf("sk-%032x-%d", i*7919, i))}
			lines[i] = fmt.Appendf(nil, "epoch %d: loss 0.25, signed in with %s\n", i, string(tasks[i]["TOKEN"]))
		}
		secrets := &Redactor{}
		o := NewPrinter(io.Discard, nil, false, secrets)
		begun := time.Now()
		for i := range tasks {
			secrets.Learn(tasks[i])
			w, _ := o.Lines(Source{Label: "task"})
			w.Write(lines[i])
			w.Flush()
		}
		return time.Since(begun)
	})
}
