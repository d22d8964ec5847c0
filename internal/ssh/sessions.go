package ssh

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

const (
	// defaultSessions is OpenSSH's default MaxSessions: how many sessions one
	// connection may have. A server that allows fewer says so by refusing.
	defaultSessions = 10
	// maxShort is how many sessions of Exec run at once. Sessions that follow
	// each other closely are refused from six on, because the server counts
	// one that has ended a moment longer.
	maxShort = 5
	// refusals is how often one connection may refuse a session, which takes
	// about a third of a second, before it counts as used up.
	refusals = 7
	// rest is how long a connection is left alone whose sessions are used up by
	// commands that outlive them.
	rest = 10 * time.Second
)

// errNotStarted means that the connection was lost before the server was asked
// to start anything: it is safe to ask again.
var errNotStarted = errors.New("connection lost before the session was open")

// open starts a session wherever there is room for it, waiting for the
// connection while that is down.
func (c *Client) open(ctx context.Context, r request) (*Session, error) {
	for {
		l, err := c.reserve(ctx, r.long)
		if err != nil {
			return nil, err
		}
		s, err := c.start(ctx, l, r)
		var refused *xssh.OpenChannelError
		switch {
		case err == nil:
			return s, nil
		case errors.Is(err, errNotStarted):
			if err := c.waitFor(ctx, l.dead); err != nil {
				return nil, err
			}
		case errors.As(err, &refused):
			if !c.learn(l) {
				return nil, fmt.Errorf("%s allows no sessions (MaxSessions in its sshd_config?): %w", c.where(), err)
			}
		default:
			return nil, err
		}
	}
}

// reserve finds a connection with room for one more session and counts it
// there. When all are full it opens one more.
func (c *Client) reserve(ctx context.Context, long bool) (*link, error) {
	for {
		c.mu.Lock()
		if err := c.Err(); err != nil {
			c.mu.Unlock()
			return nil, err
		}
		l, up := c.pick(long)
		if l != nil {
			l.count(long, +1)
			c.mu.Unlock()
			return l, nil
		}
		changed, grow := c.changed, up && !c.growing
		if grow {
			c.growing = true
		}
		c.mu.Unlock()
		if !grow {
			if err := c.waitFor(ctx, changed); err != nil {
				return nil, err
			}
			continue
		}
		if err := c.grow(ctx); err != nil {
			return nil, err
		}
	}
}

// pick returns the first connection with room, or nil, and whether any
// connection is up. c.mu is held.
func (c *Client) pick(long bool) (l *link, up bool) {
	for _, l := range append([]*link{c.main}, c.extras...) {
		if l == nil || l.isDead() {
			continue
		}
		up = true
		if l.open >= c.limit || time.Now().Before(l.fullUntil) {
			continue
		}
		// A few are left for Exec, where there are many.
		if long && l.long >= c.limit-c.limit/5 {
			continue
		}
		return l, true
	}
	return nil, up
}

// count adds n sessions to the link. Client.mu is held.
func (l *link) count(long bool, n int) {
	l.open += n
	if long {
		l.long += n
	}
	l.idle = false
}

// learn notes that a connection keeps refusing sessions. It reports false
// where the refusal has no explanation in what runs there.
func (c *Client) learn(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case l.abandoned > 0:
		// Commands that run on behind closed sessions use them up.
		l.fullUntil = time.Now().Add(rest)
	case l.running > 0:
		c.limit = min(c.limit, l.running)
	default:
		return false
	}
	c.announce()
	return true
}

// isUsedUp reports whether it is known by now that the link takes no more sessions.
func (c *Client) isUsedUp(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.running >= c.limit
}

// grow opens one more connection. c.growing is set, by the caller.
func (c *Client) grow(ctx context.Context) error {
	ctx, release := c.whileAlive(ctx)
	defer release()
	l, err := c.dial(ctx, c.cfg.ReauthPatience, func(error, int) {})
	c.mu.Lock()
	c.growing = false
	adopted := err == nil && c.life.Err() == nil
	if adopted {
		l.extra = true
		c.extras = append(c.extras, l)
		c.wg.Go(func() { c.retire(l) })
	}
	c.announce()
	c.mu.Unlock()
	if err == nil && !adopted {
		err = c.Err()
		l.end(err)
		l.wait()
	}
	return err
}

// retire keeps a further connection alive while it is needed.
func (c *Client) retire(l *link) {
	l.keepAlive(c.cfg.KeepaliveInterval, c.cfg.KeepaliveMisses, func() bool { return c.isUnneeded(l) })
	<-l.dead
	l.wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.extras = slices.DeleteFunc(c.extras, func(e *link) bool { return e == l })
	c.announce()
}

// isUnneeded reports whether nothing ran over a further connection between two
// ticks. It gets no more sessions then.
func (c *Client) isUnneeded(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	unneeded := l.extra && l.idle && l.open == 0
	l.idle = l.open == 0
	if unneeded {
		l.fullUntil = time.Now().Add(time.Hour)
	}
	return unneeded
}
