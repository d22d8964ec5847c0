package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/log"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/console"
	"github.com/gputrain/gputrain/observe/otelgputrain"
	"github.com/gputrain/gputrain/observe/status"
)

// watched measures what it costs to watch: the same work on two pools, of which one has a recorder with a file, a console, a
// page and spans, metrics and logs, and the other nothing.
func watched(t *testing.T, l *lab) {
	const lanes = 64
	all := watchers(t)
	pools := map[string]*gputrain.Compute{}
	calls := map[string]*gputrain.Compute{}
	for name, opts := range map[string][]gputrain.Option{"watched": all, "not watched": nil} {
		pools[name] = l.poolWith(t, gputrain.Spec{Concurrency: 4}, opts, l.machines...)
		calls[name] = l.poolWith(t, gputrain.Spec{Concurrency: lanes}, opts, l.machines[0])
	}
	commands := func(pool *gputrain.Compute) func(n int) ([]float64, error) {
		return func(n int) ([]float64, error) {
			tasks := make([]gputrain.Task, n)
			for i := range tasks {
				tasks[i] = gputrain.Cmd("true")
			}
			return rate(float64(n), func() error { _, err := pool.Gather(tasks...); return err })
		}
	}
	functions := func(pool *gputrain.Compute) func(n int) ([]float64, error) {
		return func(n int) ([]float64, error) {
			return rate(float64(n), func() error {
				return inFlight(n, lanes, func(int) error {
					y, err := increment.Run(pool, 1)
					if err != nil {
						return err
					}
					return check(y)
				})
			})
		}
	}
	l.measure(t, work{
		name: fmt.Sprintf("%d commands over %d nodes, watched", l.size.commands, len(l.machines)), unit: perSecond, turns: l.size.turns, n: l.size.commands,
		by: []contender{{"gputrain with all of observe", 0, commands(pools["watched"])}, {"gputrain without", 0.95, commands(pools["not watched"])}},
	})
	l.measure(t, work{
		name: fmt.Sprintf("function calls, %d in flight on one node, watched", lanes), unit: perSecond, turns: l.size.turns, n: l.size.calls,
		by: []contender{{"gputrain with all of observe", 0, functions(calls["watched"])}, {"gputrain without", 0.95, functions(calls["not watched"])}},
	})
}

// watchers returns options with everything on. They end with the test.
func watchers(t *testing.T) []gputrain.Option {
	t.Helper()
	rec, err := observe.New(observe.Config{File: filepath.Join(t.TempDir(), "events"), Usage: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	screen := console.Show(rec, nowhere)
	page, err := status.Serve(rec, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tracer := trace.NewTracerProvider(trace.WithBatcher(tracetest.NewNoopExporter()))
	meter := metric.NewMeterProvider(metric.WithReader(metric.NewPeriodicReader(noMetrics{}, metric.WithInterval(5*time.Second))))
	spans := otelgputrain.Start(rec, otelgputrain.Config{Tracer: tracer, Meter: meter, Logger: log.NewLoggerProvider()})
	t.Cleanup(func() {
		if err := errors.Join(spans.Close(), tracer.Shutdown(context.Background()), meter.Shutdown(context.Background()), page.Close(), screen.Close(), rec.Close(), nowhere.Close()); err != nil {
			t.Error(err)
		}
	})
	return []gputrain.Option{rec.Option(), spans.Option()}
}

// noMetrics exports nothing.
type noMetrics struct{}

func (noMetrics) Temporality(k metric.InstrumentKind) metricdata.Temporality {
	return metric.DefaultTemporalitySelector(k)
}
func (noMetrics) Aggregation(k metric.InstrumentKind) metric.Aggregation {
	return metric.DefaultAggregationSelector(k)
}
func (noMetrics) Export(context.Context, *metricdata.ResourceMetrics) error { return nil }
func (noMetrics) ForceFlush(context.Context) error                          { return nil }
func (noMetrics) Shutdown(context.Context) error                            { return nil }
