package gputrain

import (
	"context"
	"errors"
	"math"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
)

// A keptOutcome is a Result as a journal has it. What it has in common with its unit
// is there, and what most results of calls do not have is in Rest.
type keptOutcome struct {
	_        struct{} `cbor:",toarray"`
	ID       string
	Where    int // the keptPlace, zero where it ran nowhere
	ExitCode int
	Attempts int
	Elapsed  int64
	USD      float64 // NaN where it is not known
	Head     []byte
	Parts    [][]byte
	Rest     *keptRest
}

type keptRest struct {
	Stdout      []byte       `cbor:",omitempty"`
	Stderr      []byte       `cbor:",omitempty"`
	StdoutBytes int64        `cbor:",omitempty"`
	StderrBytes int64        `cbor:",omitempty"`
	StdoutFile  string       `cbor:",omitempty"`
	StderrFile  string       `cbor:",omitempty"`
	OutputDir   string       `cbor:",omitempty"`
	Outputs     []OutputFile `cbor:",omitempty"`
	Truncated   bool         `cbor:",omitempty"`
	Failure     *keptFailure `cbor:",omitempty"`
}

// A keptFailure is a TaskError.
type keptFailure struct {
	Name, Signal, Tail, Stack string
	Attempt, Cause, ExitCode  int
	Text                      string   // of what it wraps
	Kinds                     []string // of that
}

func outcomeOf(id string, r Result) keptOutcome {
	o := keptOutcome{
		ID: id, ExitCode: r.ExitCode, Attempts: r.Attempts, Elapsed: int64(r.Elapsed), USD: math.NaN(), Head: r.value.Head, Parts: r.value.Parts,
	}
	if usd, known := r.CostUSD.USD(); known {
		o.USD = usd
	}
	if r.function != "" && r.Err == nil && r.OutputDir == "" && r.StdoutBytes == 0 && r.StderrBytes == 0 && !r.Truncated {
		return o // as most calls are
	}
	o.Rest = &keptRest{
		Stdout: r.Stdout, Stderr: r.Stderr, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		StdoutFile: r.StdoutFile, StderrFile: r.StderrFile, OutputDir: r.OutputDir, Outputs: r.Outputs, Truncated: r.Truncated,
	}
	if te, ok := errors.AsType[*TaskError](r.Err); ok {
		f := &keptFailure{
			Name: te.Name, Signal: te.Signal, Tail: te.Tail, Stack: te.Stack, Attempt: te.Attempt, Cause: int(te.Cause), ExitCode: te.ExitCode,
		}
		if te.Err != nil {
			f.Text, f.Kinds = te.Err.Error(), kindsOf(te.Err)
		}
		o.Rest.Failure = f
	}
	return o
}

// result undoes outcomeOf, for a call of a function or a command. Of errors the text is
// left, and what kinds they are.
func (o *keptOutcome) result(index int, n Node, function string) Result {
	r := Result{
		Index: index, Node: n, ExitCode: o.ExitCode, Attempts: o.Attempts, Elapsed: time.Duration(o.Elapsed),
		function: function, value: codec.Body{Head: o.Head, Parts: o.Parts},
	}
	if !math.IsNaN(o.USD) {
		r.CostUSD = USD(o.USD)
	}
	if o.Rest == nil {
		return r
	}
	r.Stdout, r.Stderr, r.StdoutBytes, r.StderrBytes = o.Rest.Stdout, o.Rest.Stderr, o.Rest.StdoutBytes, o.Rest.StderrBytes
	r.Truncated = o.Rest.Truncated
	r.StdoutFile, r.StderrFile, r.OutputDir, r.Outputs = o.Rest.StdoutFile, o.Rest.StderrFile, o.Rest.OutputDir, o.Rest.Outputs
	if f := o.Rest.Failure; f != nil {
		te := &TaskError{
			Index: index, Name: f.Name, Node: n, Attempt: f.Attempt, Cause: Cause(f.Cause), ExitCode: f.ExitCode,
			Signal: f.Signal, Tail: f.Tail, Stack: f.Stack,
		}
		if f.Text != "" {
			te.Err = &keptError{f.Text, f.Kinds}
		}
		r.Err = te
	}
	return r
}

// A keptError is an error of an earlier program.
type keptError struct {
	text  string
	kinds []string
}

func (e *keptError) Error() string { return e.text }

func (e *keptError) Is(target error) bool {
	for _, kind := range e.kinds {
		if errorKinds[kind] == target {
			return true
		}
	}
	return false
}

var errorKinds = map[string]error{
	"invalid": ErrInvalid, "no offers": ErrNoOffers, "no capacity": ErrNoCapacity, "quota": ErrQuota, "auth": ErrAuth, "rate": ErrRateLimited,
	"not found": ErrNotFound, "unsupported": ErrUnsupported, "unavailable": ErrUnavailable, "preempted": ErrPreempted, "node lost": ErrNodeLost,
	"host key": ErrHostKey, "bootstrap": ErrBootstrap, "closed": ErrClosed, "expired": ErrExpired, "budget": ErrBudget, "no init": ErrNoInit,
	"unknown function": ErrUnknownFunction, "timeout": ErrTimeout, "memory": ErrOutOfMemory, "limit": ErrLimit, "ledger": ErrLedger, "fenced": ErrFenced, "in use": ErrInUse,
	"cancelled": context.Canceled, "deadline": context.DeadlineExceeded, "disk full": syscall.ENOSPC,
}

func kindsOf(err error) (kinds []string) {
	for name, kind := range errorKinds {
		if errors.Is(err, kind) {
			kinds = append(kinds, name)
		}
	}
	return kinds
}

// optional returns a price's dollars, or nil where it is not known.
func optional(p Price) *float64 {
	usd, known := p.USD()
	if !known {
		return nil
	}
	return &usd
}

func priceOf(usd *float64) Price {
	if usd == nil {
		return Price{}
	}
	return USD(*usd)
}
