package telemetry

import (
	"strings"
	"testing"
	"time"
)

func TestLags(t *testing.T) {
	at := func(clock, load float64, slowed string) Sample {
		s := newSample(0)
		s.Name, s.ClockMHz, s.Utilization, s.Slowed = "H100", clock, load, slowed
		return s
	}
	normal := at(1755, 99, "")
	other := at(600, 99, "")
	other.Name = "A100"
	for name, tt := range map[string]struct {
		last []Sample // of node 3
		want string
	}{
		"as the others": {[]Sample{at(1300, 99, "")}, ""},
		"slow":          {[]Sample{at(1200, 99, "")}, "its clock is 1200 MHz, and the median of 4 devices 1755 MHz"},
		"slow and idle": {[]Sample{at(210, 3, "")}, ""},
		"too hot":       {[]Sample{at(1700, 99, "too hot")}, "too hot"},
		"another kind":  {[]Sample{other}, ""},
		"does not tell": {[]Sample{newSample(0)}, ""},
	} {
		l, now := &Lags{}, time.Unix(1e9, 0)
		nodes := map[int][]Sample{0: {normal}, 1: {normal}, 2: {normal}, 3: tt.last}
		if got := l.Look(now, nodes); len(got) > 0 {
			t.Errorf("%s, at once: %v", name, got)
		}
		got := l.Look(now.Add(time.Minute), nodes)
		if tt.want == "" && len(got) > 0 || tt.want != "" && (len(got) != 1 || got[0].Node != 3 || !strings.Contains(got[0].Text, tt.want)) {
			t.Errorf("%s: %v", name, got)
		}
		if got := l.Look(now.Add(3*time.Minute), nodes); len(got) > 0 {
			t.Errorf("%s, again: %v", name, got)
		}
		nodes[3] = []Sample{normal}
		l.Look(now.Add(4*time.Minute), nodes)
		nodes[3] = tt.last
		l.Look(now.Add(5*time.Minute), nodes)
		if got := l.Look(now.Add(6*time.Minute), nodes); tt.want != "" && len(got) != 1 {
			t.Errorf("%s, slow again: %v", name, got)
		}
	}
}
