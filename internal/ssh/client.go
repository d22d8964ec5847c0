// Package ssh keeps one SSH connection to a node and runs everything over it.
//
// A [Client] connects, notices when the connection dies, and reconnects. Commands that ran over the lost connection
// fail with [ErrDisconnected]; those started later wait for the new one. Host keys are always checked: see [HostKeys].
package ssh

import (
	"cmp"
	"context"
	"errors"
	"net"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// Config is how a client reaches a node.
type Config struct {
	// Dial opens the transport. It must return when ctx ends.
	Dial func(ctx context.Context) (net.Conn, error)
	// Addr is host:port of the server. Clients of one Addr take turns to log in, because servers limit concurrent
	// logins. Empty means no limit.
	Addr string
	// User logs in by one of Auth. Of several methods with the same name only the first is tried: join keys in one
	// xssh.PublicKeys.
	User string
	Auth []xssh.AuthMethod
	// Keys are tried before Auth, in this order. A server allows few for each connection: the next ones are tried in another.
	Keys []xssh.Signer
	// HostKey accepts or refuses the server's key. It must not be nil.
	HostKey xssh.HostKeyCallback
	// HostKeyAlgorithms limits what the server may offer. Nil means any: if HostKey refuses a key, the server's keys of
	// other kinds are tried.
	HostKeyAlgorithms []string

	// AuthPatience is how long Connect retries a refused login, for machines whose key arrives after their server
	// starts. Zero means not at all.
	AuthPatience time.Duration
	// AbsentPatience is how long Connect retries if the port is refused, or the host or its name is unknown. It is for
	// machines that are already up. Zero means until ctx ends, and 20 seconds for an unknown name.
	AbsentPatience time.Duration
	// ReauthPatience is AuthPatience for a client that had logged in before and lost its connection. Zero means one
	// minute.
	ReauthPatience time.Duration
	// HandshakeTimeout bounds dialing, and how long the server may be silent during the login. A server that is slow,
	// or busy with many clients, has this long for each answer. Zero means 10 seconds.
	HandshakeTimeout time.Duration
	// After KeepaliveInterval without any data the client sends a keepalive, and after KeepaliveMisses further
	// intervals without data it gives up the connection. Zero means 15 seconds, and 3.
	KeepaliveInterval time.Duration
	KeepaliveMisses   int

	// Notify is called with every change of the connection, one at a time and in order. It must return soon and call no
	// method of the client. It may be nil.
	Notify func(Event)
}

// A Client is the connection to one node. Its methods can be called concurrently.
type Client struct {
	cfg   Config
	short chan struct{} // a slot for every session of Exec

	// life ends by Close, or by an error that no new connection can cure; its cause is what Err returns. It is a field
	// because a client outlives the ctx of each call.
	life context.Context
	end  context.CancelCauseFunc
	wg   sync.WaitGroup

	connecting chan struct{} // held by the call of Connect that connects
	notifying  sync.Mutex

	links           // mu guards the fields below too
	started    bool // the first connection was made
	severed    bool // there is no connection any more, and none is made
	generation int
	since      time.Time // of the last change between up and down
	lastErr    error     // why the last attempt to connect failed
}

// New returns a client that is not connected yet. Its owner closes it.
func New(cfg Config) *Client {
	cfg.ReauthPatience = cmp.Or(cfg.ReauthPatience, time.Minute)
	cfg.HandshakeTimeout = cmp.Or(cfg.HandshakeTimeout, 10*time.Second)
	cfg.KeepaliveInterval = cmp.Or(cfg.KeepaliveInterval, 15*time.Second)
	cfg.KeepaliveMisses = cmp.Or(cfg.KeepaliveMisses, 3)
	life, end := context.WithCancelCause(context.Background())
	return &Client{
		cfg: cfg, life: life, end: end,
		short:      make(chan struct{}, maxShort),
		connecting: make(chan struct{}, 1),
		links:      links{changed: make(chan struct{}), limit: defaultSessions},
		since:      time.Now(),
	}
}

// Connect makes the first connection. While the server is not there yet (refused, reset, timed out: the machine may be
// booting), it retries with growing pauses until ctx ends; the error then holds the last failure too. It retries
// ErrAuth for Config.AuthPatience, an absent server for Config.AbsentPatience if that is set, and ErrHostKey never. A
// second call waits until the connection is up.
func (c *Client) Connect(ctx context.Context) error {
	if c.cfg.Dial == nil || c.cfg.HostKey == nil {
		return errors.New("an SSH client needs Config.Dial and Config.HostKey")
	}
	select {
	case c.connecting <- struct{}{}:
		defer func() { <-c.connecting }()
	case <-ctx.Done():
		return c.waited(ctx)
	case <-c.life.Done():
		return c.Err()
	}
	c.mu.Lock()
	started := c.started
	c.mu.Unlock()
	if started {
		return c.await(ctx)
	}
	ctx, release := c.whileAlive(ctx)
	defer release()
	l, err := c.dial(ctx, c.cfg.AuthPatience, c.retrying)
	if err != nil {
		return err
	}
	err = c.adopt(l, func() {
		c.started = true
		c.wg.Go(func() { c.keep(l) })
	})
	if errors.Is(err, errSevered) {
		return c.waitFor(ctx, nil)
	}
	return err
}

// Sever cuts the connection and makes no other one. What runs over it, or waits for it, sees a network that does not
// come back, until Close. What is sent once Sever has returned does not reach the server.
func (c *Client) Sever() {
	c.mu.Lock()
	c.severed = true
	links := c.all()
	c.mu.Unlock()
	for _, l := range links {
		l.end(errSevered)
	}
	for _, l := range links {
		l.wait()
	}
}

var errSevered = errors.New("the connection is given up")

// Close ends the connection for good. Commands that run over it end with ErrDisconnected.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.hangUp()
	c.wg.Wait()
	return nil
}

