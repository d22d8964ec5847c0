package otelgputrain

import (
	"strings"
	"testing"

	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// Each event is one record, with the severity that gputrain.WithLogger gives it, in the context of its span.
func TestLogs(t *testing.T) {
	r, s := &recorded{}, newSink()
	play(r)
	start(r, s.Config).Close()
	if len(s.records.all) != len(r.all) {
		t.Fatalf("%d records of %d events", len(s.records.all), len(r.all))
	}
	names := map[trace.SpanID]string{}
	for _, one := range s.spans.GetSpans() {
		names[one.SpanContext.SpanID()] = strings.TrimPrefix(one.Name, "gputrain.")
	}
	within := map[string]string{
		"pool": "pool", "node": "node", "offer": "pool", "phase": "phase", "progress": "phase", "retry": "attempt", "step": "attempt", "preemption": "node",
		"transfer": "transfer", "usage": "node",
	}
	for i, got := range s.records.all {
		ev := r.all[i].Event
		want := log.SeverityInfo
		switch kind := ev.Kind; {
		case ev.Err != nil:
			want = log.SeverityWarn
		case kind == gputrain.EventStep || kind == gputrain.EventUsage || kind == gputrain.EventProgress || kind == gputrain.EventTransfer && ev.State != "done":
			want = log.SeverityDebug
		}
		if got.Severity() != want || !got.Timestamp().Equal(ev.Time) || got.EventName() != "gputrain."+ev.Kind.String() {
			t.Errorf("%s %s is %v at %v, named %s", ev.Kind, ev.State, got.Severity(), got.Timestamp(), got.EventName())
		}
		in := within[ev.Kind.String()]
		if ev.Kind == gputrain.EventTask {
			in = "task"
			if ev.Attempt > 0 {
				in = "attempt"
			}
		}
		if name := names[got.SpanID()]; name != in || !got.TraceID().IsValid() {
			t.Errorf("%s %s is in the span %q, want %q", ev.Kind, ev.State, name, in)
		}
	}
}
