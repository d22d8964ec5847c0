package rest

import (
	"context"
	"time"
)

// A Limiter spaces calls: no span of its length, wherever it begins, sees more than
// its number of them. Clients may share one.
//
// A token bucket, as in golang.org/x/time/rate, lets through up to twice the number
// in a span that begins as a rest ends, which APIs that count answer with 429.
type Limiter struct {
	turn mutex // held by the call that goes next
	span time.Duration
	past []time.Time // when the last calls went, as a ring
	next int         // the oldest of past
}

// NewLimiter returns a limiter of n calls, at least one, in a span of time.
func NewLimiter(n int, span time.Duration) *Limiter {
	return &Limiter{turn: make(mutex, 1), span: span, past: make([]time.Time, max(n, 1))}
}

// wait returns when the next call may go by all of the limiters, in the order of
// asking at each. A call that gives up takes nothing from the others. The first is the
// narrowest: its turn is held while the call waits at the next, so that it counts from
// when the call goes.
func wait(ctx context.Context, limits ...*Limiter) error {
	for _, l := range limits {
		if err := l.turn.lock(ctx); err != nil {
			return err
		}
		defer l.turn.unlock()
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

// A mutex is one that a context can end the wait for. It is made with room for one.
type mutex chan struct{}

func (m mutex) lock(ctx context.Context) error {
	select {
	case m <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (m mutex) unlock() { <-m }
