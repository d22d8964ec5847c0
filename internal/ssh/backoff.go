package ssh

import (
	"context"
	"math/rand/v2"
	"time"
)

// A backoff spaces attempts. Each wait is twice the one before, up to a bound, minus a random part of up to half, so
// that clients do not retry in step.
type backoff struct {
	next, most time.Duration
}

// pause waits for the next attempt. It reports whether ctx is still alive.
func (b *backoff) pause(ctx context.Context) bool {
	wait := b.next - rand.N(b.next/2+1)
	b.next = min(2*b.next, b.most)
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
