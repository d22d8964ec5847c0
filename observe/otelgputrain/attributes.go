package otelgputrain

import (
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/printable"
)

// schema is the version of the semantic conventions that names are from.
const schema = "https://opentelemetry.io/schemas/1.43.0"

// Names of the semantic conventions 1.43. Those of hardware are in development there.
const (
	keyProvider  = "cloud.provider"
	keyRegion    = "cloud.region"
	keyHost      = "host.id"
	keyHostType  = "host.type"
	keyExitCode  = "process.exit.code"
	keyErrorType = "error.type"
	keyError     = "exception.message"
	keyDirection = "network.io.direction" // "transmit" or "receive"
	keyHardware  = "hw.id"

	otherError = "_OTHER" // of error.type, if there is no better one
)

// Names of gputrain's own.
const (
	keyPool       = "gputrain.pool.id"
	keyRank       = "gputrain.node.rank"
	keyTask       = "gputrain.task.id"
	keyName       = "gputrain.task.name"
	keyAttempt    = "gputrain.task.attempt"
	keyCause      = "gputrain.task.cause"
	keyCost       = "gputrain.cost.usd"
	keyUnfinished = "gputrain.unfinished"
	keyPhase      = "gputrain.phase"
	keyMarket     = "gputrain.market" // "spot" or "on-demand"
	keyState      = "gputrain.state"
	keyUse        = "gputrain.slot.use" // "busy" or "free"
	keyPath       = "gputrain.transfer.path"
	keyBytes      = "gputrain.transfer.bytes"
)

// longest bounds texts, in bytes: an error can have the end of a task's output.
const longest = 8 << 10

// text makes a text of a node or a provider valid UTF-8 without control characters.
func text(s string) string {
	if len(s) > longest {
		s = s[:longest]
	}
	return printable.Text(s)
}

// attr is a text attribute.
func attr(key, value string) attribute.KeyValue { return attribute.String(key, text(value)) }

// attrs collects attributes, without empty ones.
type attrs []attribute.KeyValue

func (a *attrs) text(key, value string) {
	if value != "" {
		*a = append(*a, attr(key, value))
	}
}

func (a *attrs) number(key string, value int64, on bool) {
	if on {
		*a = append(*a, attribute.Int64(key, value))
	}
}

func (a *attrs) float(key string, value float64, on bool) {
	if on {
		*a = append(*a, attribute.Float64(key, value))
	}
}

// place adds what kind of machine a node is and where, which is no ID.
func (a *attrs) place(n gputrain.Node, market string) {
	a.text(keyProvider, n.Provider)
	a.text(keyRegion, n.Region)
	a.text(keyHostType, n.InstanceType)
	a.text(keyMarket, market)
}

// machine adds which machine a node is.
func (a *attrs) machine(rank int, n gputrain.Node, market string) {
	a.number(keyRank, int64(rank), rank >= 0)
	a.text(keyHost, n.ID)
	a.place(n, market)
}

// errorType returns the type of an error for error.type: one of few words.
func errorType(ev *gputrain.Event) string {
	if ev.Ended != nil {
		return ev.Ended.Cause.String()
	}
	var task *gputrain.TaskError
	if errors.As(ev.Err, &task) {
		return task.Cause.String()
	}
	var e *gputrain.Error
	if errors.As(ev.Err, &e) && e.Kind != nil {
		return text(e.Kind.Error())
	}
	return otherError
}

// fail gives a span the status of a failure.
func fail(s trace.Span, ev *gputrain.Event) {
	why := ev.State
	if ev.Err != nil {
		why = ev.Err.Error()
	}
	s.SetStatus(codes.Error, text(why))
	s.SetAttributes(attr(keyErrorType, errorType(ev)))
}

// marketOf names how a machine is rented.
func marketOf(spot bool) string {
	if spot {
		return "spot"
	}
	return "on-demand"
}

// A kindOfMachine is what an offer and a node have in common: a node does not say how it is rented.
type kindOfMachine struct{ pool, provider, region, instanceType string }

func kindOf(pool string, n gputrain.Node) kindOfMachine {
	return kindOfMachine{pool, n.Provider, n.Region, n.InstanceType}
}
