package ssh

import (
	"cmp"
	"time"
)

const (
	// A connection that was lost within shortLife was a short one. Before the next one after freeLives such in a row there is a pause,
	// which grows up to longestRest: how often a server is logged in to, and its node told lost and back, is not its choice.
	shortLife   = 30 * time.Second
	freeLives   = 4
	longestRest = 20 * time.Second
)

// keep reconnects whenever the connection is lost.
func (c *Client) keep(l *link) {
	rests := backoff{next: time.Second, most: longestRest}
	for short := 0; ; {
		began := time.Now()
		l.keepAlive(c.cfg.KeepaliveInterval, c.cfg.KeepaliveMisses, func() bool { return false })
		<-l.dead
		l.wait()
		if c.life.Err() != nil {
			return
		}
		c.mu.Lock()
		c.main, c.since, c.lastErr = nil, time.Now(), l.err
		severed := c.severed
		c.announce()
		c.mu.Unlock()
		c.notify(Event{Kind: Disconnected, Err: disconnected(l.err)})
		if severed {
			return
		}

		if short++; time.Since(began) >= shortLife {
			short, rests.next = 0, time.Second
		}
		if short > freeLives && !rests.pause(c.life) {
			return
		}
		next, err := c.dial(c.life, c.cfg.ReauthPatience, c.retrying)
		if err != nil {
			if c.life.Err() == nil {
				c.end(err)
				c.hangUp()
				c.notify(Event{Kind: Ended, Err: err})
			}
			return
		}
		if c.adopt(next, func() {}) != nil {
			return
		}
		l = next
	}
}

// retrying records that an attempt to connect failed and another one follows.
func (c *Client) retrying(err error, attempt int) {
	c.mu.Lock()
	c.lastErr = err
	c.mu.Unlock()
	c.notify(Event{Kind: Reconnecting, Err: err, Attempt: attempt})
}

// adopt makes l the client's connection, and calls also in the same critical section. A client that has ended, or was
// severed, takes no more connections.
func (c *Client) adopt(l *link, also func()) error {
	c.notifying.Lock() // held from here, so that no later event comes first
	defer c.notifying.Unlock()
	c.mu.Lock()
	if err := refuses(c); err != nil {
		c.mu.Unlock()
		l.end(err)
		l.wait()
		return err
	}
	c.main, c.since, c.lastErr = l, time.Now(), nil
	c.generation++
	also()
	c.announce()
	c.mu.Unlock()
	if c.cfg.Notify != nil {
		c.cfg.Notify(Event{Kind: Connected})
	}
	return nil
}

// refuses returns why the client takes no more connections, or nil. c.mu is held.
func refuses(c *Client) error {
	if c.severed {
		return cmp.Or(c.Err(), errSevered)
	}
	return c.Err()
}
