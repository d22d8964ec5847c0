package output

import (
	"math"
	"testing"
)

func TestSize(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 10239: "10239 B", 10240: "10.0 KiB", 5 << 20: "5.0 MiB", 1 << 40: "1.0 TiB", math.MaxInt64: "8388608.0 TiB"} {
		if got := Size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
}
