package console

import (
	"strings"
	"testing"
	"time"
)

// Only what has changed is drawn, and the whole block after a change of the terminal, or of what it may have.
func TestScreenDraws(t *testing.T) {
	d := display{columns: 80, rows: 24, color: true}
	rows := func(texts ...string) (all []row) {
		for _, text := range texts {
			all = append(all, row{text: text})
		}
		return all
	}
	var s screen
	at := now
	for _, step := range []struct {
		name    string
		after   time.Duration
		rows    []row
		columns int
		lose    bool
		want    []string // in this order, and nothing else that is of this test
	}{
		{"nothing", 0, nil, 80, false, nil},
		{"the first time", 0, rows("one", "two"), 80, false, []string{"\x1b[1;22r", "one", "two"}},
		{"the same", time.Second, rows("one", "two"), 80, false, nil},
		{"a change", time.Second, rows("one", "three"), 80, false, []string{"three"}},
		{"the same, much later", time.Minute, rows("one", "three"), 80, false, nil},
		{"a change, much later", time.Minute, rows("one", "two"), 80, false, []string{"\x1b[1;22r", "one", "two"}},
		{"another size", time.Second, rows("one", "two"), 60, false, []string{"\x1b[1;22r", "one", "two"}},
		{"lost", time.Second, rows("one", "two"), 60, true, []string{"\x1b[1;22r", "one", "two"}},
		{"one more", time.Second, rows("one", "two", "three"), 60, false, []string{"\x1b[1;21r", "one", "two", "three"}},
		{"one less", time.Second, rows("two", "three"), 60, false, []string{}},
		{"one less, later", shrinkAfter, rows("two", "three"), 60, false, []string{"\x1b[1;22r", "two", "three"}},
		{"the end", time.Second, nil, 60, false, []string{noRegion}},
		{"the end again", time.Second, nil, 60, false, nil},
	} {
		at = at.Add(step.after)
		d.columns = step.columns
		if step.lose {
			s.lose()
		}
		got := s.draw(step.rows, d, at)
		if step.want == nil && got != "" {
			t.Errorf("%s: %q", step.name, got)
		}
		rest := got
		for _, want := range step.want {
			_, after, ok := strings.Cut(rest, want)
			if !ok {
				t.Errorf("%s: %q lacks %q", step.name, got, want)
			}
			rest = after
		}
		for _, text := range []string{"one", "two", "three"} {
			if n, want := strings.Count(got, text), strings.Count(strings.Join(step.want, " "), text); n != want {
				t.Errorf("%s: %q has %q %d times, not %d", step.name, got, text, n, want)
			}
		}
	}
}
