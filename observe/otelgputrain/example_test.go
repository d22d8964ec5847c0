package otelgputrain_test

import (
	"context"
	"fmt"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/otelgputrain"
	"github.com/gputrain/gputrain/providers/local"
)

// A task's own spans are below the span of its attempt. A real program exports to a collector instead of to memory.
func Example() {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		panic(err)
	}
	defer rec.Close()
	memory := tracetest.NewInMemoryExporter()
	spans := otelgputrain.Start(rec, otelgputrain.Config{Tracer: sdktrace.NewTracerProvider(sdktrace.WithSyncer(memory))})

	pool, err := gputrain.Open(context.Background(), local.Config{}, gputrain.Spec{}, rec.Option(), spans.Option())
	if err != nil {
		panic(err)
	}
	r, err := pool.Run(gputrain.Script("echo $TRACEPARENT"))
	pool.Close()
	spans.Close()

	for _, s := range memory.GetSpans() {
		if s.Name == "gputrain.attempt" {
			fmt.Println(string(r.Stdout) == fmt.Sprintf("00-%s-%s-01\n", s.SpanContext.TraceID(), s.SpanContext.SpanID()), err)
		}
	}
	// Output: true <nil>
}
