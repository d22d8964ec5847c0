package otelgputrain

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.opentelemetry.io/otel/baggage"

	"github.com/gputrain/gputrain"
)

// tick is a moment of waiting.
func tick() <-chan time.Time { return time.After(time.Millisecond) }

// reached returns the number of the newest entry that was exported.
func (e *Exporter) reached() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.seq
}

// starting is what WithTaskEnv is given for the task a.
var starting = gputrain.Event{Kind: gputrain.EventTask, State: "started", Pool: "pool-1", Task: "a", Name: "task a", Attempt: 1, At: machine(0, "i-0")}

func TestTraceParent(t *testing.T) {
	r, s := &recorded{}, newSink()
	member, _ := baggage.NewMember("team", "blue")
	bag, _ := baggage.New(member)
	s.Parent = baggage.ContextWithBaggage(context.Background(), bag)
	r.add(0, gputrain.Event{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: "a", Name: "task a"})
	e := start(r, s.Config)
	env := e.spans.attempts.env(starting)
	counted := starting
	counted.State, counted.Task = "counted", "b"
	below := e.spans.attempts.env(counted)
	again := e.spans.attempts.env(starting)
	r.add(1, gputrain.Event{Kind: gputrain.EventTask, State: "started", Node: 0, At: machine(0, "i-0"), Task: "a", Name: "task a", Attempt: 1})
	e.Close()
	attempt := s.only(t, "gputrain.attempt") // one, although it was begun three times
	want := "00-" + attempt.SpanContext.TraceID().String() + "-" + attempt.SpanContext.SpanID().String() + "-01"
	if env["TRACEPARENT"] != want || env["BAGGAGE"] != "team=blue" || again["TRACEPARENT"] != want {
		t.Errorf("the environments are %v and %v, want %s", env, again, want)
	}
	pool := s.only(t, "gputrain.pool")
	if want := "00-" + pool.SpanContext.TraceID().String() + "-" + pool.SpanContext.SpanID().String() + "-01"; below["TRACEPARENT"] != want {
		t.Errorf("the environment of a task that is counted is %v, want %s", below, want)
	}
	for _, ev := range []gputrain.Event{starting, counted} {
		if env := e.spans.attempts.env(ev); len(env) > 0 {
			t.Errorf("after Close an attempt has %v", env)
		}
	}
}

// An attempt waits for its task, and if that does not come, others do not wait.
func TestAttemptOfAnUnknownTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, s := &recorded{}, newSink()
		e := start(r, s.Config)
		defer e.Close()
		began := time.Now()
		if env := e.spans.attempts.env(starting); env != nil || time.Since(began) != envPatience {
			t.Errorf("%v after %v", env, time.Since(began))
		}
		other := starting
		other.Task = "b"
		if env := e.spans.attempts.env(other); env != nil || time.Since(began) != envPatience {
			t.Errorf("the next has %v after %v", env, time.Since(began))
		}
		queued := gputrain.Event{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: "a", Name: "task a"}
		r.add(0, queued)
		synctest.Wait()
		if env := e.spans.attempts.env(starting); env["TRACEPARENT"] == "" {
			t.Error("an attempt at a known task has no TRACEPARENT")
		}
		queued.Task = "b"
		time.AfterFunc(envPatience/2, func() { r.add(0, queued) })
		if env := e.spans.attempts.env(other); env["TRACEPARENT"] == "" {
			t.Error("an attempt did not wait for its task again")
		}
	})
}

// An attempt that begins while its task ends, as at Close, ends with it.
func TestAttemptBeginsAfterItsTask(t *testing.T) {
	r, s := &recorded{}, newSink()
	r.add(0, gputrain.Event{Kind: gputrain.EventTask, State: "queued", Node: -1, Task: "a", Name: "task a"})
	e := start(r, s.Config)
	task := e.spans.attempts.await(taskKey{"pool-1", "a"})
	e.Close()
	e.spans.attempts.begin(task, &starting, time.Now())
	if attempt := s.only(t, "gputrain.attempt"); valueOf(attempt.Attributes, keyUnfinished) != "true" {
		t.Errorf("the attempt has %v", attempt.Attributes)
	}
}
