package rest

import (
	"context"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	firstWait = time.Second
	// limitedWait is how many times longer the wait is after a 429 that does not say for
	// how long: limits are commonly per minute, which this and those after it come to.
	limitedWait = 4
	maxWait     = 30 * time.Second
	// maxRetryAfter is the longest Retry-After that is waited for. Longer, and the
	// error comes at once: to call earlier would be no use, and to wait is for the caller.
	maxRetryAfter = 2 * time.Minute
)

// check decides after each attempt whether another follows. One rule is all there
// is: where it may help, and where this attempt certainly had no effect or a second
// one does no harm.
func (k *call) check(ctx context.Context, _ *http.Response, err error) (bool, error) {
	if err == nil {
		return false, nil // the answer is read next, or was good
	}
	e, answered := err.(*Error)
	if !answered {
		e = k.noAnswer(err)
	}
	before := k.failure
	k.failure = e
	e.ambiguous = e.effect && !k.safe || before != nil && before.ambiguous
	e.pending = e.effect && !k.safe && !e.byAPI() || before != nil && before.pending
	k.log(e.Status, e)
	if renew := k.client.cfg.Auth.Renew; e.Status == http.StatusUnauthorized && renew != nil && !k.renewed {
		k.renewed = true
		e.transient = renew(k.request.Request)
	}
	again := e.transient && (!e.effect || k.idempotent) && !k.once && e.RetryAfter <= maxRetryAfter
	return again && ctx.Err() == nil, nil
}

// judge says of the status of an answer that is a failure whether another attempt
// may fare better, and whether the call may have had an effect all the same. What
// refuses is believed; what fails, or stands for a server behind it, is not.
func judge(status int) (transient, effect bool) {
	switch {
	case status == http.StatusTooManyRequests:
		return true, false
	case status == http.StatusRequestTimeout, status == 499: // 499 is a proxy's: its client went away
		return true, true
	case status >= 200 && status < 300, status >= 400 && status < 500:
		return false, false
	default:
		return status >= 500 && status != http.StatusNotImplemented, true
	}
}

// backoff says how long to wait for the next attempt: as long as the server wants,
// or twice as long each time, and in both cases a bit by chance, so that clients do
// not come back in step.
func (k *call) backoff(_, _ time.Duration, n int, _ *http.Response) time.Duration {
	k.waiting = true
	wait := k.client.cfg.FirstWait
	switch after := k.failure.RetryAfter; {
	case k.failure.Status == http.StatusUnauthorized:
		return 0
	case after > 0:
		return after + rand.N(after/10+1)
	case k.failure.Status == http.StatusTooManyRequests:
		wait *= limitedWait
	}
	wait = min(wait<<min(n, 16), maxWait)
	return wait - rand.N(wait/2+1)
}

// retryAfter returns how long the header of that name asks to wait. Zero means that
// it does not say, or a time that has passed.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseUint(header, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}
