package growth

import (
	"math"
	"testing"
	"time"
)

func TestExponent(t *testing.T) {
	sizes := []int{100, 400, 1600}
	for _, want := range []float64{0, 1, 1.5, 2} {
		var costs []time.Duration
		for _, n := range sizes {
			costs = append(costs, time.Duration(1e6*math.Pow(float64(n), want)))
		}
		if got := Exponent(sizes, costs); math.Abs(got-want) > 0.001 {
			t.Errorf("costs that grow with the power %v: fitted %v", want, got)
		}
	}
}

func TestExponentOfTooLittle(t *testing.T) {
	if got := Exponent([]int{5}, []time.Duration{time.Second}); !math.IsNaN(got) {
		t.Errorf("one size: %v", got)
	}
	if got := Exponent([]int{5, 10}, []time.Duration{0, time.Second}); !math.IsNaN(got) {
		t.Errorf("a cost of zero: %v", got)
	}
}
