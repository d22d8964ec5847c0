package output

import (
	"fmt"
	"time"
)

// Rounded rounds a duration to three or four digits.
func Rounded(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond} {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d.Round(time.Microsecond)
}

// Size formats a number of bytes for a person.
func Size(n int64) string {
	const step = 1 << 10
	if n < 10*step {
		return fmt.Sprintf("%d B", n)
	}
	size, unit := float64(n)/step, 0
	for ; size >= step && unit < 3; unit++ {
		size /= step
	}
	return fmt.Sprintf("%.1f %s", size, []string{"KiB", "MiB", "GiB", "TiB"}[unit])
}
