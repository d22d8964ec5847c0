package bench

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// A work is one line of the comparison, with its contenders. The first contender is gputrain.
type work struct {
	name  string
	unit  unit
	turns int
	n     int                     // the amount of a turn: operations, nodes, bytes; 0 if not counted
	fresh func(int) error         // creates the input of a turn of that amount, untimed; may be nil
	of    func([]float64) float64 // makes one figure of the samples; nil means median
	by    []contender
}

// A contender does the work. Its samples are in the work's unit.
type contender struct {
	name  string
	limit float64 // the target for gputrain's ratio to it; 0 means no target
	run   func(n int) ([]float64, error)
}

// measure makes all contenders do the work in turns, each begun by a different contender, after an untimed warm-up with
// a tenth of n. A failure is shown and fails the test, but the others continue.
func (l *lab) measure(t *testing.T, w work) {
	t.Helper()
	fmt.Fprintf(os.Stderr, "%s\n", w.name)
	samples := make([][]float64, len(w.by))
	failed := make([]bool, len(w.by))
	for turn := range w.turns + 1 {
		n := w.n
		if turn == 0 {
			if n = (w.n + 9) / 10; n == 0 {
				continue
			}
		}
		if w.fresh != nil {
			if err := w.fresh(n); err != nil {
				t.Fatalf("%s: %v", w.name, err)
			}
		}
		for i := range w.by {
			i = (i + turn) % len(w.by)
			if failed[i] {
				continue
			}
			got, err := w.by[i].run(n)
			if l.ctx.Err() != nil {
				t.Fatal("interrupted")
			}
			if err != nil {
				failed[i] = true
				t.Errorf("%s: %s: %v", w.name, w.by[i].name, err)
			} else if turn > 0 {
				samples[i] = append(samples[i], got...)
			}
		}
	}
	of := w.of
	if of == nil {
		of = median
	}
	figures := make([]figure, len(w.by))
	for i, c := range w.by {
		figures[i] = figure{c.name, c.limit, of(samples[i]), failed[i]}
	}
	l.table.add(w, figures)
}

// each measures the time of every one of n operations.
func each(n int, do func() error) ([]float64, error) {
	samples := make([]float64, n)
	for i := range samples {
		start := time.Now()
		if err := do(); err != nil {
			return nil, err
		}
		samples[i] = time.Since(start).Seconds()
	}
	return samples, nil
}

// rate returns n over the seconds that do takes. do performs n operations.
func rate(n float64, do func() error) ([]float64, error) {
	s, err := each(1, do)
	if err != nil {
		return nil, err
	}
	return []float64{n / s[0]}, nil
}

// stated returns a contender with a fixed value: a limit, or the delay of a link.
func stated(name string, value, limit float64) contender {
	return contender{name, limit, func(int) ([]float64, error) { return []float64{value}, nil }}
}
