// Package growth measures how the cost of something grows with its amount, for
// benchmarks: it fits the exponent of a power law over several sizes. An exponent of 1
// is linear growth, 2 is quadratic. No test asserts one, as it varies with the machine.
package growth

import (
	"fmt"
	"math"
	"testing"
	"time"
)

// Report runs cost for each of the sizes in turn, b.N times, and reports the fitted exponent as "exponent" and the
// smallest time of each size as "ms@size". cost sets up n things and returns how long the measured part took. The sizes
// ascend. Three sizes, each four times the one before, show a trend above the noise.
func Report(b *testing.B, sizes []int, cost func(n int) time.Duration) {
	b.Helper()
	least := make([]time.Duration, len(sizes))
	for b.Loop() {
		for i, n := range sizes {
			if took := cost(n); least[i] == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	b.ReportMetric(0, "ns/op") // the sum over all sizes has no meaning
	for i, n := range sizes {
		b.ReportMetric(float64(least[i])/float64(time.Millisecond), fmt.Sprintf("ms@%d", n))
	}
	b.ReportMetric(Exponent(sizes, least), "exponent")
}

// Exponent returns the exponent e of the power law cost = c*n^e that fits best, by
// least squares over the logarithms. Fewer than two sizes, or a cost of zero, give NaN.
func Exponent(sizes []int, costs []time.Duration) float64 {
	var x, y, xx, xy float64
	for i := range sizes {
		lx, ly := math.Log(float64(sizes[i])), math.Log(float64(costs[i]))
		x, y, xx, xy = x+lx, y+ly, xx+lx*lx, xy+lx*ly
	}
	n := float64(len(sizes))
	e := (n*xy - x*y) / (n*xx - x*x)
	if math.IsInf(e, 0) {
		return math.NaN()
	}
	return e
}
