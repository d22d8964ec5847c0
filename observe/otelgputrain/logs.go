package otelgputrain

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"

	"github.com/gputrain/gputrain"
)

// emit writes an event as a log record, in the context of its span.
func emit(l log.Logger, ctx context.Context, ev *gputrain.Event) {
	name, severity := "gputrain."+ev.Kind.String(), severityOf(ev)
	if !l.Enabled(ctx, log.EnabledParameters{Severity: severity, EventName: name}) {
		return
	}
	var r log.Record
	r.SetEventName(name)
	r.SetTimestamp(ev.Time)
	r.SetObservedTimestamp(time.Now())
	r.SetSeverity(severity)
	r.SetSeverityText(severity.String())
	r.SetBody(attribute.StringValue(ev.Kind.String()))
	r.AddAttributes(logged(ev)...)
	l.Emit(ctx, r)
}

// severityOf returns the severity that gputrain.WithLogger gives an event.
func severityOf(ev *gputrain.Event) log.Severity {
	switch k := ev.Kind; {
	case ev.Err != nil:
		return log.SeverityWarn
	case k == gputrain.EventTransfer && ev.State != "done", k == gputrain.EventStep, k == gputrain.EventUsage, k == gputrain.EventProgress, k == gputrain.EventTally:
		return log.SeverityDebug
	}
	return log.SeverityInfo
}

// logged returns the attributes of an event's record: those of spans for what spans have, and its other fields.
func logged(ev *gputrain.Event) attrs {
	a := attrs{attr(keyPool, ev.Pool)}
	a.number("gputrain.seq", ev.Seq, true)
	a.text(keyState, ev.State)
	a.machine(ev.Node, ev.At, "")
	a.text(keyPhase, ev.Phase)
	a.text(keyTask, ev.Task)
	a.text(keyName, ev.Name)
	a.number(keyAttempt, int64(ev.Attempt), ev.Attempt > 0)
	if ev.Ended != nil {
		a.number(keyExitCode, int64(ev.Ended.ExitCode), ev.Ended.ExitCode >= 0)
		if ev.Err != nil {
			a.text(keyCause, ev.Ended.Cause.String())
		}
		usd, known := ev.Ended.CostUSD.USD()
		a.float(keyCost, usd, known)
	}
	a.float("gputrain.elapsed", ev.Elapsed.Seconds(), ev.Elapsed > 0)
	if !ev.Until.IsZero() {
		a.text("gputrain.until", ev.Until.Format(time.RFC3339Nano))
	}
	a.text("gputrain.host_key", ev.HostKey)
	if ev.HostKey != "" {
		a.text("gputrain.host_key.source", ev.HostKeySource.String())
	}
	a.text(keyPath, ev.Path)
	moves := ev.Kind == gputrain.EventTransfer && ev.Err == nil
	a.number(keyBytes, ev.Bytes, moves)
	a.number("gputrain.transfer.total", ev.TotalBytes, ev.TotalBytes > 0)
	a.float("gputrain.transfer.rate", ev.BytesPerSecond, ev.BytesPerSecond > 0)
	if c := ev.Cost; c != nil {
		a.float(keyCost, c.USD, true)
		a.float("gputrain.cost.rate", c.HourlyUSD, true)
		a.float("gputrain.cost.at_most", c.AtMostUSD, c.Bounded)
	}
	if o := ev.Offer; o != nil {
		a.place(gputrain.Node{Provider: o.Provider, Region: o.Region, InstanceType: o.InstanceType}, marketOf(o.Spot))
		usd, known := o.HourlyUSD.USD()
		a.float("gputrain.offer.hourly_usd", usd, known)
	}
	a.text("gputrain.progress.what", ev.Progress.What)
	a.number("gputrain.progress.done", ev.Progress.Done, ev.Kind == gputrain.EventProgress)
	a.number("gputrain.progress.total", ev.Progress.Total, ev.Progress.Total > 0)
	a.text("gputrain.progress.unit", ev.Progress.Unit)
	a.number("gputrain.omitted", int64(ev.Omitted), ev.Omitted > 0)
	a.number("gputrain.step", ev.Step.N, ev.Kind == gputrain.EventStep)
	a.number("gputrain.steps", ev.Step.Of, ev.Step.Of > 0)
	for name, value := range ev.Step.Values {
		a.float("gputrain.step."+text(name), value, true)
	}
	a.number("gputrain.accelerators", int64(len(ev.Usage.Accelerators)), len(ev.Usage.Accelerators) > 0)
	if ev.Err != nil {
		a.text(keyErrorType, errorType(ev))
		a.text(keyError, ev.Err.Error())
	}
	return a
}
