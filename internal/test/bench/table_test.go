package bench

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// A unit is the unit of a figure. For some units, less is better.
type unit int

const (
	seconds unit = iota
	kibibytes
	goroutines
	perSecond    // more is better from here on
	mibPerSecond // MiB/s
)

func (u unit) less() bool { return u < perSecond }

func (u unit) format(x float64) string {
	switch u {
	case seconds:
		d := time.Duration(x * float64(time.Second))
		switch {
		case d < time.Millisecond:
			return digits(x*1e6) + " us"
		case d < time.Second:
			return digits(x*1e3) + " ms"
		}
		return digits(x) + " s"
	case kibibytes:
		return digits(x) + " KiB"
	case perSecond:
		return digits(x) + "/s"
	case mibPerSecond:
		return digits(x) + " MiB/s"
	}
	return digits(x)
}

// digits formats x with three significant digits.
func digits(x float64) string {
	if x <= 0 {
		return "0"
	}
	var rounded float64
	fmt.Sscan(fmt.Sprintf("%.2e", x), &rounded)
	places := 2 - int(math.Floor(math.Log10(rounded)))
	return fmt.Sprintf("%.*f", max(places, 0), rounded)
}

// median returns the middle sample, or the mean of the two middle ones.
func median(samples []float64) float64 {
	s := slices.Sorted(slices.Values(samples))
	if len(s) == 0 {
		return math.NaN()
	}
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// overall returns the rate of all turns together, whose rates are the samples: their harmonic mean.
func overall(rates []float64) float64 {
	var time float64
	for _, r := range rates {
		time += 1 / r
	}
	return float64(len(rates)) / time
}

// A figure is the result of one contender.
type figure struct {
	name   string
	limit  float64
	value  float64
	failed bool
}

// A table is the comparison, as Markdown.
type table struct {
	about string   // machine, date, versions
	lines []string // of the table
	out   []string // contenders that were left out, and why
}

// leaveOut records that a contender is left out, and why.
func (t *table) leaveOut(what, why string) {
	note := what + ": " + why
	if !slices.Contains(t.out, note) {
		t.out = append(t.out, note)
	}
}

// add appends a line for each contender except gputrain, which is the first one. The ratio is
// gputrain's figure over the other's.
func (t *table) add(w work, figures []figure) {
	show := func(f figure) string {
		if f.failed {
			return "failed"
		}
		return w.unit.format(f.value)
	}
	ours := figures[0]
	for _, f := range figures[1:] {
		ratio, target, met := "", "", ""
		r := ours.value / f.value
		known := !ours.failed && !f.failed
		if known {
			ratio = digits(r)
		}
		if f.limit > 0 {
			sign := "at least "
			if w.unit.less() {
				sign = "at most "
			}
			target = sign + fmt.Sprint(f.limit)
			met = "no"
			if known && (r == f.limit || (r < f.limit) == w.unit.less()) {
				met = "yes"
			}
		}
		t.lines = append(t.lines, fmt.Sprintf("| %s | %s | %s: %s | %s | %s | %s |", w.name, show(ours), f.name, show(f), ratio, target, met))
	}
}

func (t *table) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n\n| work | gputrain | other | ratio | target | met? |\n|---|---|---|---|---|---|\n", t.about)
	for _, line := range t.lines {
		b.WriteString(line + "\n")
	}
	if len(t.out) > 0 {
		fmt.Fprintf(&b, "\nLeft out: %s.\n", strings.Join(t.out, "; "))
	}
	return b.String()
}

func TestTable(t *testing.T) {
	var got table
	got.about = "here, now"
	got.add(work{name: "a command", unit: seconds}, []figure{
		{name: "gputrain", value: 0.003}, {name: "raw", limit: 2.5, value: 0.002}, {name: "ssh", limit: 0.4, value: 0.006}, {name: "free", value: 0.01}})
	got.add(work{name: "calls", unit: perSecond}, []figure{
		{name: "gputrain", value: 100}, {name: "rpc", limit: 0.5, value: 180}, {name: "dask", limit: 25, value: 8}, {name: "broken", limit: 2, failed: true}})
	got.add(work{name: "idle", unit: kibibytes}, []figure{{name: "gputrain", failed: true}, {name: "the limit", limit: 1, value: 250}})
	got.leaveOut("pdsh", "not installed")
	got.leaveOut("pdsh", "not installed")
	want := `here, now

| work | gputrain | other | ratio | target | met? |
|---|---|---|---|---|---|
| a command | 3.00 ms | raw: 2.00 ms | 1.50 | at most 2.5 | yes |
| a command | 3.00 ms | ssh: 6.00 ms | 0.500 | at most 0.4 | no |
| a command | 3.00 ms | free: 10.0 ms | 0.300 |  |  |
| calls | 100/s | rpc: 180/s | 0.556 | at least 0.5 | yes |
| calls | 100/s | dask: 8.00/s | 12.5 | at least 25 | no |
| calls | 100/s | broken: failed |  | at least 2 | no |
| idle | failed | the limit: 250 KiB |  | at most 1 | no |

Left out: pdsh: not installed.
`
	if got.String() != want {
		t.Errorf("got\n%s\nwant\n%s", &got, want)
	}
}

func TestFigures(t *testing.T) {
	for x, want := range map[float64]string{1234.5: "1230", 123: "123", 12.345: "12.3", 1: "1.00", 0.1234: "0.123", 0: "0", 99999: "100000", 9.999: "10.0"} {
		if got := digits(x); got != want {
			t.Errorf("digits(%v) = %s, want %s", x, got, want)
		}
	}
	for x, want := range map[float64]string{2.5e-5: "25.0 us", 0.0044: "4.40 ms", 3.21: "3.21 s"} {
		if got := seconds.format(x); got != want {
			t.Errorf("%v s is shown as %s, want %s", x, got, want)
		}
	}
	for _, s := range [][]float64{{3, 1, 2}, {4, 1, 1, 3}, {2}} {
		if got := median(s); got != 2 {
			t.Errorf("median(%v) = %v", s, got)
		}
	}
	if got := overall([]float64{1, 4, 4}); got != 2 {
		t.Errorf("three turns in 1.5 times the time of one at 1 have the rate %v, want 2", got)
	}
}
