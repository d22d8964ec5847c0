package sim

import (
	"context"
	"sync"
	"time"
)

// A life tracks what runs in a cloud beside its calls: timers, machines, late effects and
// servers.
type life struct {
	mu     *sync.Mutex    // the cloud's, which guards closed and timers
	wg     sync.WaitGroup // everything that runs
	ctx    context.Context
	cancel context.CancelFunc
	closed bool
	timers map[*time.Timer]bool
}

// after calls f after a while, with mu held, unless the cloud is closed before. mu is held.
func (l *life) after(d time.Duration, f func()) *time.Timer {
	if l.closed {
		return nil
	}
	l.wg.Add(1)
	var t *time.Timer
	t = time.AfterFunc(d, func() {
		defer l.wg.Done()
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.timers, t)
		if !l.closed {
			f()
		}
	})
	l.timers[t] = true
	return t
}

// stopTimer stops a timer of after. mu is held.
func (l *life) stopTimer(t *time.Timer) {
	if t != nil && l.timers[t] && t.Stop() {
		delete(l.timers, t)
		l.wg.Done()
	}
}

// close stops all timers and prevents new ones. mu is held.
func (l *life) close() {
	l.closed = true
	for t := range l.timers {
		l.stopTimer(t)
	}
}

// pause waits for d. Its error is the reason for a shorter wait.
func (l *life) pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-l.ctx.Done():
		return errRefused
	}
}
