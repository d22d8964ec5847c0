package otelgputrain

import (
	"cmp"
	"context"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
)

// A moving is the span of a transfer that is under way.
type moving struct {
	span
	direction string // "transmit" or "receive", or "" if that is not known
	bytes     int64
}

// directions are named as seen from this program.
var directions = map[string]string{"sending": "transmit", "receiving": "receive"}

func (p *pool) transferred(ev *gputrain.Event) context.Context {
	what := cmp.Or(ev.Path, ev.Phase)
	if what == "" && ev.Task != "" {
		what = "outputs"
	}
	key := fmt.Sprintf("%d\x00%s\x00%d\x00%s", ev.Node, ev.Task, ev.Attempt, what)
	m := p.transfers[key]
	if m == nil {
		a := append(attrs{attr(keyPool, p.id)}, p.machine(ev)...)
		a.text(keyTask, ev.Task)
		a.text(keyName, ev.Name)
		a.number(keyAttempt, int64(ev.Attempt), ev.Attempt > 0)
		a.text(keyPath, what)
		m = &moving{span: p.open(p.ctx, "gputrain.transfer", ev.Time.Add(-max(ev.Elapsed, 0)), a)}
		p.transfers[key] = m
	}
	if d := directions[ev.State]; d != "" && m.direction == "" {
		m.direction = d
		m.SetAttributes(attribute.String(keyDirection, d))
	}
	if ev.Bytes > 0 || ev.TotalBytes > 0 { // an event with Err may have none
		if more := ev.Bytes - m.bytes; more > 0 {
			a := p.place(ev)
			a.text(keyDirection, m.direction)
			p.meters.moved.Add(m.ctx, more, metric.WithAttributes(a...))
		}
		m.bytes = ev.Bytes
	}
	if ev.State != "done" && ev.State != "failed" {
		return m.ctx
	}
	delete(p.transfers, key)
	m.SetAttributes(attribute.Int64(keyBytes, m.bytes))
	if ev.State == "failed" {
		fail(m.Span, ev)
	}
	m.End(trace.WithTimestamp(ev.Time))
	return m.ctx
}
