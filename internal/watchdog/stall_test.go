package watchdog

import (
	"testing"
	"time"
)

// A story drives a watchdog, minute by minute.
type story struct {
	s   *Stall
	now time.Time
}

func begin(timeout time.Duration) *story {
	now := time.Unix(1_000_000, 0)
	return &story{NewStall(timeout, now), now}
}

func (s *story) pass(d time.Duration) *story {
	s.now = s.now.Add(d)
	return s
}

// left is the time until the deadline, or -1 if there is none.
func (s *story) left() time.Duration {
	at, ok := s.s.Deadline()
	if !ok {
		return -1
	}
	return at.Sub(s.now)
}

func TestStall(t *testing.T) {
	const m = time.Minute
	for name, tt := range map[string]struct {
		timeout time.Duration
		happens func(s *story)
		left    time.Duration
	}{
		"nothing happens":                  {0, func(s *story) { s.pass(10 * m) }, 20 * m},
		"with a timeout":                   {5 * m, func(s *story) { s.pass(4 * m) }, m},
		"never":                            {-1, func(s *story) { s.pass(time.Hour) }, -1},
		"output is progress without steps": {5 * m, func(s *story) { s.pass(4 * m); s.s.Output(s.now) }, 5 * m},
		"and none with them":               {5 * m, func(s *story) { s.s.Step(0, s.now); s.pass(4 * m); s.s.Output(s.now) }, m},
		"a greater step is progress":       {5 * m, func(s *story) { s.s.Step(3, s.now); s.pass(4 * m); s.s.Step(4, s.now) }, 5 * m},
		"the same step is none":            {5 * m, func(s *story) { s.s.Step(3, s.now); s.pass(4 * m); s.s.Step(3, s.now) }, m},
		"a smaller step is none":           {5 * m, func(s *story) { s.s.Step(3, s.now); s.pass(4 * m); s.s.Step(1, s.now) }, m},
		"a checkpoint is progress":         {5 * m, func(s *story) { s.s.Step(3, s.now); s.pass(4 * m); s.s.Grew(s.now) }, 5 * m},
		"one step tells no duration":       {0, func(s *story) { s.pass(20 * m); s.s.Step(1, s.now) }, 30 * m},
		"fast steps":                       {0, func(s *story) { s.s.Step(1, s.now); s.pass(time.Second); s.s.Step(2, s.now) }, 10 * m},
		"slow steps":                       {0, func(s *story) { s.s.Step(1, s.now); s.pass(2 * m); s.s.Step(2, s.now); s.pass(m); s.s.Step(3, s.now) }, 20 * m},
		"slower steps":                     {0, func(s *story) { s.s.Step(1, s.now); s.pass(20 * m); s.s.Step(2, s.now) }, 30 * m},
		"a timeout is not lengthened":      {5 * m, func(s *story) { s.s.Step(1, s.now); s.pass(4 * m); s.s.Step(2, s.now) }, 5 * m},
		"it cannot be heard":               {5 * m, func(s *story) { s.pass(m); s.s.Pause(s.now); s.pass(time.Hour) }, -1},
		"it is heard again":                {5 * m, func(s *story) { s.pass(m); s.s.Pause(s.now); s.pass(time.Hour); s.s.Pause(s.now); s.s.Resume(s.now) }, 4 * m},
		"resumed twice":                    {5 * m, func(s *story) { s.s.Pause(s.now); s.pass(m); s.s.Resume(s.now); s.pass(m); s.s.Resume(s.now) }, 4 * m},
		"heard in a pause": {5 * m, func(s *story) {
			s.pass(m)
			s.s.Pause(s.now)
			s.pass(m)
			s.s.Output(s.now)
			s.pass(m)
			s.s.Resume(s.now)
		}, 5 * m},
		"a pause does not make a step slow": {0, func(s *story) {
			s.s.Step(1, s.now)
			s.s.Pause(s.now)
			s.pass(time.Hour)
			s.s.Resume(s.now)
			s.pass(m)
			s.s.Step(2, s.now)
		}, 10 * m},
	} {
		s := begin(tt.timeout)
		tt.happens(s)
		if got := s.left(); got != tt.left {
			t.Errorf("%s: %v left, not %v", name, got, tt.left)
		}
	}
}

// A slow step is forgotten after twenty others.
func TestStallForgetsSlowSteps(t *testing.T) {
	s := begin(0)
	s.s.Step(0, s.now)
	s.pass(3 * time.Minute)
	s.s.Step(1, s.now)
	for n := int64(2); n <= 20; n++ {
		s.pass(time.Second)
		s.s.Step(n, s.now)
	}
	if got := s.left(); got != 30*time.Minute {
		t.Errorf("after the 20th: %v", got)
	}
	s.pass(time.Second)
	s.s.Step(21, s.now)
	if got := s.left(); got != 10*time.Minute {
		t.Errorf("after the 21st: %v", got)
	}
}

// Until the first step a start has its own limit, if that is longer.
func TestStallCountsFromTheFirstStep(t *testing.T) {
	for _, tt := range []struct{ timeout, start, silent time.Duration }{
		{time.Minute, 15 * time.Minute, 15 * time.Minute}, {time.Hour, 15 * time.Minute, time.Hour}, {0, 15 * time.Minute, usualStall},
		{time.Minute, 0, time.Minute}, {time.Minute, -1, -1}, {-1, time.Minute, -1},
	} {
		begin := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
		s := NewStall(tt.timeout, begin)
		s.Starts(tt.start)
		if at, ok := s.Deadline(); ok != (tt.silent >= 0) || ok && at.Sub(begin) != tt.silent {
			t.Errorf("%+v: %v, %t", tt, at.Sub(begin), ok)
		}
		first := begin.Add(5 * time.Minute)
		s.Step(1, first)
		if at, ok := s.Deadline(); ok != (tt.timeout >= 0) || ok && at.Sub(first) != s.Limit() {
			t.Errorf("%+v: after a step %v, %t", tt, at.Sub(first), ok)
		}
	}
}
