// Package retry decides which failures of a provider may pass, and repeats calls that are harmless to repeat.
package retry

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

// A call is tried again for patience. One attempt counts for mostOfACall at most: if it took longer, this program may
// have been asleep, and not have tried at all.
const patience, mostOfACall = 30 * time.Second, 10 * time.Second

// Call makes a call of a provider that is harmless to repeat, until it is answered, patience
// is over, or ctx ends.
func Call(ctx context.Context, call func() error) error {
	left := patience
	var last error
	for wait := 200 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		begun := time.Now()
		err := call()
		if err != nil && last != nil && ctx.Err() != nil && isCut(err) {
			err = fmt.Errorf("%w; before that: %w", err, last)
		}
		last = err
		left -= min(time.Since(begun), mostOfACall)
		if err == nil || !IsTransient(err) || left < 0 || !Sleep(ctx, wait) {
			return err
		}
		left -= wait
	}
}

// Sleep waits, and reports whether ctx allows more.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// isCut reports whether a call failed because its context has ended.
func isCut(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// IsTransient reports whether the same call may well succeed a little later.
func IsTransient(err error) bool {
	switch {
	case errors.Is(err, context.Canceled), errors.Is(err, driver.ErrClosed):
		return false
	case errors.Is(err, driver.ErrRateLimited):
		return true
	}
	return !IsRefused(err)
}

// IsRefused reports whether a launch that failed with this error made nothing beyond what it returned: the provider
// refused it.
func IsRefused(err error) bool {
	for _, kind := range []error{
		driver.ErrNoCapacity, driver.ErrQuota, driver.ErrBalance, driver.ErrAuth, driver.ErrInvalid, driver.ErrNoOffers, driver.ErrUnsupported, driver.ErrRateLimited, driver.ErrNotFound,
	} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

// IsAnswered reports whether the provider has answered a call that failed with this error: it refused, or the error is
// a [driver.CallError] that reports so. Of several joined errors each must be one of these.
func IsAnswered(err error) bool {
	if call, ok := err.(driver.CallError); ok {
		return call.Answered()
	}
	switch e := err.(type) {
	case nil:
		return true
	case *driver.Error:
		return IsRefused(e) || e.Err != nil && IsAnswered(e.Err)
	case interface{ Unwrap() error }:
		cause := e.Unwrap()
		return cause != nil && IsAnswered(cause)
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			if !IsAnswered(joined) {
				return false
			}
		}
		return len(e.Unwrap()) > 0
	}
	return IsRefused(err)
}
