package console

import (
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

var update = flag.Bool("update", false, "write the screens in testdata")

var sizes = [][2]int{
	{20, 12}, {30, 12}, {40, 12}, {40, 20}, {50, 16}, {60, 18}, {60, 24}, {70, 24}, {80, 12}, {80, 24}, {80, 25}, {90, 30}, {100, 24}, {100, 40},
	{120, 30}, {132, 43}, {160, 45}, {180, 50}, {200, 55}, {250, 60},
}

// drawn returns the block as text with its tones.
func drawn(rows []row) string {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%c|%s|\n", " !~+.="[r.tone], r.text)
	}
	return b.String()
}

func TestScreens(t *testing.T) {
	some := [][2]int{{20, 12}, {80, 24}, {120, 30}, {250, 60}}
	for name, tt := range map[string]struct {
		run     observe.Run
		sizes   [][2]int
		unicode bool
	}{
		"usual":   {usual(), sizes, true},
		"ascii":   {wide(), some, false},
		"none":    {observe.Run{At: now}, some, true},
		"many":    {many(), some, true},
		"several": {several(), some, true},
		"hostile": {hostile(), some, true},
		"wide":    {wide(), some, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pacesOf(tt.run)
			var got strings.Builder
			for _, size := range tt.sizes {
				rows := frame(tt.run, p, display{columns: size[0], rows: size[1], unicode: tt.unicode})
				fmt.Fprintf(&got, "%dx%d\n%s", size[0], size[1], drawn(rows))
			}
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got.String() != strings.ReplaceAll(string(want), "\r\n", "\n") {
				t.Errorf("%s has changed; go test -update writes it. Now it is\n%s", file, got.String())
			}
		})
	}
}

// Whatever is shown fits, and controls nothing.
func TestFrameFits(t *testing.T) {
	for name, run := range map[string]observe.Run{"usual": usual(), "many": many(), "several": several(), "hostile": hostile(), "wide": wide()} {
		p := pacesOf(run)
		for columns := 1; columns <= 260; columns += 17 {
			for rows := 3; rows <= 60; rows += 9 {
				for _, unicodes := range []bool{true, false} {
					d := display{columns: columns, rows: rows, unicode: unicodes}
					block := frame(run, p, d)
					if len(block) == 0 || len(block) > rows/3 {
						t.Fatalf("%s at %dx%d: %d rows", name, columns, rows, len(block))
					}
					for _, r := range block {
						if w := widths.StringWidth(r.text); w > columns {
							t.Fatalf("%s at %dx%d: %q is %d wide", name, columns, rows, r.text, w)
						}
						for _, c := range r.text {
							if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) || !unicodes && c > unicode.MaxASCII {
								t.Fatalf("%s at %dx%d: %q has %U", name, columns, rows, r.text, c)
							}
						}
					}
				}
			}
		}
	}
}

// Every node is in a row, or counted in the row of what has none.
func TestFrameCountsAll(t *testing.T) {
	run := many()
	for _, size := range sizes {
		block := frame(run, pacesOf(run), display{columns: 250, rows: size[1]})
		total := 0
		for _, r := range block {
			if strings.HasPrefix(r.text, "node ") {
				total++
			}
			if rest, ok := strings.CutPrefix(r.text, "and "); ok {
				for part := range strings.SplitSeq(rest, ", ") {
					var n int
					fmt.Sscanf(part, "%d more", &n)
					total += n
				}
			}
		}
		if total != 500 {
			t.Errorf("%d rows: %d nodes\n%s", size[1], total, drawn(block))
		}
	}
}

func TestFrameEnds(t *testing.T) {
	run := usual()
	run.Pools[0].Closed = now
	if rows := frame(run, pacesOf(run), display{columns: 80, rows: 24}); len(rows) != 0 {
		t.Errorf("after the end of the pool:\n%s", drawn(rows))
	}
}

// A node that has failed is shown until another one takes its place, and a minute longer.
func TestFailedNodes(t *testing.T) {
	for _, tt := range []struct {
		since    time.Duration
		replaced bool
		want     bool
	}{{time.Second, false, true}, {time.Hour, false, true}, {time.Second, true, true}, {time.Hour, true, false}} {
		run := usual()
		n := machine("digits", 9, "failed")
		n.Since, n.Gone = ago(tt.since), ago(tt.since)
		run.Nodes = append(run.Nodes, n)
		if tt.replaced {
			run.Nodes = append(run.Nodes, machine("digits", 9, "ready"))
		}
		got := strings.Contains(drawn(frame(run, &paces{}, display{columns: 120, rows: 60})), "node 9 failed")
		if got != tt.want {
			t.Errorf("failed %v ago, replaced: %t: shown: %t", tt.since, tt.replaced, got)
		}
	}
}

func TestPreempted(t *testing.T) {
	run := usual()
	run.Nodes[0].Preempt = now.Add(95 * time.Second)
	got := drawn(frame(run, &paces{}, display{columns: 160, rows: 60}))
	if !strings.Contains(got, "node 0 preempted in 1m35s") || !strings.Contains(got, "train-a 120/1000") {
		t.Errorf("%s", got)
	}
}