// hangUp ends every connection of a client whose life has ended.
func (c *Client) hangUp() {
	c.mu.Lock()
	links := c.all()
	c.announce()
	c.mu.Unlock()
	for _, l := range links {
		l.end(c.Err())
	}
	for _, l := range links {
		l.wait()
	}
}

// Done is closed when the client has ended: by Close, because the server's host key changed, or because the server
// refuses a login that it had accepted.
func (c *Client) Done() <-chan struct{} { return c.life.Done() }

// Err returns why the client has ended: ErrClosed, or an error that wraps ErrHostKey or ErrAuth. It is nil before Done
// is closed.
func (c *Client) Err() error { return context.Cause(c.life) }

// Down reports whether the connection is down, and when that last changed.
func (c *Client) Down() (since time.Time, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.main == nil || c.main.isDead()
}

// Answers reports whether the server of a client answers over the connection before ctx ends. It makes no connection.
func Answers(ctx context.Context, c *Client) bool {
	c.mu.Lock()
	l := c.main
	c.mu.Unlock()
	if l == nil {
		return false
	}
	q := l.ask()
	if q == nil {
		return false
	}
	select {
	case <-q.done:
		return q.err == nil
	case <-ctx.Done():
		return false
	}
}

// Generation returns the number of connections made so far. What a caller set up over one
// connection may be gone in the next.
func (c *Client) Generation() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// await waits until the connection is up.
func (c *Client) await(ctx context.Context) error {
	for {
		c.mu.Lock()
		up, changed := c.main != nil && !c.main.isDead(), c.changed
		c.mu.Unlock()
		if up {
			return nil
		}
		if err := c.waitFor(ctx, changed); err != nil {
			return err
		}
	}
}

// waitFor waits until changed is closed.
func (c *Client) waitFor(ctx context.Context, changed <-chan struct{}) error {
	select {
	case <-changed:
		return nil
	case <-ctx.Done():
		return c.waited(ctx)
	case <-c.life.Done():
		return c.Err()
	}
}

// waited returns the error of a call whose ctx ended while it waited for the
// connection.
func (c *Client) waited(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return cutShort(ctx, c.cfg.where(), c.lastErr)
}

func (c *Client) notify(e Event) {
	c.notifying.Lock()
	defer c.notifying.Unlock()
	if c.cfg.Notify != nil {
		c.cfg.Notify(e)
	}
}

// whileAlive returns ctx, which also ends with the client.
func (c *Client) whileAlive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(c.Err()) })
	return ctx, func() { stop(); cancel(nil) }
}
