package ssh

import (
	"context"
	"errors"
	"fmt"

	xssh "golang.org/x/crypto/ssh"
)

const (
	// Exec runs maxShort sessions at once. With six or more that follow each other closely some are refused, because
	// the server counts a session for a moment after its end.
	maxShort = 5
	// A connection that refuses a session this often, which takes about a third of a second, counts as used up.
	refusals = 7
)

// errNotStarted means that the connection was lost before the server was asked to start anything: the request can be
// repeated safely.
var errNotStarted = errors.New("connection lost before the session was open")

// open starts a session on a connection that has room for it, and waits for one while all are down.
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
				return nil, fmt.Errorf("%s allows no sessions (MaxSessions in its sshd_config?): %w", c.cfg.where(), err)
			}
		default:
			return nil, err
		}
	}
}

// reserve finds a connection with room for one more session and counts the session there. If all are full it opens
// another connection.
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

// grow opens one more connection. The caller has set c.growing.
func (c *Client) grow(ctx context.Context) error {
	ctx, release := c.whileAlive(ctx)
	defer release()
	l, err := c.dial(ctx, c.cfg.ReauthPatience, func(error, int) {})
	c.mu.Lock()
	c.growing = false
	refused := refuses(c)
	if err == nil && refused == nil {
		l.extra = true
		c.extras = append(c.extras, l)
		c.wg.Go(func() { c.retire(l) })
	}
	c.announce()
	c.mu.Unlock()
	if err == nil && refused != nil {
		l.end(refused)
		l.wait()
		if refused == errSevered {
			return c.waitFor(ctx, nil)
		}
		return refused
	}
	return err
}

// retire ends a further connection once it is not needed.
func (c *Client) retire(l *link) {
	l.keepAlive(c.cfg.KeepaliveInterval, c.cfg.KeepaliveMisses, func() bool { return c.isUnneeded(l) })
	<-l.dead
	l.wait()
	c.remove(l)
}
