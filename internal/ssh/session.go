package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// closing is how long Close waits to hand its message to the network.
const closing = time.Second

// A Session is one remote command with its pipes: Read is its stdout, Write
// its stdin. Both outputs must be read: unread, they stop the command once
// the window of 2 MiB is full. Read may say io.EOF too when the connection was
// cut: only Wait tells. Read and Stderr may be used beside Write; Write and
// CloseWrite are called one at a time. Its owner closes it.
type Session struct {
	// Stderr is the command's stderr.
	Stderr io.Reader

	channel xssh.Channel
	link    *link
	closed  chan struct{} // closed by Close
	close   sync.Once
	done    chan struct{} // closed when the session has ended; err is set before
	err     error
}

// Open starts a command for a long conversation. It waits for the connection
// when that is down. The server allows few sessions per connection (10 by
// default); where they are used up, another connection is opened.
func (c *Client) Open(ctx context.Context, command string) (*Session, error) {
	return c.open(ctx, request{name: "exec", payload: command, long: true})
}

// Read reads the command's stdout.
func (s *Session) Read(p []byte) (int, error) {
	n, err := s.channel.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = disconnected(err) // it could not ask for more
	}
	return n, err
}

// Write writes to the command's stdin.
func (s *Session) Write(p []byte) (int, error) { return s.channel.Write(p) }

// CloseWrite ends the command's stdin.
func (s *Session) CloseWrite() error { return s.channel.CloseWrite() }

// Done is closed when the command has ended, or the session has.
func (s *Session) Done() <-chan struct{} { return s.done }

// Wait waits for the command to end: nil, an *ExitError, or an error that
// wraps ErrDisconnected, or ErrSessionClosed after Close. It may be called
// again.
func (s *Session) Wait() error {
	<-s.done
	return s.err
}

// Close ends the session at once. What runs on the node is not signalled.
// Reads and writes in progress end when the server agrees, or the connection
// is found dead.
func (s *Session) Close() error {
	s.close.Do(func() {
		close(s.closed)
		sent := make(chan struct{})
		// The message may have to wait for the network. Close need not.
		if isClosed(s.done) || !s.link.spawn(func() { defer close(sent); s.channel.Close() }) {
			return
		}
		timer := time.NewTimer(closing)
		defer timer.Stop()
		select {
		case <-sent:
		case <-timer.C:
		}
	})
	return nil
}

// errNotClosed means that the server did not agree to the end of a session in time.
var errNotClosed = errors.New("the server did not end a session that was closed")

// CloseWithin is Close, after which reads and writes in progress end within d: if the
// server has not agreed by then, its connection is ended. OpenSSH agrees when the command
// has ended.
func (s *Session) CloseWithin(d time.Duration) {
	s.Close()
	s.link.spawn(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-s.done:
		case <-s.link.dead:
		case <-timer.C:
			s.link.end(errNotClosed)
		}
	})
}

// A request is what a session is opened for.
type request struct {
	name    string // "exec" or "subsystem"
	payload string // the command, or the subsystem's name
	long    bool   // it lasts: it does not count as one of Exec's
}

// start opens a session on l, where it was counted already. What it returns
// without a session is not counted any more.
func (c *Client) start(ctx context.Context, l *link, r request) (*Session, error) {
	type result struct {
		s   *Session
		err error
	}
	answer := make(chan result)
	spawned := l.spawn(func() {
		s, err := c.ask(ctx, l, r)
		select {
		case answer <- result{s, err}:
		case <-ctx.Done(): // nobody wants it any more
			if s != nil {
				s.Close()
			}
		}
	})
	if !spawned {
		c.release(l, r.long, false, false)
		return nil, errNotStarted
	}
	select {
	case a := <-answer:
		return a.s, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("starting a command on %s: %w", c.where(), ctx.Err())
	}
}

// ask asks the server for a session, again while that has too many.
func (c *Client) ask(ctx context.Context, l *link, r request) (*Session, error) {
	pauses := backoff{next: 8 * time.Millisecond, most: 100 * time.Millisecond}
	for try := 1; ; try++ {
		ch, reqs, err := l.conn.OpenChannel("session", nil)
		if err == nil {
			return c.launch(l, r, ch, reqs)
		}
		var refused *xssh.OpenChannelError
		if !errors.As(err, &refused) {
			c.release(l, r.long, false, false)
			return nil, errNotStarted
		}
		if refused.Reason == xssh.UnknownChannelType || try == refusals || c.isUsedUp(l) || !pauses.pause(ctx) {
			c.release(l, r.long, false, false)
			return nil, err
		}
	}
}

// launch makes a granted session run its command.
func (c *Client) launch(l *link, r request, ch xssh.Channel, reqs <-chan *xssh.Request) (*Session, error) {
	c.mu.Lock()
	l.running++
	c.mu.Unlock()
	s := &Session{
		Stderr: ch.Stderr(), channel: ch, link: l,
		closed: make(chan struct{}), done: make(chan struct{}),
	}
	watching := l.spawn(func() { s.watch(reqs, func(abandoned bool) { c.release(l, r.long, true, abandoned) }) })
	if !watching {
		c.release(l, r.long, true, false)
		return nil, errNotStarted
	}
	ok, err := ch.SendRequest(r.name, true, xssh.Marshal(struct{ Value string }{r.payload}))
	switch {
	case err != nil:
		s.Close()
		return nil, disconnected(fmt.Errorf("before the server said whether it started the command: %w", err))
	case !ok:
		s.Close()
		return nil, fmt.Errorf("%s refused to start a session of kind %q (a forced command, or no shell?)", c.where(), r.name)
	}
	return s, nil
}

// release takes a session that has ended from the count.
func (c *Client) release(l *link, long, granted, abandoned bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	l.count(long, -1)
	if granted {
		l.running--
	}
	if abandoned {
		l.abandoned++
	}
	c.announce()
}

// watch takes what the server says of the session until that has ended.
func (s *Session) watch(reqs <-chan *xssh.Request, release func(abandoned bool)) {
	var exit struct{ Status uint32 }
	var signal struct {
		Name       string
		CoreDumped bool
		Message    string
		Language   string
	}
	var ended bool
	for r := range reqs {
		switch r.Type {
		case "exit-status":
			ended = xssh.Unmarshal(r.Payload, &exit) == nil
		case "exit-signal":
			ended = xssh.Unmarshal(r.Payload, &signal) == nil
		}
		if r.WantReply {
			r.Reply(false, nil)
		}
	}
	switch {
	case ended && s.link.transport.over.Load():
		// A server may tell the exit status before the last of the output. Whether
		// that came before the connection ended cannot be known any more, and what
		// was cut off must not pass for all of it.
		s.err = s.lost()
	case ended && signal.Name != "":
		s.err = &ExitError{Code: -1, Signal: signal.Name}
	case ended && exit.Status != 0:
		s.err = &ExitError{Code: int(exit.Status)}
	case ended:
	case isClosed(s.closed):
		s.err = ErrSessionClosed
	default:
		s.err = s.lost()
	}
	release(!ended && isClosed(s.closed))
	close(s.done)
}

// lost returns the error of a session that ended without a word on its
// command. The connection is found dead a moment after its sessions are.
func (s *Session) lost() error {
	timer := time.NewTimer(100 * time.Millisecond)
	defer timer.Stop()
	select {
	case <-s.link.dead:
		return disconnected(s.link.err)
	case <-timer.C:
		return disconnected(errors.New("the server ended the session without an exit status"))
	}
}
