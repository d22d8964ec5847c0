package ssh

import (
	"slices"
	"sync"
	"time"
)

const (
	// defaultSessions is OpenSSH's default MaxSessions: the number of sessions of one connection. A server that allows
	// fewer refuses some.
	defaultSessions = 10
	// If commands outlive their sessions and use up a connection, it gets no new sessions for rest.
	rest = 10 * time.Second
	// A busy server counts a session for so long after its end.
	lingering = 5 * time.Second
)

// links are a client's connections, with the number of sessions of each.
type links struct {
	mu      sync.Mutex
	changed chan struct{} // closed and made anew whenever what mu guards changes
	main    *link         // the first connection; nil while it is down
	extras  []*link       // further ones, opened if sessions are used up
	growing bool          // one more is being opened
	limit   int           // sessions that the server allows per connection
}

// all returns the connections. mu is held.
func (k *links) all() []*link {
	all := slices.Clone(k.extras)
	if k.main != nil {
		all = append(all, k.main)
	}
	return all
}

// announce wakes all callers that wait for a change. mu is held.
func (k *links) announce() {
	close(k.changed)
	k.changed = make(chan struct{})
}

// pick returns the first connection with room, or nil, and whether any connection is up. mu is held.
func (k *links) pick(long bool) (l *link, up bool) {
	for _, l := range append([]*link{k.main}, k.extras...) {
		if l == nil || l.isDead() {
			continue
		}
		up = true
		if l.open >= k.limit || time.Now().Before(l.fullUntil) {
			continue
		}
		// If a connection allows many sessions, a few are left for Exec.
		if long && l.long >= k.limit-k.limit/5 {
			continue
		}
		return l, true
	}
	return nil, up
}

// count adds n sessions to the link. links.mu is held.
func (l *link) count(long bool, n int) {
	l.open += n
	if long {
		l.long += n
	}
	l.idle = false
}

// learn records that a connection keeps refusing sessions. It reports false if its sessions do not explain the refusal.
func (k *links) learn(l *link) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case l.abandoned > 0:
		// Commands that outlive their closed sessions use them up.
		l.fullUntil = time.Now().Add(rest)
	case l.running > 0:
		k.limit = min(k.limit, l.running)
	case time.Since(l.ended) < lingering:
		// It may count sessions that have ended meanwhile.
	default:
		return false
	}
	k.announce()
	return true
}

// isUsedUp reports whether the link is known to take no more sessions.
func (k *links) isUsedUp(l *link) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return l.running >= k.limit
}

// isUnneeded reports whether nothing ran over a further connection between two ticks. It then gets no more sessions.
func (k *links) isUnneeded(l *link) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	unneeded := l.extra && l.idle && l.open == 0
	l.idle = l.open == 0
	if unneeded {
		l.fullUntil = time.Now().Add(time.Hour)
	}
	return unneeded
}

// release removes an ended session from the count.
func (k *links) release(l *link, long, granted, abandoned bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.count(long, -1)
	if granted {
		l.running--
		l.ended = time.Now()
	}
	if abandoned {
		l.abandoned++
	}
	k.announce()
}

// remove takes a further connection off the list.
func (k *links) remove(l *link) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.extras = slices.DeleteFunc(k.extras, func(e *link) bool { return e == l })
	k.announce()
}
