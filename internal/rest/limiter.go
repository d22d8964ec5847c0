package rest

import (
	"context"
	"time"

	"golang.org/x/sync/semaphore"
)

// A Limiter spaces calls: no span of its length, wherever it begins, has more calls than its number. Clients may share
// one.
//
// A token bucket, as in golang.org/x/time/rate, allows up to twice the number in a span that begins at the end of an
// idle time, which APIs that count answer with 429.
type Limiter struct {
	turn *semaphore.Weighted // held by the next call
	span time.Duration
	past []time.Time // when the last calls went, as a ring
	next int         // the oldest of past
}

// NewLimiter returns a limiter of n calls, at least one, per span.
func NewLimiter(n int, span time.Duration) *Limiter {
	return &Limiter{turn: semaphore.NewWeighted(1), span: span, past: make([]time.Time, max(n, 1))}
}

// wait returns when all of the limiters allow the call, in the order of asking at each. A call that gives up delays no
// other. The first limiter should be the narrowest: the call holds its turn while it waits at the next, so that it
// counts from when it is made.
func wait(ctx context.Context, limits ...*Limiter) error {
	for _, l := range limits {
		if err := l.turn.Acquire(ctx, 1); err != nil {
			return err
		}
		defer l.turn.Release(1)
		timer := time.NewTimer(time.Until(l.past[l.next].Add(l.span)))
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, l := range limits {
		l.past[l.next] = time.Now()
		l.next = (l.next + 1) % len(l.past)
	}
	return nil
}
