package otelgputrain

import (
	"errors"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
)

// meters are the instruments.
type meters struct {
	ended, retries, lost, moved  metric.Int64Counter
	duration, wait, phase, ready metric.Float64Histogram
	registration                 metric.Registration // of what is observed; nil if it was refused
}

// buckets are the bounds of histograms of times, in seconds: from what a function takes to a day of training.
var buckets = []float64{0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600}

func newMeters(provider metric.MeterProvider, src source) *meters {
	meter := provider.Meter(scope, metric.WithSchemaURL(schema))
	var errs []error
	counter := func(name, unit, what string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(what))
		errs = append(errs, err)
		return c
	}
	histogram := func(name, what string) metric.Float64Histogram {
		h, err := meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(buckets...))
		errs = append(errs, err)
		return h
	}
	m := &meters{
		ended:   counter("gputrain.task.ended", "{task}", "Tasks that have ended"),
		retries: counter("gputrain.task.retries", "{retry}", "Attempts at tasks that were followed by another one"),
		lost:    counter("gputrain.node.lost", "{node}", "Nodes that were lost"),
		moved:   counter("gputrain.transfer.io", "By", "Bytes of files that were transferred"),

		duration: histogram("gputrain.task.duration", "Time that the last attempt at a task took"),
		wait:     histogram("gputrain.task.wait", "Time from the submission of a task to its first start"),
		phase:    histogram("gputrain.phase.duration", "Time that a phase of a bootstrap, or a build, took"),
		ready:    histogram("gputrain.node.ready.duration", "Time from the launch of a node until it was ready"),
	}
	var err error
	m.registration, err = observeRun(meter, src)
	if err = errors.Join(append(errs, err)...); err != nil {
		otel.Handle(err)
	}
	return m
}

// close ends the observation.
func (m *meters) close() error {
	if m.registration == nil {
		return nil
	}
	return m.registration.Unregister()
}
