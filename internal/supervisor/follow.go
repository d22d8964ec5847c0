package supervisor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/overdue"
)

// A cancelled task has cancelPatience, beyond its grace, to end.
const cancelPatience = 15 * time.Second

// A node that has reported the end of a task, and then needs longer than drainPatience and overdue.Grace for drainLeast
// bytes of the rest of its output, is given up.
const (
	drainPatience = time.Minute
	drainLeast    = 64 << 10
)

// A follower passes a task's output to its sinks until the task has ended.
type follower struct {
	n       *Node
	ctx     context.Context
	t       *task
	sinks   Sinks
	grace   time.Duration
	ended   <-chan struct{} // ends with the caller; nil once the task is cancelled
	gaveUp  <-chan time.Time
	out     [2][]byte
	passed  [2]int64
	broken  error          // the error of a sink
	told    bool           // sinks.Started was called
	drain   *overdue.Clock // nil while the command runs
	drained int64
}

// follow follows a registered task.
func (n *Node) follow(ctx context.Context, t *task, sinks Sinks, grace time.Duration) (Exit, error) {
	f := &follower{n: n, ctx: ctx, t: t, sinks: sinks, grace: grace, ended: ctx.Done()}
	defer t.clock.Stop()
	defer func() { f.drain.Stop() }()
	for {
		if f.pass() {
			return f.end()
		}
		running, draining := f.bounds()
		select {
		case <-t.wake:
		case <-running:
			if t.clock.Over() {
				return f.late(fmt.Errorf("%w: its end is not reported", ErrOverdue))
			}
		case <-draining:
			if f.drain.Over() {
				return f.late(errors.New("the node does not send what it has printed"))
			}
		case <-f.ended:
			f.cancel()
		case <-f.gaveUp:
			n.abandon(t)
			return Exit{}, fmt.Errorf("the node does not report the end of task %s: %w", t.id, cmp.Or(f.broken, context.Cause(ctx)))
		case <-n.life.Done():
			return Exit{}, fmt.Errorf("task %s: %w", t.id, n.Err())
		}
	}
}

// pass passes the output so far to the sinks, and reports whether it was all.
func (f *follower) pass() (complete bool) {
	started, complete := f.t.take(&f.out)
	if started && !f.told {
		f.told = true
		if f.sinks.Started != nil {
			f.sinks.Started()
		}
	}
	if f.broken == nil {
		if f.broken = f.sinks.write(&f.out); f.broken == nil {
			f.passed[stdout] += int64(len(f.out[stdout]))
			f.passed[stderr] += int64(len(f.out[stderr]))
		} else if f.ended != nil {
			f.cancel()
		}
	}
	if !complete && len(f.out[stdout])+len(f.out[stderr]) > 0 {
		f.n.poll.notice()
	}
	return complete
}

// end forgets the task, and returns how it has ended.
func (f *follower) end() (Exit, error) {
	f.n.forget(f.t, f.passed[stdout]+f.passed[stderr])
	x := *f.t.exit
	x.StdoutBytes, x.StderrBytes = f.passed[stdout], f.passed[stderr]
	x.Scratch = f.n.Scratch(f.t.id)
	return x, cmp.Or(f.t.err, f.broken)
}

// bounds returns the clocks that fire when the command has run for too long, or the rest of its output is overdue.
func (f *follower) bounds() (running, draining <-chan time.Time) {
	over, got := f.t.ended()
	switch {
	case !over:
		return f.t.clock.Due(), nil
	case f.drain == nil:
		f.drain, f.drained = clock(f.n.client, drainPatience, 0), got
		return nil, f.drain.Due()
	}
	draining = f.drain.Due()
	if got >= f.drained+drainLeast {
		f.drain.Restart()
		f.drained = got
	}
	return nil, draining
}

// cancel asks the node to end the task, which from then on has its grace and cancelPatience to end.
func (f *follower) cancel() {
	f.ended = nil
	grace := cutoff.Grace(f.ctx, f.grace)
	f.gaveUp = time.NewTimer(grace + cancelPatience).C
	call := newCall("cancel", f.t.id, tenths(grace))
	f.t.mu.Lock()
	f.t.cancel, f.t.cancelCall = true, call // the next session sends it again, should this one be cut
	f.t.mu.Unlock()
	f.n.send(call)
}

// late gives up a node whose report is long overdue.
func (f *follower) late(why error) (Exit, error) {
	f.n.abandon(f.t)
	why = fmt.Errorf("task %s: %w", f.t.id, why)
	f.n.Fail(errors.New(why.Error())) // its other tasks may have no time limit
	return Exit{Code: -1, Elapsed: time.Since(f.t.since), StdoutBytes: f.passed[stdout], StderrBytes: f.passed[stderr]}, why
}

// write writes output to the sinks. Without a sink it is dropped.
func (s *Sinks) write(out *[2][]byte) error {
	for i, w := range []io.Writer{s.Stdout, s.Stderr} {
		if w == nil || len(out[i]) == 0 {
			continue
		}
		if _, err := w.Write(out[i]); err != nil {
			return fmt.Errorf("%w: %w", ErrSink, err)
		}
	}
	return nil
}
