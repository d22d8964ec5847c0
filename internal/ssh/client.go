// Package ssh keeps one SSH connection to a node and runs everything over it.
package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"sync"

	"github.com/pkg/sftp"
	xssh "golang.org/x/crypto/ssh"
)

// ErrDisconnected means that the connection was cut while something ran over
// it. Whether the other side did the work is not known.
var ErrDisconnected = errors.New("ssh connection lost")

// Config says how a node is reached.
type Config struct {
	// Dial opens the transport.
	Dial func(ctx context.Context) (net.Conn, error)
	// User logs in, by one of Auth.
	User string
	Auth []xssh.AuthMethod
	// HostKey accepts or refuses the server's key. It must not be nil.
	HostKey xssh.HostKeyCallback
	// HostKeyAlgorithms limits what the server may offer. Nil means any.
	HostKeyAlgorithms []string
}

// A Client is the connection to one node.
type Client struct {
	cfg  Config
	mu   sync.Mutex
	conn *xssh.Client
}

// New returns a client that is not connected yet.
func New(cfg Config) *Client { return &Client{cfg: cfg} }

// Connect makes the first connection.
func (c *Client) Connect(ctx context.Context) error {
	nc, err := c.cfg.Dial(ctx)
	if err != nil {
		return err
	}
	sc, chans, reqs, err := xssh.NewClientConn(nc, "node", &xssh.ClientConfig{User: c.cfg.User, Auth: c.cfg.Auth, HostKeyCallback: c.cfg.HostKey})
	if err != nil {
		nc.Close()
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conn = xssh.NewClient(sc, chans, reqs)
	return nil
}

// An ExitError is a remote command that did not exit with 0.
type ExitError struct {
	Code   int    // exit status, or -1
	Signal string // "KILL", where a signal ended it
}

func (e *ExitError) Error() string { return "remote command failed" }

// Exec runs a shell command in a session of its own and waits for it. A nil
// stdin is empty; a nil stdout or stderr is discarded. It waits for the
// connection when that is down. The error is nil, an *ExitError, ctx's own
// (the session is then closed), or wraps ErrDisconnected.
func (c *Client) Exec(ctx context.Context, command string, stdin io.Reader, stdout, stderr io.Writer) error {
	s, err := c.Open(ctx, command)
	if err != nil {
		return err
	}
	defer s.Close()
	go func() {
		if stdin != nil {
			io.Copy(s, stdin)
		}
		s.CloseWrite()
	}()
	if stdout == nil {
		stdout = io.Discard
	}
	if stderr == nil {
		stderr = io.Discard
	}
	var wg sync.WaitGroup
	wg.Go(func() { io.Copy(stdout, s) })
	wg.Go(func() { io.Copy(stderr, s.Stderr) })
	wg.Wait()
	return s.Wait()
}

// A Session is one remote command with its pipes: Read is its stdout, Write
// its stdin. Its owner closes it.
type Session struct {
	Stderr io.Reader
	stdin  io.WriteCloser
	stdout io.Reader
	s      *xssh.Session
}

func (s *Session) Read(p []byte) (int, error)  { return s.stdout.Read(p) }
func (s *Session) Write(p []byte) (int, error) { return s.stdin.Write(p) }

// CloseWrite ends the command's stdin.
func (s *Session) CloseWrite() error { return s.stdin.Close() }

// Wait waits for the command to end: nil, an *ExitError, or an error that wraps ErrDisconnected.
func (s *Session) Wait() error { return s.s.Wait() }

// Close ends the session at once. What runs on the node is not signalled.
func (s *Session) Close() error { return s.s.Close() }

// Open starts a command for a long conversation.
func (c *Client) Open(ctx context.Context, command string) (*Session, error) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	xs, err := conn.NewSession()
	if err != nil {
		return nil, err
	}
	in, _ := xs.StdinPipe()
	out, _ := xs.StdoutPipe()
	er, _ := xs.StderrPipe()
	if err := xs.Start(command); err != nil {
		xs.Close()
		return nil, err
	}
	return &Session{Stderr: er, stdin: in, stdout: out, s: xs}, nil
}

// SFTP opens the SFTP subsystem. Its owner closes it.
func (c *Client) SFTP(ctx context.Context) (*sftp.Client, error) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	return sftp.NewClient(conn)
}

// Close ends the connection for good.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == nil {
		return nil
	}
	return c.conn.Close()
}
