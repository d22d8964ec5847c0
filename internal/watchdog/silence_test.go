package watchdog

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
				var up atomic.Bool
				up.Store(true)
				var got []time.Duration
				begun := time.Now()
				sign, forget := s.Watch(up.Load, func(silent time.Duration) { got = append(got, silent) })
				tt.happens(sign, &up)
				time.Sleep(time.Until(begun.Add(100*m + 2)))
				synctest.Wait()
				forget()
				if !slices.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
				time.Sleep(time.Hour)
				if !slices.Equal(got, tt.want) {
					t.Errorf("after its end: %v", got)
				}
			})
		})
	}
}

// Ten thousand tasks have one timer.
func TestSilenceOfManyTasks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Silence
		silent := 0
		var forgets []func()
		for range 10_000 {
			_, forget := s.Watch(func() bool { return true }, func(time.Duration) { silent++ })
			forgets = append(forgets, forget)
		}
		time.Sleep(SilentEvery + 1)
		synctest.Wait()
		for _, forget := range forgets {
			forget()
		}
		if silent != 10_000 {
			t.Errorf("%d are silent", silent)
		}
	})
}
