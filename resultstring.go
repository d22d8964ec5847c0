package gputrain

import (
	"fmt"
	"strings"
	"time"
)

// String says in one line how the task ended, where, how long it ran, what that cost, and
// how much it left. What it wrote is not in it.
func (r Result) String() string {
	var b strings.Builder
	switch {
	case r.Err != nil:
		b.WriteString(firstLine(r.Err.Error()))
	case r.Attempts == 0:
		fmt.Fprintf(&b, "task %d: not run", r.Index)
	default:
		fmt.Fprintf(&b, "task %d on node %d: done", r.Index, r.Node.Rank)
		if r.Attempts > 1 {
			fmt.Fprintf(&b, " at attempt %d", r.Attempts)
		}
	}
	if r.Attempts > 0 {
		fmt.Fprintf(&b, ", %v", roundDuration(r.Elapsed))
		if usd, known := r.CostUSD.USD(); known {
			b.WriteString(", " + dollars(usd))
		}
	}
	for _, stream := range []struct {
		name string
		n    int64
	}{{"stdout", r.StdoutBytes}, {"stderr", r.StderrBytes}} {
		if stream.n > 0 {
			fmt.Fprintf(&b, ", %s %s", stream.name, byteSize(stream.n))
		}
	}
	if n := len(r.Outputs); n > 0 {
		fmt.Fprintf(&b, ", %s in %s", count(n, "output"), r.OutputDir)
	}
	return b.String()
}

// String says in one line what the pool has cost, what it costs per hour, and what it
// costs at most.
func (c Cost) String() string {
	running := 0
	for _, n := range c.Nodes {
		if n.To.IsZero() {
			running++
		}
	}
	parts := []string{dollars(c.USD) + " so far"}
	if running == 0 {
		parts = append(parts, "no machine runs")
	} else {
		parts = append(parts, fmt.Sprintf("%s for %s an hour", count(running, "machine"), dollars(c.HourlyUSD)))
	}
	if c.Unknown > 0 {
		parts = append(parts, "not counting "+count(c.Unknown, "machine")+" of unknown price")
	}
	switch {
	case running == 0:
	case c.Bounded:
		parts = append(parts, "at most "+dollars(c.AtMostUSD)+" if this program dies now")
	default:
		parts = append(parts, "without a bound if this program dies now")
	}
	if c.OverspendUSD > 0 {
		parts = append(parts, dollars(c.OverspendUSD)+" over the budget then")
	}
	return strings.Join(parts, ", ")
}

// count is "1 machine" or "3 machines".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// dollars is an amount as a person reads it: more than nothing is not shown as nothing.
func dollars(usd float64) string {
	const least = 0.0001
	if 0 < usd && usd < least {
		return fmt.Sprintf("less than $%.4f", least)
	}
	return USD(usd).String()
}

// roundDuration leaves three or four digits of a time.
func roundDuration(d time.Duration) time.Duration {
	for _, unit := range []time.Duration{time.Minute, time.Second, time.Millisecond} {
		if d >= unit {
			return d.Round(unit / 100)
		}
	}
	return d.Round(time.Microsecond)
}

// byteSize is a number of bytes as a person reads it.
func byteSize(n int64) string {
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
