package watchdog

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// A task without a sign for SilentEvery counts as silent, and again after each SilentEvery more.
	SilentEvery = 30 * time.Minute
	// silencePause is the time between two looks at all tasks.
	silencePause = time.Minute
)

// Silence watches any number of tasks for those that are silent. It needs one timer for all of them, and none without
// tasks. The zero value watches none.
type Silence struct {
	mu    sync.Mutex
	tasks map[*Sign]struct{}
	timer *time.Timer
	last  time.Time // of a look
}

// A Sign holds the time of a task's last sign of life.
type Sign struct {
	at    atomic.Int64 // in Unix nanoseconds
	of    Watched
	times int64 // it was reported, since the last sign; guarded by Silence.mu
	told  int64 // at, when it was reported
}

// Watched is a task that may be silent.
type Watched interface {
	// IsUp is false while the task cannot be heard. Such a time does not count.
	IsUp() bool
	// Silent is called, by one goroutine at a time, for each half hour without a sign.
	Silent(time.Duration)
}

// Watch watches a task that begins now, with its Sign, until Forget.
func (s *Silence) Watch(sign *Sign, of Watched) {
	sign.of = of
	sign.Heard(time.Now())
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tasks == nil {
		s.tasks = map[*Sign]struct{}{}
	}
	if s.tasks[sign] = struct{}{}; len(s.tasks) == 1 {
		s.last = time.Now().Round(0)
		if s.timer == nil {
			s.timer = time.AfterFunc(silencePause, s.look)
		} else {
			s.timer.Reset(silencePause)
		}
	}
}

// Forget ends the watch of a task.
func (s *Silence) Forget(sign *Sign) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if delete(s.tasks, sign); len(s.tasks) == 0 {
		s.timer.Stop()
	}
}

// Heard records a sign of the task.
func (s *Sign) Heard(now time.Time) { s.at.Store(now.UnixNano()) }

func (s *Silence) look() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.tasks) == 0 {
		return
	}
	now := time.Now().Round(0) // with the time in which this computer was asleep
	passed := now.Sub(s.last)
	s.last = now
	for sign := range s.tasks {
		sign.look(now, passed)
	}
	s.timer.Reset(silencePause)
}

// look reports a task that has been silent for one more half hour.
func (s *Sign) look(now time.Time, passed time.Duration) {
	at := s.at.Load()
	if at != s.told {
		s.times, s.told = 0, at
	}
	if passed > 2*silencePause || !s.of.IsUp() { // this computer was asleep, or the node cannot be reached
		if s.at.CompareAndSwap(at, at+int64(passed)) {
			s.told += int64(passed)
		}
		return
	}
	if silent := now.Sub(time.Unix(0, at)); silent >= time.Duration(s.times+1)*SilentEvery {
		s.times++
		s.of.Silent(silent)
	}
}
