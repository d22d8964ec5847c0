package watchdog

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A task is up, or not, and counts how often it was silent.
type task struct {
	up     atomic.Bool
	silent []time.Duration
}

func (t *task) IsUp() bool             { return t.up.Load() }
func (t *task) Silent(d time.Duration) { t.silent = append(t.silent, d) }

func TestSilence(t *testing.T) {
	const m = time.Minute
	for name, tt := range map[string]struct {
		happens func(sign *Sign, up *atomic.Bool)
		want    []time.Duration
	}{
		"silent":      {func(*Sign, *atomic.Bool) {}, []time.Duration{30 * m, 60 * m, 90 * m}},
		"heard":       {func(s *Sign, _ *atomic.Bool) { time.Sleep(20 * m); s.Heard(time.Now()) }, []time.Duration{30 * m, 60 * m}},
		"heard again": {func(s *Sign, _ *atomic.Bool) { time.Sleep(45*m + time.Second); s.Heard(time.Now()) }, []time.Duration{30 * m, 30*m + 59*time.Second}},
		"cannot be heard": {func(_ *Sign, up *atomic.Bool) {
			time.Sleep(10*m + 1)
			up.Store(false)
			time.Sleep(time.Hour)
			up.Store(true)
		}, []time.Duration{30 * m}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var s Silence
				var one task
				one.up.Store(true)
				begun := time.Now()
				var sign Sign
				s.Watch(&sign, &one)
				tt.happens(&sign, &one.up)
				time.Sleep(time.Until(begun.Add(100*m + 2)))
				synctest.Wait()
				s.Forget(&sign)
				if !slices.Equal(one.silent, tt.want) {
					t.Errorf("%v, want %v", one.silent, tt.want)
				}
				time.Sleep(time.Hour)
				if !slices.Equal(one.silent, tt.want) {
					t.Errorf("after its end: %v", one.silent)
				}
			})
		})
	}
}

// Ten thousand tasks have one timer.
func TestSilenceOfManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Silence
		var all task
		all.up.Store(true)
		signs := make([]Sign, 10_000)
		for i := range signs {
			s.Watch(&signs[i], &all)
		}
		time.Sleep(SilentEvery + 1)
		synctest.Wait()
		for i := range signs {
			s.Forget(&signs[i])
		}
		if len(all.silent) != 10_000 {
			t.Errorf("%d are silent", len(all.silent))
		}
	})
}
