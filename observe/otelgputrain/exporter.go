package otelgputrain

import (
	"context"
	"errors"
	"iter"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/log"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain/observe"
)

// scope is the name of the instrumentation.
const scope = "github.com/gputrain/gputrain/observe/otelgputrain"

// Config says to which providers an Exporter exports. The zero value uses OpenTelemetry's global ones.
type Config struct {
	// Tracer takes the spans. Nil means otel.GetTracerProvider().
	Tracer trace.TracerProvider
	// Meter takes the metrics. Nil means otel.GetMeterProvider().
	Meter metric.MeterProvider
	// Logger takes the logs. Nil means the LoggerProvider of package log/global.
	Logger log.LoggerProvider
	// Parent has the span that is the parent of the pools' spans, and the baggage of tasks. Its end ends nothing. Nil means
	// that each pool begins a trace of its own.
	Parent context.Context
}

// A source is what an Exporter needs of a Recorder.
type source interface {
	Run() observe.Run
	Events(ctx context.Context, after int64) iter.Seq[observe.Entry]
}

// An Exporter exports what a recorder records. Its methods can be called concurrently.
type Exporter struct {
	src    source
	config Config
	spans  *spans
	meters *meters
	logs   log.Logger

	stop context.CancelFunc // ends the goroutine that exports
	done chan struct{}      // closed when it has ended

	mu     sync.Mutex
	seq    int64 // of the newest entry that was exported
	ending bool  // Close was called
	until  int64 // if ending, the newest entry that is still exported

	closing sync.Once
	err     error // of Close
}

// Start exports what a recorder has recorded, and then what it records, until Close. One goroutine does it: if a provider is slow,
// entries wait in the recorder, and no pool waits. Spans, metrics and logs need no more than this. So that tasks get the trace
// context of their attempt, as TRACEPARENT, give [Exporter.Option] to the pool too.
//
// An instrument that the MeterProvider refuses is reported to otel.Handle, and measures nothing.
func Start(r *observe.Recorder, c Config) *Exporter { return start(r, c) }

func start(src source, c Config) *Exporter {
	if c.Tracer == nil {
		c.Tracer = otel.GetTracerProvider()
	}
	if c.Meter == nil {
		c.Meter = otel.GetMeterProvider()
	}
	if c.Logger == nil {
		c.Logger = otel.GetLoggerProvider()
	}
	if c.Parent == nil {
		c.Parent = context.Background()
	}
	c.Parent = context.WithoutCancel(c.Parent)
	ctx, stop := context.WithCancel(context.Background())
	m := newMeters(c.Meter, src)
	e := &Exporter{
		src: src, config: c, meters: m, spans: newSpans(c, m), logs: c.Logger.Logger(scope, log.WithSchemaURL(schema)),
		stop: stop, done: make(chan struct{}),
	}
	go e.export(ctx)
	return e
}

// export takes the entries in order.
func (e *Exporter) export(ctx context.Context) {
	defer close(e.done)
	for entry := range e.src.Events(ctx, 0) {
		if entry.Event != nil {
			at := e.spans.take(entry.Event)
			emit(e.logs, at, entry.Event)
		}
		e.mu.Lock()
		e.seq = entry.Seq
		over := e.ending && e.seq >= e.until
		e.mu.Unlock()
		if over {
			return
		}
	}
}

const (
	// Close exports what is recorded for drainTime at most, and waits for the providers for flushTime at most.
	drainTime = 10 * time.Second
	flushTime = 10 * time.Second
)

// Close exports what was recorded until now, ends the spans that are open, with the attribute gputrain.unfinished, and has those
// providers send what they hold that have a method ForceFlush, as those of OpenTelemetry's SDK do. The providers stay open. The
// error is theirs. Closing again does nothing, and returns the same.
//
// Close the pools before: what they report later is not exported. The recorder can be closed before or after.
func (e *Exporter) Close() error {
	e.closing.Do(func() { e.err = e.close() })
	return e.err
}

func (e *Exporter) close() error {
	newest := e.src.Run().Seq
	e.mu.Lock()
	e.ending, e.until = true, newest
	over := e.seq >= newest
	e.mu.Unlock()
	if !over {
		select {
		case <-e.done:
		case <-time.After(drainTime):
		}
	}
	e.stop()
	<-e.done
	e.spans.close(time.Now())

	ctx, cancel := context.WithTimeout(context.Background(), flushTime)
	defer cancel()
	var errs []error
	for _, provider := range []any{e.config.Tracer, e.config.Meter, e.config.Logger} { // observed values too, while there is a callback
		if f, ok := provider.(interface{ ForceFlush(context.Context) error }); ok {
			errs = append(errs, f.ForceFlush(ctx))
		}
	}
	return errors.Join(append(errs, e.meters.close())...)
}
