package gputrain

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// patience is how long a call that can be repeated is tried again, where the
// provider gives no real answer. A call that hangs counts for hanging at most: what
// takes longer may be this program that was asleep, and has not tried at all.
const patience, hanging = 30 * time.Second, 10 * time.Second

// patiently makes a call of the provider that is harmless to repeat, until there is a
// real answer, patience is over, or ctx ends.
func patiently(ctx context.Context, call func() error) error {
	left := patience
	var last error
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		begun := now()
		err := call()
		if err != nil && last != nil && ctx.Err() != nil && isCut(err) {
			err = fmt.Errorf("%w; before that: %w", err, last)
		}
		last = err
		left -= min(now().Sub(begun), hanging)
		if err == nil || !isTransient(err) || left < 0 || !sleep(ctx, wait) {
			return err
		}
		left -= wait
	}
}

// isCut reports whether a call failed since its context has ended.
func isCut(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isTransient reports whether the same call may well succeed a little later.
func isTransient(err error) bool {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, ErrClosed):
		return false
	case errors.Is(err, ErrRateLimited):
		return true
	}
	return !isSettled(err)
}
