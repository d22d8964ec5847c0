package gputrain

import (
	"context"
	"errors"
	"time"
)

// patience is how long a call that can be repeated is tried again, where the
// provider gives no real answer.
const patience = 30 * time.Second

// patiently makes a call of the provider that is harmless to repeat, until there is a
// real answer, patience is over, or ctx ends.
func patiently(ctx context.Context, call func() error) error {
	deadline := now().Add(patience)
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := call()
		if err == nil || !isTransient(err) || now().After(deadline) || !sleep(ctx, wait) {
			return err
		}
	}
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
