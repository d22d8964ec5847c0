package otelgputrain

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
)

// A sink has what was exported to it, by OpenTelemetry's SDK.
type sink struct {
	Config
	spans   *tracetest.InMemoryExporter
	reader  *metric.ManualReader
	records *records
}

// records is an exporter of logs.
type records struct {
	mu  sync.Mutex
	all []sdklog.Record
}

func (r *records) Export(_ context.Context, all []sdklog.Record) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, one := range all {
		r.all = append(r.all, one.Clone())
	}
	return nil
}

func (*records) Shutdown(context.Context) error   { return nil }
func (*records) ForceFlush(context.Context) error { return nil }

func newSink() *sink {
	s := &sink{spans: tracetest.NewInMemoryExporter(), reader: metric.NewManualReader(), records: &records{}}
	s.Tracer = sdktrace.NewTracerProvider(sdktrace.WithSyncer(s.spans))
	s.Meter = metric.NewMeterProvider(metric.WithReader(s.reader))
	s.Logger = sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewSimpleProcessor(s.records)))
	return s
}

// metrics collects the metrics, by name.
func (s *sink) metrics(t *testing.T) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := s.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	by := map[string]metricdata.Metrics{}
	for _, sm := range all.ScopeMetrics {
		for _, m := range sm.Metrics {
			by[m.Name] = m
		}
	}
	return by
}

// named returns the spans of a name.
func (s *sink) named(name string) (found []tracetest.SpanStub) {
	for _, one := range s.spans.GetSpans() {
		if one.Name == name {
			found = append(found, one)
		}
	}
	return found
}

// only returns the only span of a name.
func (s *sink) only(t *testing.T, name string) tracetest.SpanStub {
	t.Helper()
	found := s.named(name)
	if len(found) != 1 {
		t.Fatalf("%d spans %s, want one", len(found), name)
	}
	return found[0]
}

// valueOf returns an attribute as text, or "".
func valueOf(all []attribute.KeyValue, key string) string {
	for _, kv := range all {
		if string(kv.Key) == key {
			return kv.Value.String()
		}
	}
	return ""
}

// A recorded is a source with hand-made entries.
type recorded struct {
	mu   sync.Mutex
	run  observe.Run
	all  []observe.Entry
	came chan struct{}
}

func (r *recorded) Run() observe.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	run := r.run
	run.Seq = int64(len(r.all))
	return run
}

func (r *recorded) Events(ctx context.Context, after int64) iter.Seq[observe.Entry] {
	return func(yield func(observe.Entry) bool) {
		for i := int(after); ; {
			r.mu.Lock()
			rest := r.all[min(i, len(r.all)):]
			if r.came == nil {
				r.came = make(chan struct{})
			}
			came := r.came
			r.mu.Unlock()
			for _, e := range rest {
				if !yield(e) {
					return
				}
				i++
			}
			if len(rest) > 0 {
				continue
			}
			select {
			case <-came:
			case <-ctx.Done():
				return
			}
		}
	}
}

// add records an event, at a time in seconds.
func (r *recorded) add(at float64, ev gputrain.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ev.Time, ev.Pool, ev.Seq = when(at), "pool-1", int64(len(r.all)+1)
	r.all = append(r.all, observe.Entry{Seq: ev.Seq, Event: &ev})
	if r.came != nil {
		close(r.came)
		r.came = nil
	}
}

// when is a time in seconds after that of all tests.
func when(seconds float64) time.Time {
	return time.Unix(1_800_000_000, 0).Add(time.Duration(seconds * float64(time.Second)))
}

func machine(rank int, id string) gputrain.Node {
	return gputrain.Node{Rank: rank, ID: id, Name: fmt.Sprintf("node-%d", rank), Provider: "acme", Region: "mars", InstanceType: "big", HourlyUSD: driver.USD(3600)}
}
