package worker

import (
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/providers/driver"
)

// stalledMark is the payload of a frameCancel for a call that has stalled.
const stalledMark = "stalled"

// errStalled is the cause of the end of the context of a function that has stalled.
var errStalled = fmt.Errorf("the call: %w", driver.ErrStalled)

// markOf returns the payload of a frameCancel for the cause of the end of a call's context, or nil for most.
func markOf(cause error) payload {
	if errors.Is(cause, driver.ErrStalled) {
		return raw(stalledMark)
	}
	return nil
}

// causeOf reverses markOf.
func causeOf(mark []byte) error {
	if string(mark) == stalledMark {
		return errStalled
	}
	return nil
}
