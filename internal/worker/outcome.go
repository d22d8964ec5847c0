package worker

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/gputrain/gputrain/internal/codec"
)

// wireError is a RemoteError as it is sent.
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

// A failed call keeps at most mostKnown of the known errors that its error matched.
const mostKnown = 64

// remote returns the failure of one of the client's calls. The node is not trusted: the sizes are bounded, and what the
// client knows is not taken from it.
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

// mayTimeOut reports whether the call may have a time limit: the client does not know the limits of adopted calls.
func (c *call) mayTimeOut() bool { return c.Timeout > 0 || c.adopted != nil }

// invoke runs a handler and reports how it ended. After runtime.Goexit only deferred calls run in a goroutine, so
// finish is always deferred.
func invoke(ctx context.Context, h Handler, arg codec.Body, s *Stream, finish func(result codec.Body, failure *wireError)) {
	var (
		result  codec.Body
		failure = &wireError{Kind: Goexit}
	)
	defer func() {
		if p := recover(); p != nil {
			failure = &wireError{Kind: Panic, Message: clip(printPanic(p)), Type: fmt.Sprintf("%T", p), Stack: clip(userStack(string(debug.Stack())))}
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
