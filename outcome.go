package gputrain

import (
	"context"
	"errors"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
)

// A keptOutcome is a Result as a journal has it.
type keptOutcome struct {
	ID                         string
	Index                      int
	Node                       keptPlace
	ExitCode                   int
	Stdout, Stderr             []byte
	StdoutBytes, StderrBytes   int64
	StdoutFile, StderrFile     string
	OutputDir                  string
	Outputs                    []OutputFile
	Attempts                   int
	Elapsed                    int64
	USD                        *float64
	Function                   string
	Head                       []byte
	Parts                      [][]byte
	Failed                     bool
	Name, Signal, Tail, Stack  string
	Attempt, Cause, ErrorsExit int
	Text                       string   // of the cause
	Kinds                      []string // of it
}

// A keptPlace is what is kept of the Node of a result.
type keptPlace struct {
	Rank                           int
	ID, Name                       string
	State                          int
	Provider, Region, InstanceType string
	USD                            *float64
	PublicAddr, PrivateAddr        string
	OS, Arch                       string
	VCPUs                          int
	MemoryGiB                      float64
	Labels                         map[string]string
}

func outcomeOf(id string, r Result) keptOutcome {
	o := keptOutcome{
		ID: id, Index: r.Index, Node: placeOfNode(r.Node), ExitCode: r.ExitCode, Stdout: r.Stdout, Stderr: r.Stderr, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		StdoutFile: r.StdoutFile, StderrFile: r.StderrFile, OutputDir: r.OutputDir, Outputs: r.Outputs, Attempts: r.Attempts, Elapsed: int64(r.Elapsed),
		USD: optional(r.CostUSD), Function: r.function, Head: r.value.Head, Parts: r.value.Parts,
	}
	var te *TaskError
	if errors.As(r.Err, &te) {
		o.Failed, o.Name, o.Signal, o.Tail, o.Stack, o.Attempt, o.Cause, o.ErrorsExit = true, te.Name, te.Signal, te.Tail, te.Stack, te.Attempt, int(te.Cause), te.ExitCode
		if te.Err != nil {
			o.Text, o.Kinds = te.Err.Error(), kindsOf(te.Err)
		}
	}
	return o
}

// result undoes outcomeOf. Of errors the text is left, and what kinds they are.
func (o *keptOutcome) result() Result {
	r := Result{
		Index: o.Index, Node: o.Node.node(), ExitCode: o.ExitCode, Stdout: o.Stdout, Stderr: o.Stderr, StdoutBytes: o.StdoutBytes, StderrBytes: o.StderrBytes,
		StdoutFile: o.StdoutFile, StderrFile: o.StderrFile, OutputDir: o.OutputDir, Outputs: o.Outputs, Attempts: o.Attempts, Elapsed: time.Duration(o.Elapsed),
		CostUSD: priceOf(o.USD), function: o.Function, value: codec.Body{Head: o.Head, Parts: o.Parts},
	}
	if o.Failed {
		te := &TaskError{
			Index: o.Index, Name: o.Name, Node: r.Node, Attempt: o.Attempt, Cause: Cause(o.Cause), ExitCode: o.ErrorsExit,
			Signal: o.Signal, Tail: o.Tail, Stack: o.Stack,
		}
		if o.Text != "" {
			te.Err = &keptError{o.Text, o.Kinds}
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
	"unknown function": ErrUnknownFunction, "timeout": ErrTimeout, "memory": ErrOutOfMemory, "ledger": ErrLedger, "fenced": ErrFenced, "in use": ErrInUse,
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

func placeOfNode(n Node) keptPlace {
	return keptPlace{
		Rank: n.Rank, ID: n.ID, Name: n.Name, State: int(n.State), Provider: n.Provider, Region: n.Region, InstanceType: n.InstanceType, USD: optional(n.HourlyUSD),
		PublicAddr: n.PublicAddr, PrivateAddr: n.PrivateAddr, OS: n.OS, Arch: n.Arch, VCPUs: n.VCPUs, MemoryGiB: n.MemoryGiB, Labels: n.labels,
	}
}

func (p keptPlace) node() Node {
	return Node{
		Rank: p.Rank, ID: p.ID, Name: p.Name, State: NodeState(p.State), Provider: p.Provider, Region: p.Region, InstanceType: p.InstanceType, HourlyUSD: priceOf(p.USD),
		PublicAddr: p.PublicAddr, PrivateAddr: p.PrivateAddr, OS: p.OS, Arch: p.Arch, VCPUs: p.VCPUs, MemoryGiB: p.MemoryGiB, labels: p.Labels,
	}
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
