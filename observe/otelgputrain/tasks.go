package otelgputrain

import (
	"context"
	"slices"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// A taskKey names a task among those of all pools.
type taskKey struct{ pool, id string }

// A task is the open span of a task.
type task struct {
	span
	key    taskKey
	queued time.Time // zero if that was not seen
	begun  bool      // there was an attempt
	usd    float64   // of attempts that have ended

	attempts map[int]span // that are open, by number; attempts.mu guards it
}

// task returns the task of an event, and begins its span if it is new.
func (p *pool) task(ev *gputrain.Event) *task {
	t := p.tasks[ev.Task]
	if t == nil {
		t = &task{
			span: p.open(p.ctx, "gputrain.task", timeOf(ev), attrs{attr(keyPool, p.id), attr(keyTask, ev.Task), attr(keyName, ev.Name)}),
			key:  taskKey{p.id, ev.Task}, attempts: map[int]span{},
		}
		p.tasks[ev.Task] = t
		p.spans.attempts.add(t)
	}
	return t
}

// timeOf returns when it was that a task was queued or started, for an event that may say so later, and else the event's time.
func timeOf(ev *gputrain.Event) time.Time {
	if ev.Kind != gputrain.EventTask || ev.State != "queued" && ev.State != "started" {
		return ev.Time
	}
	return ev.Time.Add(-ev.Elapsed)
}

func (p *pool) taskChanged(ev *gputrain.Event) context.Context {
	t := p.task(ev)
	switch {
	case ev.Kind == gputrain.EventRetry:
		return p.retried(t, ev)
	case ev.State == "queued":
		t.queued = timeOf(ev)
	case ev.State == "started":
		return p.started(t, ev)
	case ev.State == "done" || ev.State == "failed" || ev.State == "cancelled":
		return p.ended(t, ev)
	case ev.State == "silent":
		return p.spans.attempts.contextOf(t, ev.Attempt)
	}
	return t.ctx
}

// started begins an attempt, unless it has begun when the pool asked for its environment.
func (p *pool) started(t *task, ev *gputrain.Event) context.Context {
	at := timeOf(ev)
	a := p.spans.attempts.begin(t, ev, at)
	a.SetAttributes(p.machine(ev)...)
	if !t.begun && !t.queued.IsZero() {
		p.meters.wait.Record(a.ctx, max(at.Sub(t.queued), 0).Seconds(), metric.WithAttributes(p.place(ev)...))
	}
	t.begun = true
	return a.ctx
}

// machine returns the attributes of the node that an event is about.
func (p *pool) machine(ev *gputrain.Event) (a attrs) {
	a.machine(ev.Node, ev.At, p.markets[kindOf(p.id, ev.At)])
	return a
}

// place returns those of its attributes that a metric has.
func (p *pool) place(ev *gputrain.Event) (a attrs) {
	a.place(ev.At, p.markets[kindOf(p.id, ev.At)])
	return a
}

// endAttempt ends the span of an attempt, if it has begun, and returns its context, or else the task's.
func (p *pool) endAttempt(t *task, ev *gputrain.Event) context.Context {
	s, ok := p.spans.attempts.end(t, ev.Attempt)
	if !ok {
		return t.ctx
	}
	s.SetAttributes(outcome(ev)...)
	if end := ev.Ended; end != nil {
		if usd, known := end.CostUSD.USD(); known { // of all attempts
			s.SetAttributes(attribute.Float64(keyCost, max(usd-t.usd, 0)))
			t.usd = usd
		}
	}
	if ev.Err != nil && ev.State != "cancelled" {
		fail(s.Span, ev)
	}
	s.End(trace.WithTimestamp(ev.Time))
	return s.ctx
}

// outcome returns how an attempt has ended.
func outcome(ev *gputrain.Event) (a attrs) {
	if ev.Ended == nil {
		return nil
	}
	a.number(keyExitCode, int64(ev.Ended.ExitCode), ev.Ended.ExitCode >= 0)
	if ev.Err != nil {
		a.text(keyCause, ev.Ended.Cause.String())
	}
	return a
}

func (p *pool) retried(t *task, ev *gputrain.Event) context.Context {
	ctx := p.endAttempt(t, ev)
	t.begun = true
	a := attrs{attribute.Int(keyAttempt, ev.Attempt)}
	counted := p.place(ev)
	if ev.Ended != nil {
		a.text(keyCause, ev.Ended.Cause.String())
		counted.text(keyCause, ev.Ended.Cause.String())
	}
	a.float("gputrain.retry.delay", ev.Elapsed.Seconds(), true)
	if ev.Err != nil {
		a.text(keyError, ev.Err.Error())
	}
	t.AddEvent("gputrain.retry", trace.WithTimestamp(ev.Time), trace.WithAttributes(a...))
	p.meters.retries.Add(ctx, 1, metric.WithAttributes(counted...))
	return ctx
}

func (p *pool) ended(t *task, ev *gputrain.Event) context.Context {
	ctx := p.endAttempt(t, ev)
	p.spans.attempts.drop(t, ev.Time)
	a := outcome(ev)
	a.number(keyAttempt, int64(ev.Attempt), ev.Attempt > 0)
	measured := append(p.place(ev), attr(keyState, ev.State))
	if ev.Ended != nil {
		usd, known := ev.Ended.CostUSD.USD()
		a.float(keyCost, usd, known)
		if ev.Err != nil {
			measured.text(keyCause, ev.Ended.Cause.String())
		}
	}
	with := metric.WithAttributeSet(attribute.NewSet(measured...))
	if ev.Ended != nil {
		p.meters.duration.Record(ctx, max(ev.Elapsed, 0).Seconds(), with)
	}
	p.meters.ended.Add(ctx, 1, with)
	t.SetAttributes(a...)
	if ev.State == "failed" {
		fail(t.Span, ev)
	}
	t.End(trace.WithTimestamp(ev.Time))
	delete(p.tasks, ev.Task)
	return ctx
}

// counted adds tasks that are not reported one by one, and have no spans.
func (p *pool) counted(t *gputrain.Tally) {
	if t == nil {
		return
	}
	for _, e := range t.Ended {
		var where attrs
		if n := p.ranks[e.Node]; n != nil {
			where.place(n.at, p.markets[kindOf(p.id, n.at)])
		}
		for state, n := range map[string]int{"done": e.Done, "cancelled": e.Cancelled} {
			if n > 0 {
				p.meters.ended.Add(p.ctx, int64(n), metric.WithAttributes(append(slices.Clip(where), attr(keyState, state))...))
			}
		}
	}
}
