package gputrain

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/transfer"
)

// What can go wrong, as kinds that a program can test with errors.Is.
var (
	// ErrInvalid is a mistake in what was asked for: a Spec, a Task, a Config.
	ErrInvalid = errors.New("invalid")
	// ErrNoOffers means that nothing the provider has satisfies the spec.
	ErrNoOffers = errors.New("no offers")
	// ErrNoCapacity means that none is free there now.
	ErrNoCapacity = errors.New("no capacity")
	// ErrQuota means that this account may not have more.
	ErrQuota = errors.New("quota exceeded")
	// ErrAuth means that a credential is missing, wrong, or not enough.
	ErrAuth = errors.New("not authorized")
	// ErrRateLimited means that the provider wants fewer calls.
	ErrRateLimited = errors.New("rate limited")
	// ErrNotFound means that what was named does not exist.
	ErrNotFound = errors.New("not found")
	// ErrUnsupported means that the provider, or the node, cannot do this.
	ErrUnsupported = errors.New("not supported")
	// ErrUnavailable means that the provider, its engine or a node does not
	// answer, or not yet.
	ErrUnavailable = errors.New("unavailable")
	// ErrPreempted means that the provider took the machine back.
	ErrPreempted = errors.New("preempted")
	// ErrNodeLost means that a node was lost while it was needed, more often
	// than the task may be started again.
	ErrNodeLost = errors.New("node lost")
	// ErrHostKey means that a server is not the one it was, or not the one it
	// must be. The message names both fingerprints.
	ErrHostKey = errors.New("host key mismatch")
	// ErrBootstrap means that a node could not be made ready.
	ErrBootstrap = errors.New("bootstrap failed")
	// ErrClosed means that the pool has ended.
	ErrClosed = errors.New("pool is closed")
	// ErrExpired means that the pool has lived for its TTL.
	ErrExpired = errors.New("pool has expired")
	// ErrBudget means that Spec.BudgetUSD is spent, or would be.
	ErrBudget = errors.New("budget exceeded")
	// ErrLedger means that the pool's ledger cannot be written or read, so that
	// nothing is rented by it.
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
	// ErrOutOfMemory means that the kernel ended a task for its memory.
	ErrOutOfMemory = errors.New("out of memory")
	// ErrLimit means that a node sent more than [Limits] allow.
	ErrLimit = errors.New("limit exceeded")
	// ErrOutsideLink means that a folder of an Upload, a Download or an Image has
	// links that lead out of it. The message names them; a [FileOption], or
	// Image.FollowOutsideLinks, says what else to do with such links.
	ErrOutsideLink = transfer.ErrOutsideLink
)

// An Error is a provider's or a pool's failure. It unwraps to its kind and to
// its cause, so that errors.Is(err, ErrQuota) and errors.As both work.
type Error struct {
	// Provider is the provider's name, and Op what was being done: "launch".
	Provider, Op string
	// Kind is one of the Err values above, or nil.
	Kind error
	// RequestID is for the provider's support desk, where there is one.
	RequestID string
	// Hint says what to do next, where that is known.
	Hint string
	// Err is the cause.
	Err error
}

// Error returns provider, operation, kind, cause and hint in one line, each word of them
// once, without what a terminal would act on: clouds and nodes have a say in it.
func (e *Error) Error() string {
	text := e.what()
	if e.Provider != "" { // also of errors of the same provider within
		text = strings.TrimPrefix(strings.ReplaceAll(": "+text, ": "+e.Provider+": ", ": "), ": ")
		text = e.Provider + ": " + text
	}
	if e.RequestID != "" || e.Hint != "" {
		text = strings.TrimSuffix(text, ".") // of a cloud's sentence
	}
	if e.RequestID != "" {
		text += " (request " + e.RequestID + ")"
	}
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	return printable.Text(text)
}

// what returns operation, kind and cause, without the one whose words another one has.
func (e *Error) what() string {
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

// hasWords reports whether a text has all words of another one, which is not empty.
func hasWords(text, words string) bool {
	has := strings.Fields(text)
	for _, word := range strings.Fields(words) {
		if !slices.Contains(has, word) {
			return false
		}
	}
	return words != ""
}

// afterColon returns a colon and why something is so, or nothing if that is not known.
func afterColon(why string) string {
	if why == "" {
		return ""
	}
	return ": " + why
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
