package gputrain

import "time"

// A CallError is an error by which a [Driver] says whether the provider answered a call
// that failed. It may be anywhere in the chain of the error that the driver returns. Of an
// error that has none in its chain it is not known: the pool then waits for
// Capabilities.LateEffect at its end.
type CallError interface {
	error
	// Answered reports whether the provider answered every attempt at the call that it was
	// sent, be it with an internal error: no request is on its way any more, and what was
	// made is made. An answer of a gateway that it has heard nothing (502, 504) is none.
	Answered() bool
}

// isAnswered reports whether the provider has answered a call that failed so: it has said
// no, or the error is a [CallError] that says so. Of several errors that are joined each
// must be one of these.
func isAnswered(err error) bool {
	if call, ok := err.(CallError); ok {
		return call.Answered()
	}
	switch e := err.(type) {
	case nil:
		return true
	case *Error:
		return isSettled(e) || e.Err != nil && isAnswered(e.Err)
	case interface{ Unwrap() error }:
		cause := e.Unwrap()
		return cause != nil && isAnswered(cause)
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			if !isAnswered(joined) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	}
	return isSettled(err)
}

// Settling says that the driver looks for what an unanswered call may have made, why, and
// until when at the latest: until its provider's lists lack nothing any more. The pool
// emits that as an [EventPool] of state "settling", and looks no longer itself. A pool that
// is not one of [Open] ignores it.
func (p PoolInfo) Settling(why error, until time.Time) {
	if p.settling != nil {
		p.settling(why, until)
	}
}

// WithSettling returns a pool whose Settling calls settling, for tests of drivers.
func (p PoolInfo) WithSettling(settling func(why error, until time.Time)) PoolInfo {
	p.settling = settling
	return p
}

// settling emits what the pool waits for, and until when at the latest.
func (p *pool) settling(why error, until time.Time) {
	p.events.emit(Event{Kind: EventPool, State: "settling", Err: why, Until: until})
}
