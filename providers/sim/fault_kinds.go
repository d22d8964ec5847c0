package sim

import (
	"time"

	"github.com/gputrain/gputrain/providers/driver/fault"
)

// faultKinds translates the kinds of package fault: faults before a call is executed, and after.
var faultKinds = map[fault.Kind]struct{ before, after Kind }{
	fault.Failed:      {before: ErrorBefore, after: ErrorAfter},
	fault.Unavailable: {before: Unavailable, after: ErrorAfter},
	fault.RateLimited: {before: RateLimited},
	fault.Cut:         {before: Refused, after: Lost},
	fault.HTML:        {after: Garbage},
	fault.Hang:        {before: Delay, after: SlowAnswer},
	fault.Undone:      {before: Ignored},
}

// hangs is the duration of a hanging call: longer than any caller waits.
const hangs = time.Hour

// FaultOf returns the rule for the fault f, for the conformance suite on a cloud of this
// package. ok is false if this API has no such fault.
func FaultOf(op Op, f fault.Fault) (rule Fault, ok bool) {
	kind := faultKinds[f.Kind].before
	if reads := op == "" || op == OpOffers || op == OpDescribe || op == OpList; f.After || f.Kind == fault.HTML && reads {
		kind = faultKinds[f.Kind].after // a read has no effect: before and after are the same
	}
	rule = Fault{Op: op, Nth: 1, Count: f.Times, Kind: kind, For: f.RetryAfter}
	if f.Times < 0 {
		rule.Nth = 0
	}
	if f.Kind == fault.Hang {
		rule.For = hangs
	}
	return rule, kind != None
}
