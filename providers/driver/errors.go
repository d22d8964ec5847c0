package driver

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/printable"
)

// Kinds of failures, which a program can test with errors.Is.
var (
	// ErrInvalid means a mistake in a Spec, a Task or a Config.
	ErrInvalid = errors.New("invalid")
	// ErrNoOffers means that none of the provider's offers satisfies the spec.
	ErrNoOffers = errors.New("no offers")
	// ErrNoCapacity means that the provider has none free there now.
	ErrNoCapacity = errors.New("no capacity")
	// ErrQuota means that this account may not have more.
	ErrQuota = errors.New("quota exceeded")
	// ErrBalance means that the account has too little money for this.
	ErrBalance = errors.New("balance too low")
	// ErrAuth means that a credential is missing, wrong, or lacks a permission.
	ErrAuth = errors.New("not authorized")
	// ErrRateLimited means that the provider wants fewer calls.
	ErrRateLimited = errors.New("rate limited")
	// ErrNotFound means that the named thing does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnsupported means that the provider, or the node, cannot do this.
	ErrUnsupported = errors.New("not supported")
	// ErrUnavailable means that the provider, its engine or a node does not answer, or not yet.
	ErrUnavailable = errors.New("unavailable")
	// ErrPreempted means that the provider has taken the machine back.
	ErrPreempted = errors.New("preempted")
	// ErrHostKey means that a server shows another host key than before, or than it must. The
	// message names both fingerprints.
	ErrHostKey = errors.New("host key mismatch")
	// ErrBootstrap means that a node could not be made ready.
	ErrBootstrap = errors.New("bootstrap failed")
)

// Kinds of failures of a pool and its tasks. A driver returns none of them.
var (
	// ErrNodeLost means that a needed node was lost, more often than the task may be started
	// again.
	ErrNodeLost = errors.New("node lost")
	// ErrClosed means that the pool has ended.
	ErrClosed = errors.New("pool is closed")
	// ErrExpired means that the pool has lived for its TTL.
	ErrExpired = errors.New("pool has expired")
	// ErrBudget means that Spec.BudgetUSD is spent, or would be.
	ErrBudget = errors.New("budget exceeded")
	// ErrLedger means that the pool's ledger cannot be written or read, so that the pool rents
	// nothing.
	ErrLedger = errors.New("ledger")
	// ErrInUse means that another program has the pool.
	ErrInUse = errors.New("pool is in use by another program")
	// ErrFenced means that another program has taken the pool over with Attach.
	ErrFenced = errors.New("pool was taken over by another program")
	// ErrNoInit means that main, or TestMain, does not call Init first.
	ErrNoInit = errors.New("gputrain.Init was not called")
	// ErrUnknownFunction means that the node's program has no such function.
	ErrUnknownFunction = errors.New("unknown function")
	// ErrTimeout means that a task ran longer than its Timeout.
	ErrTimeout = errors.New("timed out")
	// ErrOutOfMemory means that the kernel killed a task because of its memory.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrStalled means that a task made no progress for its StallTimeout, or its StartTimeout.
	ErrStalled = errors.New("stalled")
	// ErrIdle means that accelerators did nothing for an IdleTimeout.
	ErrIdle = errors.New("idle")
	// ErrAccelerator means that an accelerator is broken.
	ErrAccelerator = errors.New("accelerator failed")
	// ErrNoProgress means that a training gets no further, however often it starts again.
	ErrNoProgress = errors.New("no progress")
	// ErrLimit means that a node sent more than gputrain.Limits allow.
	ErrLimit = errors.New("limit exceeded")
)

// An Error is a provider's or a pool's failure. It unwraps to its kind and to
// its cause, so that errors.Is(err, ErrQuota) and errors.As both work.
type Error struct {
	// Provider is the provider's name. Op is the failed operation: "launch".
	Provider, Op string
	// Kind is one of the Err values above, or nil.
	Kind error
	// RequestID is for the provider's support desk, if there is one.
	RequestID string
	// Hint suggests what to do, if that is known.
	Hint string
	// Err is the cause.
	Err error
}

// Error returns provider, operation, kind, cause and hint in one line, without repeated words
// and without control characters: parts of the text come from clouds and nodes.
func (e *Error) Error() string {
	text := e.summary()
	if e.Provider != "" { // also for errors of the same provider inside
		text = strings.TrimPrefix(strings.ReplaceAll(": "+text, ": "+e.Provider+": ", ": "), ": ")
		text = e.Provider + ": " + text
	}
	if e.RequestID != "" || e.Hint != "" {
		text = strings.TrimSuffix(text, ".") // the end of a cloud's sentence
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return printable.Text(text)
}

// summary returns operation, kind and cause. It omits a part that another one contains.
func (e *Error) summary() string {
	op, kind, cause := e.Op, "", ""
	if e.Kind != nil {
		kind = e.Kind.Error()
	}
	if e.Err != nil {
		cause = e.Err.Error()
	}
	if cause != "" && (errors.Is(e.Err, e.Kind) || slices.Contains(strings.Split(cause, ": "), kind)) {
		kind = ""
	}
	next, _, _ := strings.Cut(cmp.Or(kind, cause), ": ")
	switch {
	case kind != "" && hasWords(op, kind):
		kind = ""
	case hasWords(next, op):
		op = ""
	}
	parts := slices.DeleteFunc([]string{op, kind, cause}, func(s string) bool { return s == "" })
	if kind == "" && cause == "" {
		parts = append(parts, "failed")
	}
	return strings.Join(parts, ": ")
}

// hasWords reports whether a text contains all words of another one, which is not empty.
func hasWords(text, words string) bool {
	has := strings.Fields(text)
	for _, word := range strings.Fields(words) {
		if !slices.Contains(has, word) {
			return false
		}
	}
	return words != ""
}

// Unwrap returns the kind and the cause.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// A PartialError means that some of the sources of a driver's offers could not be asked. The
// offers of the others are valid.
type PartialError struct {
	// Sources are the sources that could not be asked, with the reasons.
	Sources []SourceError
}

// A SourceError is the reason why a provider could not be asked for its offers.
type SourceError struct {
	Provider string
	Err      error
}

// Error returns the errors of all sources, each on a line of its own.
func (e *PartialError) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap returns the errors of the sources.
func (e *PartialError) Unwrap() []error {
	errs := make([]error, len(e.Sources))
	for i, s := range e.Sources {
		errs[i] = s.Err
	}
	return errs
}
