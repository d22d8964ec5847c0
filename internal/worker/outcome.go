package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gputrain/gputrain/internal/codec"
)

// wireError is a RemoteError on its way.
type wireError struct {
	_        struct{} `cbor:",toarray"`
	Kind     Kind
	Function string
	Message  string
	Type     string
	Stack    string
	TimedOut bool
	Known    []string
}

// maxErrorText bounds messages and stacks.
const maxErrorText = 64 << 10

// A call that failed keeps mostKnown of the errors that its own was, at most.
const mostKnown = 64

// remote is the failure of one of the client's calls. The node may say anything: what is
// kept of it is bounded, and nothing of what the client knows itself is taken from it.
func (e *wireError) remote(c *call) *RemoteError {
	kind := e.Kind
	if kind != Panic && kind != Goexit && kind != NotRun {
		kind = Failed
	}
	return &RemoteError{
		Function: c.Function, Kind: kind, Message: clip(e.Message), Type: clip(e.Type), Stack: clip(e.Stack),
		TimedOut: e.TimedOut && c.mayTimeOut(), known: sentinels.values(e.Known[:min(len(e.Known), mostKnown)]),
	}
}

// mayTimeOut reports whether the call may have a time limit: of one that was adopted this
// client does not know.
func (c *call) mayTimeOut() bool { return c.Timeout > 0 || c.adopted != nil }

// invoke runs a handler and reports how it ended. After runtime.Goexit nothing
// but deferred calls runs in a goroutine: so finish does in any case.
func invoke(ctx context.Context, h Handler, arg codec.Body, s *Stream, finish func(result codec.Body, failure *wireError)) {
	var (
		result  codec.Body
		failure = &wireError{Kind: Goexit}
	)
	defer func() {
		if p := recover(); p != nil {
			failure = &wireError{Kind: Panic, Message: clip(printPanic(p)), Type: fmt.Sprintf("%T", p), Stack: clip(string(debug.Stack()))}
		}
		if failure != nil {
			result = codec.Body{}
		}
		finish(result, failure)
	}()
	var err error
	if result, err = h(ctx, arg, s); err == nil {
		failure = nil
		return
	}
	// The methods of err are the user's: they run under the same recover.
	failure = &wireError{Kind: Failed, Message: clip(err.Error()), Type: fmt.Sprintf("%T", err), Known: sentinels.matching(err)}
}

// printPanic prints a panic's value. fmt itself survives methods that panic.
func printPanic(p any) string { return fmt.Sprint(p) }

func clip(s string) string {
	if len(s) <= maxErrorText {
		return s
	}
	return strings.Clone(s[:maxErrorText]) + " [cut]"
}
