package worker

import (
	"errors"

	"github.com/gputrain/gputrain/internal/printable"
)

var (
	// ErrProtocol means that the other side does not speak this version of the
	// protocol, or does not speak it at all.
	ErrProtocol = errors.New("worker protocol mismatch")
	// ErrBinary means that the node runs another program than the client has.
	ErrBinary = errors.New("the node runs another program")
	// ErrUnknownFunction means that the node's program has no such function.
	ErrUnknownFunction = errors.New("unknown function")
	// ErrUnknownCall means that a call that was to be collected is not among
	// those that were adopted, or was collected or dropped already.
	ErrUnknownCall = errors.New("unknown call")
	// ErrStream means that a call that was to be collected has a stream. What its
	// items were to is gone with the client that made it: it can only be dropped.
	ErrStream = errors.New("a call with a stream cannot be taken over")
	// ErrFenced means that a newer client has taken over the worker.
	ErrFenced = errors.New("a newer client has taken over the worker")
	// ErrWorkerLost means that the worker's process ended, or was not there,
	// while a call needed it. Whether the function ran is not known.
	ErrWorkerLost = errors.New("the worker is gone")
	// ErrAbandoned means that a function went on after its context had ended
	// and the grace was over. It may still be running; its result is dropped.
	ErrAbandoned = errors.New("the function ignores that its context has ended")
	// ErrTooLarge means that a result, or an item of a stream, is longer than
	// [Hello.ResultBytes].
	ErrTooLarge = errors.New("larger than the limit")
	// ErrOverdue means that the node did not keep a call's Timeout: long after it the
	// node had not answered. The caller gives the node up.
	ErrOverdue = errors.New("the node did not keep a time limit")
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("the worker client is closed")
)

// A Kind says how a function failed.
type Kind string

const (
	// Failed means that the function returned an error.
	Failed Kind = "error"
	// Panic means that it panicked.
	Panic Kind = "panic"
	// Goexit means that it ended its goroutine with runtime.Goexit, as
	// testing's FailNow does.
	Goexit Kind = "goexit"
	// NotRun means that the worker refused or ended the call by itself.
	NotRun Kind = "not run"
)

// A RemoteError is how a function failed on the node. It unwraps to those
// values that were known to the node's program and are known to this one:
// the context's errors, a few of the standard library's, and what
// [RegisterError] added.
type RemoteError struct {
	// Function is the name of the function.
	Function string
	Kind     Kind
	// Message is the error's text, or the panic's value printed.
	Message string
	// Type is the Go type of the error or of the panic's value.
	Type string
	// Stack is the goroutine's stack where it panicked.
	Stack string
	// TimedOut is true where the call had run for its whole Timeout.
	TimedOut bool

	known []error
}

// Error returns the message of an error, without what a terminal would act on. For
// panics it says so.
func (e *RemoteError) Error() string {
	message := printable.Text(e.Message)
	switch e.Kind {
	case Panic:
		return "panic in function " + e.Function + ": " + message
	case Goexit:
		return "function " + e.Function + " ended its goroutine without returning"
	}
	return message
}

// Unwrap returns the registered errors that the error on the node was.
func (e *RemoteError) Unwrap() []error { return e.known }
