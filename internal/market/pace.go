package market

import (
	"context"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/retry"
)

// Launches of a market begin at least launchEvery apart.
const launchEvery = 100 * time.Millisecond

// A pace keeps launches apart. Its zero value allows one at once.
type pace struct {
	mu   sync.Mutex
	next time.Time // when the next launch may begin; guarded by mu
}

// wait blocks until the next launch may begin, or returns why ctx ended.
func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	at := time.Now()
	if p.next.Before(at) {
		p.next = at
	}
	pause := p.next.Sub(at)
	p.next = p.next.Add(launchEvery)
	p.mu.Unlock()
	if pause > 0 && !retry.Sleep(ctx, pause) {
		return context.Cause(ctx)
	}
	return ctx.Err()
}
