package steps

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	for name, tt := range map[string]struct {
		at   []time.Duration // when the steps 0, 1, ... come
		end  time.Duration
		want []string
	}{
		"none":         {nil, time.Second, nil},
		"slow":         {[]time.Duration{0, 2 * time.Second, 4 * time.Second}, 5 * time.Second, []string{"0 at 0s", "1 at 2s", "2 at 4s"}},
		"fast":         {[]time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond, 1500 * time.Millisecond}, 5 * time.Second, []string{"0 at 0s", "2 at 1s", "3 at 2s"}},
		"fast and out": {[]time.Duration{0, 100 * time.Millisecond, 200 * time.Millisecond}, 300 * time.Millisecond, []string{"0 at 0s", "2 at 300ms"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun := time.Now()
				var got []string
				p := Pace{Pass: func(s Step) { got = append(got, fmt.Sprintf("%d at %v", s.N, time.Since(begun))) }}
				for n, at := range tt.at {
					time.Sleep(time.Until(begun.Add(at)))
					p.Step(Step{N: int64(n)})
				}
				time.Sleep(time.Until(begun.Add(tt.end)))
				p.End()
				p.Step(Step{N: 100})
				time.Sleep(time.Minute)
				if !slices.Equal(got, tt.want) {
					t.Errorf("%q, want %q", got, tt.want)
				}
			})
		})
	}
}
