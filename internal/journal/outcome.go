package journal

import (
	"context"
	"errors"
	"syscall"

	"github.com/gputrain/gputrain/providers/driver"
)

// An Outcome is how a task ended. What it shares with its [Unit] is there.
type Outcome struct {
	_        struct{} `cbor:",toarray"`
	ID       string   // of the task
	Location int      // the number of the Location, which [Journal.Concluded] sets, or zero
	ExitCode int
	Attempts int
	Elapsed  int64
	USD      float64 // NaN if it is not known
	Head     []byte  // of what the function returned
	Parts    [][]byte
	More     *OutcomeDetails // nil for most calls of functions
}

// OutcomeDetails are the fields that commands have and most calls of functions lack.
type OutcomeDetails struct {
	Stdout      []byte       `cbor:",omitempty"`
	Stderr      []byte       `cbor:",omitempty"`
	StdoutBytes int64        `cbor:",omitempty"`
	StderrBytes int64        `cbor:",omitempty"`
	StdoutFile  string       `cbor:",omitempty"`
	StderrFile  string       `cbor:",omitempty"`
	OutputDir   string       `cbor:",omitempty"`
	Outputs     []OutputFile `cbor:",omitempty"`
	Truncated   bool         `cbor:",omitempty"`
	Failure     *Failure     `cbor:",omitempty"` // nil if the task succeeded
}

// An OutputFile is one file that a task left.
type OutputFile struct {
	Name    string
	Size    int64
	SHA256  string
	Attempt int `cbor:",omitempty"`
}

// A Failure is why a task failed.
type Failure struct {
	Name, Signal, Tail, Stack string
	Attempt, Cause, ExitCode  int
	Text                      string   // of the error, if there is one
	Kinds                     []string // which of the kinds that error is

	Rank int   `cbor:",omitempty"` // of the process that failed
	Step int64 `cbor:",omitempty"` // the last that was reported
}

// SetErr keeps the text and the kinds of an error, which may be nil.
func (f *Failure) SetErr(err error) {
	if err == nil {
		return
	}
	f.Text, f.Kinds = err.Error(), nil
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			f.Kinds = append(f.Kinds, k.name)
		}
	}
}

// Err returns an error of the same text and kinds as [Failure.SetErr] was given, or nil if
// the text is empty.
func (f *Failure) Err() error {
	if f.Text == "" {
		return nil
	}
	return &formerError{f.Text, f.Kinds}
}

// A formerError is an error that an earlier program had.
type formerError struct {
	text  string
	kinds []string
}

func (e *formerError) Error() string { return e.text }

func (e *formerError) Is(target error) bool {
	for _, name := range e.kinds {
		for _, k := range kinds {
			if k.name == name && k.err == target {
				return true
			}
		}
	}
	return false
}

// kinds are the errors that are kept by name.
var kinds = []struct {
	name string
	err  error
}{
	{"invalid", driver.ErrInvalid}, {"no offers", driver.ErrNoOffers}, {"no capacity", driver.ErrNoCapacity}, {"quota", driver.ErrQuota}, {"balance", driver.ErrBalance},
	{"auth", driver.ErrAuth}, {"rate", driver.ErrRateLimited}, {"not found", driver.ErrNotFound}, {"unsupported", driver.ErrUnsupported},
	{"unavailable", driver.ErrUnavailable}, {"preempted", driver.ErrPreempted}, {"node lost", driver.ErrNodeLost}, {"host key", driver.ErrHostKey},
	{"bootstrap", driver.ErrBootstrap}, {"closed", driver.ErrClosed}, {"expired", driver.ErrExpired}, {"budget", driver.ErrBudget},
	{"no init", driver.ErrNoInit}, {"unknown function", driver.ErrUnknownFunction}, {"timeout", driver.ErrTimeout}, {"memory", driver.ErrOutOfMemory},
	{"stalled", driver.ErrStalled}, {"idle", driver.ErrIdle}, {"accelerator", driver.ErrAccelerator}, {"no progress", driver.ErrNoProgress},
	{"limit", driver.ErrLimit}, {"ledger", driver.ErrLedger}, {"fenced", driver.ErrFenced}, {"in use", driver.ErrInUse},
	{"cancelled", context.Canceled}, {"deadline", context.DeadlineExceeded}, {"disk full", syscall.ENOSPC},
}
