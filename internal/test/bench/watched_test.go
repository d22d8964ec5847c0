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
// page and spans, metrics and logs, and the other nothing. The pools take turns of a second, as the machine's speed drifts, and
// are replaced after five turns, as two pools of the same kind differ by a few percent. The nodes are in memory:
// ext4 looks at every inode that was deleted in the last five seconds before it makes a folder, which takes up to half of the
// time of a command and differs from one pool to the next.
func watched(t *testing.T, l *lab) {
	const (
		lanes = 64
		turns = 5 // of a pool
	)
	var machines []*machine
	for range l.size.nodes {
		machines = append(machines, newMachineAt(t, len(machines), inMemory(t)))
	}
	options := map[string][]gputrain.Option{"with all of observe": watchers(t), "without": nil}
	both := func(name string, n int, spec gputrain.Spec, machines []*machine, run func(pool *gputrain.Compute, n int) error) {
		pools := map[string]*gputrain.Compute{}
		end := func() error {
			var errs []error
			for _, pool := range pools {
				errs = append(errs, pool.Close())
			}
			clear(pools)
			return errors.Join(errs...)
		}
		t.Cleanup(func() {
			if err := end(); err != nil && l.ctx.Err() == nil {
				t.Error(err)
			}
		})
		w := work{name: name + ", watched", unit: perSecond, turns: turns*(2*l.size.turns-1) - 1, n: n, of: overall} // the untimed one is the first of the first pair
		turn := 0
		w.fresh = func(int) error {
			turn++
			if turn%turns != 1 {
				return nil
			}
			if err := end(); err != nil {
				return err
			}
			for which, opts := range options {
				pool, err := l.open(t, spec, opts, machines...)
				if err != nil {
					return err
				}
				pools[which] = pool
				if err := run(pool, (n+2)/3); err != nil { // ships the program
					return err
				}
			}
			return nil
		}
		on := func(which string) func(n int) ([]float64, error) {
			return func(n int) ([]float64, error) {
				return rate(float64(n), func() error { return run(pools[which], n) })
			}
		}
		w.by = []contender{{"gputrain with all of observe", 0, on("with all of observe")}, {"gputrain without", 0.95, on("without")}}
		l.measure(t, w)
	}
	both(fmt.Sprintf("%d commands over %d nodes", l.size.commands, len(machines)), l.size.commands, gputrain.Spec{Concurrency: 4}, machines,
		func(pool *gputrain.Compute, n int) error {
			tasks := make([]gputrain.Task, n)
			for i := range tasks {
				tasks[i] = gputrain.Cmd("true")
			}
			_, err := pool.Gather(tasks...)
			return err
		})
	both(fmt.Sprintf("function calls, %d in flight on one node", lanes), l.size.calls, gputrain.Spec{Concurrency: lanes}, machines[:1],
		func(pool *gputrain.Compute, n int) error {
			return inFlight(n, lanes, func(int) error {
				y, err := increment.Run(pool, 1)
				if err != nil {
					return err
				}
				return check(y)
			})
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
