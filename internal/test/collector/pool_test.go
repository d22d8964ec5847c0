package collector

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/plog"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/otel/exporters/otlp/otlplog/otlploghttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/otelgputrain"
	"github.com/gputrain/gputrain/providers/local"
)

const secret = "hunter2-very-secret"

// A collector receives the spans of a pool, which nest and end, its metrics, and its logs in the context of the spans. A task
// has the TRACEPARENT of its attempt.
func TestCollector(t *testing.T) {
	addr, got := startCollector(t)
	printed := runPool(t, addr)
	got.mu.Lock()
	defer got.mu.Unlock()

	byID, names := map[pcommon.SpanID]ptrace.Span{}, map[string]int{}
	for _, s := range got.spans {
		byID[s.SpanID()] = s
		names[s.Name()]++
		if s.EndTimestamp() < s.StartTimestamp() || s.EndTimestamp() == 0 {
			t.Errorf("%s lasts from %v to %v", s.Name(), s.StartTimestamp(), s.EndTimestamp())
		}
	}
	if want := map[string]int{"gputrain.pool": 1, "gputrain.node": 2, "gputrain.phase": 2, "gputrain.task": 2, "gputrain.attempt": 3}; !within(want, names) {
		t.Errorf("spans %v, want %v", names, want)
	}
	parents := map[string]string{"gputrain.pool": "", "gputrain.node": "gputrain.pool", "gputrain.phase": "gputrain.node", "gputrain.task": "gputrain.pool", "gputrain.attempt": "gputrain.task"}
	traceparents := map[string]string{}
	for _, s := range got.spans {
		parent, known := byID[s.ParentSpanID()]
		want, rooted := parents[s.Name()]
		if rooted && (want == "" && !s.ParentSpanID().IsEmpty() || want != "" && (!known || parent.Name() != want)) {
			t.Errorf("a span %s is not below %q", s.Name(), want)
		}
		traceparents[fmt.Sprintf("00-%s-%s-01", s.TraceID(), s.SpanID())] = s.Name()
	}
	if traceparents[printed] != "gputrain.attempt" {
		t.Errorf("the task has the TRACEPARENT %q", printed)
	}
	for _, name := range []string{"gputrain.slots", "gputrain.task.ended", "gputrain.task.retries", "gputrain.phase.duration"} {
		if !got.metrics[name] {
			t.Errorf("the metric %s is missing: %v", name, got.metrics)
		}
	}
	inContext := slices.ContainsFunc(got.logs, func(r plog.LogRecord) bool { _, ok := byID[r.SpanID()]; return ok })
	if !inContext {
		t.Errorf("none of %d logs is in the context of a span", len(got.logs))
	}
	for _, kind := range []string{"spans", "metrics", "logs"} {
		if scope := kind + " of github.com/gputrain/gputrain/observe/otelgputrain"; !got.scopes[scope] {
			t.Errorf("%q is missing: %v", scope, got.scopes)
		}
	}
	for _, r := range got.logs {
		if text := fmt.Sprint(r.Body().AsString(), r.Attributes().AsRaw()); strings.Contains(text, secret) {
			t.Errorf("a log has the secret: %s", text)
		}
	}
	for _, s := range got.spans {
		text := fmt.Sprint(s.Attributes().AsRaw(), s.Status().Message())
		for _, e := range s.Events().All() {
			text += fmt.Sprint(e.Attributes().AsRaw())
		}
		if strings.Contains(text, secret) {
			t.Errorf("the span %s has the secret: %s", s.Name(), text)
		}
	}
}

// within reports whether each count is at least as wanted.
func within(want, got map[string]int) bool {
	for name, n := range want {
		if got[name] < n {
			return false
		}
	}
	return true
}

// runPool runs a pool of two nodes whose recorder is exported to a collector, and closes all of it. It returns the TRACEPARENT
// of a task.
func runPool(t *testing.T, addr string) (printed string) {
	t.Helper()
	ctx := context.Background()
	rec, err := observe.New(observe.Config{})
	must(t, err)
	defer rec.Close()
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpoint(addr), otlptracehttp.WithInsecure())
	must(t, err)
	metrics, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpoint(addr), otlpmetrichttp.WithInsecure())
	must(t, err)
	logs, err := otlploghttp.New(ctx, otlploghttp.WithEndpoint(addr), otlploghttp.WithInsecure())
	must(t, err)
	tracer := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	meter := sdkmetric.NewMeterProvider(sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metrics)))
	logger := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(logs)))
	exported := otelgputrain.Start(rec, otelgputrain.Config{Tracer: tracer, Meter: meter, Logger: logger})

	pool, err := gputrain.Open(ctx, local.Config{}, gputrain.Spec{Nodes: 2, Image: gputrain.Image{Setup: []string{"echo set up"}}},
		gputrain.WithStateDir(t.TempDir()), rec.Option(), exported.Option())
	must(t, err)
	defer pool.Close()
	for until := time.Now().Add(time.Minute); printed == "" && time.Now().Before(until); { // a task does not wait long for its span
		r, err := pool.Run(gputrain.Script("echo $TRACEPARENT"))
		must(t, err)
		printed = strings.TrimSpace(string(r.Stdout))
	}
	retried := gputrain.Script(`echo "it is $WORD" >&2; [ $GPUTRAIN_ATTEMPT = 2 ]`)
	retried.Retries, retried.Secrets = 1, map[string]gputrain.Secret{"WORD": secret}
	if _, err := pool.Run(retried); err != nil {
		t.Error(err)
	}
	must(t, pool.Close())
	must(t, exported.Close())
	must(t, tracer.Shutdown(ctx))
	must(t, meter.Shutdown(ctx))
	must(t, logger.Shutdown(ctx))
	return printed
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
