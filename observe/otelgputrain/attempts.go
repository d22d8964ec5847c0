package otelgputrain

import (
	"context"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// envPatience bounds how long an attempt waits for the span of its task, of which the exporter learns by an event.
// Tests lengthen it.
var envPatience = 100 * time.Millisecond

// attempts are the spans of attempts. The goroutine that exports begins and ends them, and so does a pool that asks for an
// environment. No lock is held while a provider is called, so that a slow one does not slow a pool.
type attempts struct {
	tracer trace.Tracer
	parent context.Context

	mu     sync.Mutex
	pools  map[string]context.Context // of the pools' spans, by ID
	tasks  map[taskKey]*task
	came   map[taskKey]chan struct{} // closed when the task has come
	late   taskKey                   // the task that was waited for in vain last, until it comes
	closed bool
}

func newAttempts(tracer trace.Tracer, parent context.Context) *attempts {
	return &attempts{tracer: tracer, parent: parent, pools: map[string]context.Context{}, tasks: map[taskKey]*task{}, came: map[taskKey]chan struct{}{}}
}

// Option has the commands of a pool get the trace context of their attempt, in the variables TRACEPARENT, TRACESTATE and BAGGAGE as
// far as there are such, so that their own spans are below the attempt's. The pool also needs the recorder's Option.
//
// The span of the attempt then begins just before the command does, instead of when that is reported. If the exporter has not
// reached the task yet, the attempt waits for it, a tenth of a second at most, and then has none of the variables; until the
// exporter has reached it, others do not wait. A task that the recorder only counts has no span: its commands get the trace context
// of the pool. A function has no environment of its own.
//
// Option replaces another gputrain.WithTaskEnv.
func (e *Exporter) Option() gputrain.Option { return gputrain.WithTaskEnv(e.spans.attempts.env) }

// env returns the variables of an attempt that is about to start.
func (a *attempts) env(ev gputrain.Event) map[string]string {
	ctx := a.spanOf(&ev)
	if ctx == nil {
		return nil
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	propagation.Baggage{}.Inject(ctx, carrier)
	vars := map[string]string{}
	for name, value := range carrier {
		vars[strings.ToUpper(name)] = value
	}
	return vars
}

// spanOf returns the context of the span that an attempt's own spans are below: the attempt's, or the pool's if the task is only
// counted. It is nil if the span has not come in time.
func (a *attempts) spanOf(ev *gputrain.Event) context.Context {
	if ev.State == "counted" {
		a.mu.Lock()
		defer a.mu.Unlock()
		return a.pools[ev.Pool]
	}
	t := a.await(taskKey{ev.Pool, ev.Task})
	if t == nil {
		return nil
	}
	return a.begin(t, ev, time.Now()).ctx
}

// await returns the task, or nil if it has not come in time.
func (a *attempts) await(key taskKey) *task {
	a.mu.Lock()
	if t := a.tasks[key]; t != nil || a.closed || a.late != (taskKey{}) {
		a.mu.Unlock()
		return t
	}
	came := a.came[key]
	if came == nil {
		came = make(chan struct{})
		a.came[key] = came
	}
	a.mu.Unlock()
	patience := time.NewTimer(envPatience)
	defer patience.Stop()
	select {
	case <-came:
	case <-patience.C:
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.came, key)
	t := a.tasks[key]
	if t == nil && !a.closed {
		a.late = key
	}
	return t
}

// addPool makes a pool known.
func (a *attempts) addPool(p *pool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.pools[p.id] = p.ctx
}

// dropPool forgets a pool.
func (a *attempts) dropPool(id string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.pools, id)
}

// add makes a task known.
func (a *attempts) add(t *task) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.tasks[t.key] = t
	if came := a.came[t.key]; came != nil {
		close(came)
		delete(a.came, t.key)
	}
	if a.late == t.key {
		a.late = taskKey{}
	}
}

// begin returns the span of an attempt, and begins it if it is new.
func (a *attempts) begin(t *task, ev *gputrain.Event, at time.Time) span {
	a.mu.Lock()
	s, ok := t.attempts[ev.Attempt]
	a.mu.Unlock()
	if ok {
		return s
	}
	all := attrs{attr(keyPool, t.key.pool), attr(keyTask, t.key.id), attr(keyName, ev.Name)}
	all.number(keyAttempt, int64(ev.Attempt), true)
	all.machine(ev.Node, ev.At, "")
	ctx, begun := a.tracer.Start(t.ctx, "gputrain.attempt", trace.WithTimestamp(at), trace.WithAttributes(all...))
	s = span{begun, ctx}
	a.mu.Lock()
	known := a.tasks[t.key] == t
	if known {
		t.attempts[ev.Attempt] = s
	}
	a.mu.Unlock()
	if !known { // its task, or all, has ended in between
		s.unfinished(at)
	}
	return s
}

// end takes the span of an attempt that has ended. It reports false if there is none.
func (a *attempts) end(t *task, number int) (span, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	s, ok := t.attempts[number]
	delete(t.attempts, number)
	return s, ok
}

// contextOf returns the context of an attempt, or else that of its task.
func (a *attempts) contextOf(t *task, number int) context.Context {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s, ok := t.attempts[number]; ok {
		return s.ctx
	}
	return t.ctx
}

// drop forgets a task, and ends attempts of it that are open.
func (a *attempts) drop(t *task, at time.Time) {
	a.mu.Lock()
	delete(a.tasks, t.key)
	open := t.attempts
	t.attempts = map[int]span{}
	a.mu.Unlock()
	for _, s := range open {
		s.unfinished(at)
	}
}

// close lets no attempt wait any more.
func (a *attempts) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	clear(a.pools)
	for key, came := range a.came {
		close(came)
		delete(a.came, key)
	}
}
