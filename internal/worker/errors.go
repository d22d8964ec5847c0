package worker

import (
	"errors"

	"github.com/gputrain/gputrain/internal/printable"
)

var (
	// ErrProtocol means that the other side speaks another version of the protocol, or none.
	ErrProtocol = errors.New("worker protocol mismatch")
	// ErrBinary means that the node runs another program than the client expects.
	ErrBinary = errors.New("the node runs another program")
	// ErrUnknownFunction means that the node's program has no such function.
	ErrUnknownFunction = errors.New("unknown function")
	// ErrUnknownCall means that a call to be collected was not adopted, or was collected or dropped already.
	ErrUnknownCall = errors.New("unknown call")
	// ErrStream means that a call to be collected has a stream. Its items belonged to the client that made it: the call
	// can only be dropped.
	ErrStream = errors.New("a call with a stream cannot be taken over")
	// ErrFenced means that a newer client has taken over the worker.
	ErrFenced = errors.New("a newer client has taken over the worker")
	// ErrWorkerLost means that the worker's process ended, or was not there, while a call needed it. Whether the
	// function ran is unknown.
	ErrWorkerLost = errors.New("the worker is gone")
	// ErrAbandoned means that a function ignored the end of its context for longer than the grace. It may still run;
	// its result is dropped.
	ErrAbandoned = errors.New("the function ignores that its context has ended")
	// ErrTooLarge means that a result, or an item of a stream, is longer than
	// [Hello.ResultBytes].
	ErrTooLarge = errors.New("larger than the limit")
	// ErrOverdue means that the node did not enforce a call's Timeout, and had not answered long after it. The caller
	// gives the node up.
	ErrOverdue = errors.New("the node did not keep a time limit")
	// ErrClosed means that the client was closed.
	ErrClosed = errors.New("the worker client is closed")
)

// A Kind is the way in which a function failed.
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

// A RemoteError is the failure of a function on the node. It unwraps to those error values that both the node's program
// and this one know: the context's errors, a few of the standard library's, and those added by [RegisterError].
type RemoteError struct {
	// Function is the name of the function.
	Function string
	Kind     Kind
	// Message is the error's text, or the panic's value printed.
	Message string
	// Type is the Go type of the error or of the panic's value.
	Type string
	// Stack is the goroutine's stack at the panic.
	Stack string
	// TimedOut is true if the call had run for its whole Timeout.
	TimedOut bool

	known []error
}

// Error returns the message without control characters that a terminal would act on. For a panic it begins with
// "panic".
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

// Unwrap returns the registered errors that the error on the node matched.
func (e *RemoteError) Unwrap() []error { return e.known }
