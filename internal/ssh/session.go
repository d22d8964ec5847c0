package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/loginshell"
	"github.com/gputrain/gputrain/internal/printable"
	xssh "golang.org/x/crypto/ssh"
)

// Close waits for closing at most to send its message.
const closing = time.Second

// A Session is one remote command with its pipes: Read reads its stdout, Write writes to its stdin. The caller must
// read both outputs: the command blocks once an unread one fills the window of 2 MiB. Read returns io.EOF also if the
// connection was cut: only Wait distinguishes. Read and Stderr may be used beside Write; Write and CloseWrite are
// called one at a time. The owner closes a session.
//
// /bin/sh runs the command, whatever the user's login shell is, and what that prints before is in neither output.
type Session struct {
	// Stderr is the command's stderr.
	Stderr io.Reader

	stdout  io.Reader
	begins  *loginshell.Output // stdout of a command
	noisy   atomic.Bool        // the session was closed because the login prints without an end
	where   string
	channel xssh.Channel
	link    *link
	closed  chan struct{} // closed by Close
	close   sync.Once
	done    chan struct{} // closed when the session has ended; err is set before
	err     error
}

// Open starts a command for a long conversation. It waits for the connection if that is down. A server allows few
// sessions per connection (10 by default); if they are used up, the client opens another connection.
func (c *Client) Open(ctx context.Context, command string) (*Session, error) {
	return c.open(ctx, request{name: "exec", payload: command, long: true})
}

// Read reads the command's stdout.
func (s *Session) Read(p []byte) (int, error) {
	n, err := s.stdout.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, loginshell.ErrNoise) {
		err = disconnected(err) // it could not ask for more data
	}
	return n, err
}

// A quiet output ends its session if the login prints without an end.
type quiet struct {
	*loginshell.Output
	s *Session
}

func (q quiet) Read(p []byte) (int, error) {
	n, err := q.Output.Read(p)
	if errors.Is(err, loginshell.ErrNoise) {
		q.s.noisy.Store(true)
		q.s.Close()
	}
	return n, err
}

// Write writes to the command's stdin.
func (s *Session) Write(p []byte) (int, error) { return s.channel.Write(p) }

// CloseWrite ends the command's stdin.
func (s *Session) CloseWrite() error { return s.channel.CloseWrite() }

// Done is closed when the command or the session has ended.
func (s *Session) Done() <-chan struct{} { return s.done }

// Wait waits for the end of the command and returns nil, an *ExitError, an error that wraps ErrDisconnected or ErrNoCommand, or
// ErrSessionClosed after Close. It may be called again.
func (s *Session) Wait() error {
	<-s.done
	if s.noisy.Load() && !errors.Is(s.err, ErrDisconnected) {
		return fmt.Errorf("%w on %s: %w", ErrNoCommand, s.where, loginshell.ErrNoise)
	}
	if s.begins == nil {
		return s.err
	}
	said, missed := s.begins.Missed()
	exit, exited := errors.AsType[*ExitError](s.err)
	if !missed || s.err != nil && (!exited || exit.Signal != "") {
		return s.err
	}
	how := "status 0"
	if exited {
		how = fmt.Sprintf("status %d", exit.Code) // which is not the command's
	}
	if said != "" {
		how += ": " + printable.Message(said)
	}
	return fmt.Errorf("%w on %s: it ends with %s", ErrNoCommand, s.where, how)
}

// Close ends the session at once. What runs on the node gets no signal. Reads and writes in progress end when the
// server confirms, or the connection is found dead.
func (s *Session) Close() error {
	s.close.Do(func() {
		close(s.closed)
		closeChannel(s.link, s.channel, s.done)
	})
	return nil
}

// closeChannel closes a channel of l, unless it has ended. The message may have to wait for the network: closeChannel does
// not wait with it for long.
func closeChannel(l *link, ch xssh.Channel, ended <-chan struct{}) {
	sent := make(chan struct{})
	if isClosed(ended) || !l.spawn(func() { defer close(sent); ch.Close() }) {
		return
	}
	timer := time.NewTimer(closing)
	defer timer.Stop()
	select {
	case <-sent:
	case <-timer.C:
	}
}

// errNotClosed means that the server did not confirm the end of a session in time.
var errNotClosed = errors.New("the server did not confirm the end of a session")

// CloseWithin is Close, after which reads and writes in progress end within d: if the server has not confirmed by then,
// CloseWithin ends the connection. OpenSSH confirms when the command has ended.
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

// A request is a request to open a session.
type request struct {
	name    string // "exec" or "subsystem"
	payload string // the command, which is text for a POSIX shell, or the subsystem's name
	long    bool   // a long session does not count as one of Exec's

	terminal *Terminal // nil for pipes
}

// start opens a session on l, which has counted it already. If start fails, the session is no longer counted.
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
		case <-ctx.Done(): // no caller waits for it any more
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
		return nil, fmt.Errorf("starting a command on %s: %w", c.cfg.where(), ctx.Err())
	}
}

// ask asks the server for a session, and again while the server refuses because it has too many.
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

// launch starts the command in a granted session.
func (c *Client) launch(l *link, r request, ch xssh.Channel, reqs <-chan *xssh.Request) (*Session, error) {
	c.mu.Lock()
	l.running++
	c.mu.Unlock()
	s := &Session{
		Stderr: ch.Stderr(), stdout: ch, channel: ch, link: l, where: c.cfg.where(),
		closed: make(chan struct{}), done: make(chan struct{}),
	}
	if r.name == "exec" {
		var mark string
		r.payload, mark = loginshell.Command(r.payload)
		s.begins = loginshell.Stdout(ch, mark)
		s.stdout = quiet{s.begins, s}
		if r.terminal == nil { // a terminal shows both as stdout
			s.Stderr = quiet{loginshell.Stderr(ch.Stderr(), mark), s}
		}
	}
	watching := l.spawn(func() { s.watch(reqs, func(abandoned bool) { c.release(l, r.long, true, abandoned) }) })
	if !watching {
		c.release(l, r.long, true, false)
		return nil, errNotStarted
	}
	if r.terminal != nil {
		switch ok, err := ch.SendRequest("pty-req", true, r.terminal.request()); {
		case err != nil:
			s.Close()
			return nil, errNotStarted
		case !ok:
			s.Close()
			return nil, fmt.Errorf("%s: %w", c.cfg.where(), ErrNoTerminal)
		}
	}
	ok, err := ch.SendRequest(r.name, true, xssh.Marshal(struct{ Value string }{r.payload}))
	switch {
	case err != nil:
		s.Close()
		return nil, disconnected(fmt.Errorf("before the server reported whether it started the command: %w", err))
	case !ok:
		s.Close()
		return nil, fmt.Errorf("%s refused to start a session of kind %q (a forced command, or no shell?)", c.cfg.where(), r.name)
	}
	return s, nil
}

// watch handles the server's messages about the session until that has ended.
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
		// A server may send the exit status before the last of the output. It is then unknown whether all output came
		// before the connection ended, and a part must not pass for the whole.
		s.err = s.lost()
	case ended && signal.Name == "PIPE" && isClosed(s.closed):
		s.err = ErrSessionClosed // which took its output away
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

// lost returns the error of a session that ended without a status. The connection is found dead a moment after its
// sessions are.
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
