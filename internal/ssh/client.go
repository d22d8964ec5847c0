// Package ssh keeps one SSH connection to a node and runs everything over it.
//
// A [Client] connects, notices when the connection dies, and opens it again.
// What ran over it is then lost and says so with [ErrDisconnected]; what is
// started later waits for the new one. Host keys are always checked: see
// [HostKeys].
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

// Config says how a node is reached.
type Config struct {
	// Dial opens the transport. It must heed ctx.
	Dial func(ctx context.Context) (net.Conn, error)
	// Addr is host:port of the server. Clients of one Addr take turns while
	// they log in, because servers limit that. Empty means no limit.
	Addr string
	// User logs in, by one of Auth. Of several methods with the same name only
	// the first is tried: join keys in one xssh.PublicKeys.
	User string
	Auth []xssh.AuthMethod
	// HostKey accepts or refuses the server's key. It must not be nil.
	HostKey xssh.HostKeyCallback
	// HostKeyAlgorithms limits what the server may offer. Nil means any: where
	// HostKey refuses a key, the server's keys of other kinds are then tried.
	HostKeyAlgorithms []string

	// AuthPatience is how long a refused login is tried again by Connect, for
	// machines whose key arrives after their server starts. Zero: not at all.
	AuthPatience time.Duration
	// AbsentPatience is how long Connect tries again if the port is refused, or the host or
	// its name is not known. It is for machines that are not starting. Zero means as long
	// as ctx, and 20 seconds for a name.
	AbsentPatience time.Duration
	// ReauthPatience is the same as AuthPatience for a client that was let in before and lost
	// its connection. Zero means one minute.
	ReauthPatience time.Duration
	// HandshakeTimeout bounds dialing, and how long the server may say nothing
	// while the client logs in: one that is slow, or one of very many at once,
	// is waited for. Zero means 10 seconds.
	HandshakeTimeout time.Duration
	// KeepaliveInterval is how long nothing may arrive before the server is
	// asked for a sign of life, and KeepaliveMisses how many intervals more may
	// bring none before the connection is given up. Zero means 15 seconds, and 3.
	KeepaliveInterval time.Duration
	KeepaliveMisses   int

	// Notify is told of every change of the connection, one at a time and in
	// order. It must return soon and call no method of the client. Nil is fine.
	Notify func(Event)
}

// A Client is the connection to one node. All methods can be called at the
// same time.
type Client struct {
	cfg   Config
	short chan struct{} // a slot for every session of Exec

	// life ends by Close, or by an error that no new connection can cure. The
	// cause is Err's answer. A client is as long-lived as a process is, and
	// outlives the ctx of each call.
	life context.Context
	end  context.CancelCauseFunc
	wg   sync.WaitGroup

	connecting chan struct{} // held by the one call of Connect that connects
	notifying  sync.Mutex

	mu         sync.Mutex
	changed    chan struct{} // closed and made anew whenever what is below changes
	started    bool          // the first connection was made
	main       *link         // the connection; nil while it is down
	extras     []*link       // further ones, where sessions are used up
	growing    bool          // one more is being opened
	limit      int           // sessions that the server allows per connection
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
		changed:    make(chan struct{}),
		limit:      defaultSessions,
		since:      time.Now(),
	}
}

// Connect makes the first connection. A server that is not there yet (refused,
// reset, timed out: a machine on its way up) is tried again, with growing
// pauses, until ctx ends; the error then holds the last failure too. ErrAuth
// is tried again for Config.AuthPatience, a server that is not there for
// Config.AbsentPatience where that is set, ErrHostKey never. Called again,
// Connect waits until the connection is up.
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
	return c.adopt(l, func() {
		c.started = true
		c.wg.Go(func() { c.keep(l) })
	})
}

// Close ends the connection for good. What runs over it ends with
// ErrDisconnected.
func (c *Client) Close() error {
	c.end(ErrClosed)
	c.hangUp()
	c.wg.Wait()
	return nil
}

// hangUp ends every connection of a client whose life has ended.
func (c *Client) hangUp() {
	c.mu.Lock()
	links := append([]*link{}, c.extras...)
	if c.main != nil {
		links = append(links, c.main)
	}
	c.announce()
	c.mu.Unlock()
	for _, l := range links {
		l.end(c.Err())
	}
	for _, l := range links {
		l.wait()
	}
}

// Done is closed when the client has ended: by Close, or because the server's
// host key changed or it refuses the login that it took before.
func (c *Client) Done() <-chan struct{} { return c.life.Done() }

// Err says why the client has ended: ErrClosed, or an error that wraps
// ErrHostKey or ErrAuth. It is nil before Done is closed.
func (c *Client) Err() error { return context.Cause(c.life) }

// Down reports whether the connection is down, and since when it is up or down.
func (c *Client) Down() (since time.Time, down bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.since, c.main == nil || c.main.isDead()
}

// Generation counts the connections made so far. A session belongs to one
// generation: what a caller set up in an earlier one may be gone.
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
	return cutShort(ctx, c.where(), c.lastErr)
}

// announce wakes all who wait for a change. c.mu is held.
func (c *Client) announce() {
	close(c.changed)
	c.changed = make(chan struct{})
}

func (c *Client) notify(e Event) {
	c.notifying.Lock()
	defer c.notifying.Unlock()
	if c.cfg.Notify != nil {
		c.cfg.Notify(e)
	}
}

// where names the server in errors.
func (c *Client) where() string { return cmp.Or(c.cfg.Addr, "the node") }

// whileAlive returns ctx, ended by the client's end too.
func (c *Client) whileAlive(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.life, func() { cancel(c.Err()) })
	return ctx, func() { stop(); cancel(nil) }
}
