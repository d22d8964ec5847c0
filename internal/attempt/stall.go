package attempt

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/watchdog"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Stall ends an attempt that makes no progress. A nil one never does. It may be used from several goroutines.
type Stall struct {
	timeout time.Duration

	mu sync.Mutex
	w  *watchdog.Stall
}

// NewStall returns what ends an attempt after a timeout.
func NewStall(timeout time.Duration) *Stall {
	return &Stall{timeout: timeout, w: watchdog.NewStall(timeout, time.Now())}
}

// Grew records that a checkpoint of the attempt grew.
func (s *Stall) Grew() { s.with(func(w *watchdog.Stall, now time.Time) { w.Grew(now) }) }

func (s *Stall) step(n int64) { s.with(func(w *watchdog.Stall, now time.Time) { w.Step(n, now) }) }

func (s *Stall) output() { s.with((*watchdog.Stall).Output) }

func (s *Stall) with(do func(w *watchdog.Stall, now time.Time)) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	do(s.w, time.Now())
}

// stalled returns why the attempt has stalled, or nil.
func (s *Stall) stalled() (why *stalledError) {
	s.with(func(w *watchdog.Stall, now time.Time) {
		if at, ok := w.Deadline(); ok && !now.Before(at) {
			step, any := w.Reported()
			why = &stalledError{after: w.Since(now), step: step, stepped: any}
		}
	})
	return why
}

// A stalledError is why an attempt was ended that made no progress. It is driver.ErrStalled.
type stalledError struct {
	after   time.Duration
	step    int64
	stepped bool   // it has reported steps
	stacks  string // of its processes
}

func (e *stalledError) Error() string {
	if !e.stepped {
		return fmt.Sprintf("it has printed nothing and reported no step for %v", e.after.Round(time.Second))
	}
	return fmt.Sprintf("its last progress, step %d, was %v ago", e.step, e.after.Round(time.Second))
}

func (e *stalledError) Is(target error) bool { return target == driver.ErrStalled }

const (
	// A node has askPatience to answer before an attempt on it counts as stalled. What it printed until then comes within
	// settlePause after the answer, or within catchUp after a connection was made again.
	askPatience = 10 * time.Second
	settlePause = 2 * time.Second
	catchUp     = 30 * time.Second
	// The watch looks at the clock a tenth of the timeout apart, within these bounds.
	leastTick, mostTick = 100 * time.Millisecond, 5 * time.Second
)

// A Watch ends an attempt that stalls.
type Watch struct {
	// Ask asks the node for progress that does not come by itself. Its error says that the node could not be heard.
	Ask func(ctx context.Context) error
	// Stacks returns the stacks of what is about to be ended, if they can be had soon.
	Stacks func(ctx context.Context) string
}

// Start begins to watch an attempt that is about to begin. The context that it returns ends with ctx, and when the
// attempt has stalled: stacks are taken before. The caller calls stop when the attempt is over.
func (w Watch) Start(ctx context.Context, n Node, a *Attempt) (watched context.Context, stop func()) {
	if a.Stall == nil {
		return ctx, func() {}
	}
	watched, end := context.WithCancelCause(ctx)
	over := make(chan struct{})
	a.Stall.with(func(s *watchdog.Stall, now time.Time) { s.Grew(now) }) // it begins now
	go func() {
		defer close(over)
		if why := w.wait(watched, n, a.Stall); why != nil {
			why.stacks = w.Stacks(watched)
			end(why)
		}
	}()
	return watched, func() {
		end(nil)
		<-over
	}
}

// wait waits until the attempt has stalled, and returns why. It returns nil at the end of ctx.
func (w Watch) wait(ctx context.Context, n Node, s *Stall) *stalledError {
	every := min(max(s.timeout/10, leastTick), mostTick)
	tick := time.NewTicker(every)
	defer tick.Stop()
	last, heard := time.Now(), time.Time{} // heard is since when the node is heard again
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := time.Now()
		asleep := now.Sub(last) > mostTick+2*every // this computer was: it has not listened meanwhile
		if asleep || !n.IsUp() {
			s.with(func(w *watchdog.Stall, _ time.Time) { w.Pause(last) })
			heard = now
		}
		if n.IsUp() {
			s.with((*watchdog.Stall).Resume)
		}
		last = now
		if s.stalled() == nil || now.Sub(heard) < catchUp {
			continue
		}
		if w.ask(ctx) != nil {
			last = time.Now()
			heard = last
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(settlePause):
		}
		if why := s.stalled(); why != nil && n.IsUp() {
			return why
		}
		last = time.Now()
	}
}

func (w Watch) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askPatience)
	defer cancel()
	return w.Ask(ctx)
}

// Stalled returns the failure of an attempt whose context, that of [Watch.Start], has ended since it had stalled, or nil. also
// says more about its end, or is nil.
func (a *Attempt) Stalled(ctx context.Context, r *Runner, also error) *Failure {
	var why *stalledError
	if a.Context.Err() != nil || !errors.As(context.Cause(ctx), &why) {
		return nil
	}
	f := Failed(Stalled, why)
	if also != nil {
		f.Err = fmt.Errorf("%w; %w", why, r.Secrets.Error(also))
	}
	f.Stack = r.Secrets.Text(why.stacks)
	return f
}