// The last line drops words, and keeps what has been spent as long as it can.
func TestLastLine(t *testing.T) {
	run := usual()
	for columns, want := range map[int]string{
		200: "12/18 tasks done, 3 running, 2 waiting, 1 failed · 1.3 tasks/min · ETA 3m51s · $2.84/h · $0.31 of $5.00 spent · at most $0.71 if this program dies now",
		60:  "12/18 done, 3 run, 2 wait, 1 fail · ETA 3m51s · $0.31 of $5.00",
	} {
		got := lastLine(run, columns)
		if columns == 200 && got != want || widths.StringWidth(got) > columns || !strings.Contains(got, "$0.31 of $5.00") {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	run.Bounded, run.BudgetUSD, run.Pools[0].Cost.Unknown = false, 0, 2
	if got := lastLine(run, 300); !strings.HasSuffix(got, "$0.31 spent (2 machines of unknown price) · unbounded if this program dies now") {
		t.Errorf("without a bound: %q", got)
	}
	if got := lastLine(observe.Run{}, 80); got != "no tasks yet · $0.00 spent" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestPaces(t *testing.T) {
	at := func(s int) time.Time { return now.Add(time.Duration(s) * time.Second) }
	phase := func(done int64) []observe.Phase {
		return []observe.Phase{{Pool: "p", Node: "p/0", Name: "apt", State: "started", Began: now, Progress: gputrain.Progress{Done: done, Total: 100}}}
	}
	p, key := &paces{}, phaseKey(phase(0)[0])
	for s := range 31 {
		done := int64(2 * min(s, 10))
		p.look(observe.Run{At: at(s), Phases: phase(done)})
		eta, ok := p.eta(key, done, 100, at(s))
		switch s {
		case 2, 26:
			if ok {
				t.Errorf("after %d s: ETA %v", s, eta)
			}
		case 3, 10:
			if want := time.Duration(100-done) / 2 * time.Second; !ok || eta != want {
				t.Errorf("after %d s: ETA %v, want %v", s, eta, want)
			}
		}
		if stalled := p.isStalled(key, at(s)); stalled != (s > 25) {
			t.Errorf("after %d s: stalled: %t", s, stalled)
		}
	}
	p.look(observe.Run{At: at(31)})
	if len(p.of) != 0 {
		t.Error("what is over is kept")
	}
}

func TestTaskRate(t *testing.T) {
	run := observe.Run{At: now}
	if r := taskRate(run); r != 0 {
		t.Errorf("without tasks: %v", r)
	}
	for i := range 200 { // one in a second, and then one in two
		end := time.Duration(i) * 2 * time.Second
		if i >= 100 {
			end = 200*time.Second + time.Duration(i-100)*time.Second
		}
		run.Tasks = append(run.Tasks, observe.Task{State: "done", Started: ago(end + time.Second), Ended: ago(end)})
	}
	if r := taskRate(run); math.Abs(r-30) > 1 {
		t.Errorf("%v tasks/min, want 30", r)
	}
	// What was before a long pause does not count, unless nothing has ended since then.
	run.Tasks = nil
	for i := range 10 {
		run.Tasks = append(run.Tasks, observe.Task{State: "done", Started: ago(2 * time.Hour), Ended: ago(time.Hour)})
		if i < 3 {
			run.Tasks = append(run.Tasks, observe.Task{State: "failed", Started: ago(time.Minute), Ended: ago(time.Duration(i) * time.Second)})
		}
	}
	if r := taskRate(run); math.Abs(r-3) > 0.01 {
		t.Errorf("after a pause: %v tasks/min, want 3", r)
	}
	run.At = now.Add(time.Hour)
	if r := taskRate(run); r <= 0 || r > 1 {
		t.Errorf("an hour later: %v tasks/min", r)
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{-1: "0s", 42 * time.Second: "42s", 131 * time.Second: "2m11s", 62 * time.Minute: "1h02m", 76 * time.Hour: "3d04h"} {
		if got := span(d); got != want {
			t.Errorf("span(%v) = %q, want %q", d, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 200 << 20: "200 MiB", math.MaxInt64: "8192 PiB"} {
		if got := amount(n, "By"); got != want {
			t.Errorf("amount(%d) = %q, want %q", n, got, want)
		}
	}
	for _, part := range []float64{-1, 0, 0.5, 1, 7, math.NaN(), math.Inf(1)} {
		for _, unicodes := range []bool{true, false} {
			if w := widths.StringWidth(bar(part, 10, unicodes)); w != 10 {
				t.Errorf("bar(%v) is %d wide", part, w)
			}
		}
	}
	if got := bar(0.5, 10, false); got != "[####----]" {
		t.Errorf("half a bar is %q", got)
	}
	for in, want := range map[string]string{"a\x1b[31mb\nc\td": "ab c d", "": "", strings.Repeat("x", 1e6): strings.Repeat("x", longestText)} {
		if got := clean(in); got != want {
			t.Errorf("clean(%.20q) = %.40q", in, got)
		}
	}
}

// A phase whose end is not known says how long it has lasted, and how long it usually does.
func TestPhaseThatUsuallyTakesSoLong(t *testing.T) {
	ph := observe.Phase{Name: "setup 2/3", State: "started", Began: ago(20 * time.Second), Usual: 130 * time.Second}
	if got, want := phaseWork(ph, &paces{}, display{}, now), "setup 2/3 20s, usually 2m10s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
