package ssh

import (
	"context"
	"sync"
)

// At most maxStartups connections to one address are being set up at once. OpenSSH refuses some at random from 10 on
// (MaxStartups 10:30:100).
const maxStartups = 8

// startups is shared by all clients of this process, since the server counts them together.
var startups = limiter{slots: map[string]*slots{}}

// A limiter bounds the concurrent holders of a slot, separately for each key.
type limiter struct {
	mu    sync.Mutex
	slots map[string]*slots
}

type slots struct {
	taken chan struct{}
	users int // goroutines that hold a slot or wait for one
}

// acquire waits for a slot. An empty key has no limit.
func (l *limiter) acquire(ctx context.Context, key string) (release func(), err error) {
	if key == "" {
		return func() {}, nil
	}
	l.mu.Lock()
	s := l.slots[key]
	if s == nil {
		s = &slots{taken: make(chan struct{}, maxStartups)}
		l.slots[key] = s
	}
	s.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if s.users--; s.users == 0 {
			delete(l.slots, key)
		}
	}
	select {
	case s.taken <- struct{}{}:
		return sync.OnceFunc(func() { <-s.taken; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}
