// Package watchdog decides when work has stopped getting further. It is given all times, and nothing in it waits.
package watchdog

import "time"

const (
	// usualStall is the time without progress after which work has stalled, if the caller names none.
	usualStall = 30 * time.Minute
	// With steps it is stallFactor times the slowest of the last stallSteps, but leastStall at least.
	leastStall  = 10 * time.Minute
	stallFactor = 10
	stallSteps  = 20
)

// A Stall watches for work that makes no progress: no greater step, no checkpoint that grows and, until the first step, no
// output.
type Stall struct {
	timeout time.Duration
	start   time.Duration
	last    time.Time // of progress
	paused  time.Time // zero while the work can be heard

	steps    bool // some step was reported
	greatest int64
	stepped  time.Time // when it was
	took     []time.Duration
}

// NewStall returns a watchdog for work that begins now. A timeout of zero chooses one by the work itself: half an hour or,
// with steps, ten times the slowest of the last 20, but at least ten minutes. A negative one is never over.
func NewStall(timeout time.Duration, now time.Time) *Stall {
	return &Stall{timeout: timeout, last: now}
}

// Starts has the work start: until its first step the time without progress may be as long as this, if that is longer than its
// timeout. A negative one is never over.
func (s *Stall) Starts(within time.Duration) { s.start = within }

// Step records a step, and reports whether it is progress: only a greater one is.
func (s *Stall) Step(n int64, now time.Time) (progress bool) {
	s.restart(now)
	if s.steps && n <= s.greatest {
		return false
	}
	if s.steps {
		s.took = append(s.took, now.Sub(s.stepped))
		s.took = s.took[max(0, len(s.took)-stallSteps):]
	}
	s.steps, s.greatest, s.stepped, s.last = true, n, now, now
	return true
}

// Output records output. It is progress if no step was ever reported.
func (s *Stall) Output(now time.Time) {
	s.restart(now)
	if !s.steps {
		s.last = now
	}
}

// Grew records that a checkpoint grew.
func (s *Stall) Grew(now time.Time) {
	s.restart(now)
	s.last = now
}

// Pause stops the clock: the work cannot be heard. It does nothing if the clock stands still already.
func (s *Stall) Pause(now time.Time) {
	if s.paused.IsZero() {
		s.paused = now
	}
}

// Resume lets the clock go on.
func (s *Stall) Resume(now time.Time) {
	if s.paused.IsZero() {
		return
	}
	for _, at := range []*time.Time{&s.last, &s.stepped} {
		*at = at.Add(now.Sub(s.paused))
	}
	s.paused = time.Time{}
}

// restart counts the time of a pause that goes on from now: something of the work was heard in it.
func (s *Stall) restart(now time.Time) {
	if !s.paused.IsZero() {
		s.Resume(now)
		s.Pause(now)
	}
}

// Deadline returns when the work has stalled, if nothing comes before. It reports false if there is no such time, or
// while the clock stands still.
func (s *Stall) Deadline() (at time.Time, ok bool) {
	starts := !s.steps && s.start != 0
	switch {
	case s.timeout < 0 || !s.paused.IsZero() || starts && s.start < 0:
		return time.Time{}, false
	case starts:
		return s.last.Add(max(s.start, s.Limit())), true
	}
	return s.last.Add(s.Limit()), true
}

// Since returns how long there was no progress, without the time in which the clock stood still.
func (s *Stall) Since(now time.Time) time.Duration {
	if !s.paused.IsZero() {
		now = s.paused
	}
	return now.Sub(s.last)
}

// Reported returns the greatest step, and whether there was any.
func (s *Stall) Reported() (step int64, any bool) { return s.greatest, s.steps }

// Limit returns how long the work may go without progress now, once it has started.
func (s *Stall) Limit() time.Duration {
	if s.timeout > 0 {
		return s.timeout
	}
	if len(s.took) == 0 {
		return usualStall
	}
	slowest := time.Duration(0)
	for _, d := range s.took {
		slowest = max(slowest, d)
	}
	return min(max(stallFactor*slowest, leastStall), usualStall)
}
