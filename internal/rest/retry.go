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
	// Without a Retry-After the wait after a 429 is limitedWait times longer: limits are usually
	// per minute, and the first waits then add up to a minute.
	limitedWait = 4
	maxWait     = 30 * time.Second
	// A call waits at most maxRetryAfter for a Retry-After. If the API asks for more, the call
	// fails at once: an earlier attempt would be useless, and whether to wait longer is the
	// caller's decision.
	maxRetryAfter = 2 * time.Minute
)

// check decides after each attempt whether another follows. The one rule is: another follows if it may help, and if
// this attempt certainly had no effect or a second one does no harm.
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

// judge returns, for the status of a failure, whether another attempt may succeed, and whether the
// call may have had an effect. An API's refusal is trusted; a failure, or a gateway's answer, is
// not.
func judge(status int) (transient, effect bool) {
	switch {
	case status == http.StatusTooManyRequests:
		return true, false
	case status == http.StatusRequestTimeout, status == 499: // a proxy answers 499 when its client has gone away
		return true, true
	case status >= 200 && status < 300, status >= 400 && status < 500:
		return false, false
	default:
		return status >= 500 && status != http.StatusNotImplemented, true
	}
}

// backoff returns how long to wait for the next attempt: as long as the server asks, or twice as long each time, in
// both cases with a random part, so that clients do not retry in step.
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

// retryAfter returns how long the named header asks to wait. Zero means that it does not ask, or names a past time.
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
