package ssh

import (
	"context"
	"errors"
	"io"
	"time"

	xssh "golang.org/x/crypto/ssh"
)

// ErrNoTerminal means that the server gives no terminal to a session.
var ErrNoTerminal = errors.New("the SSH server gives no terminal (PermitTTY in its sshd_config)")

// A Terminal describes the terminal that a session has on the node.
type Terminal struct {
	// Type is the value of TERM: "xterm-256color". Empty means "dumb".
	Type string
	// Columns and Rows are its size in characters. Zero means unknown.
	Columns, Rows int
}

// utf8Input (IUTF8, RFC 8160) makes the node's line editing erase whole characters.
const utf8Input = 42

// request returns the payload of a pty-req.
func (t *Terminal) request() []byte {
	modes := append(xssh.Marshal(struct {
		Mode  byte
		Value uint32
	}{utf8Input, 1}), 0)
	kind := t.Type
	if kind == "" {
		kind = "dumb"
	}
	return xssh.Marshal(struct {
		Type                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}{kind, uint32(max(t.Columns, 0)), uint32(max(t.Rows, 0)), 0, 0, string(modes)})
}

// OpenTerminal is Open for a command with a terminal, whose output all comes as stdout. The error wraps ErrNoTerminal if
// the server refuses one.
func (c *Client) OpenTerminal(ctx context.Context, command string, t Terminal) (*Session, error) {
	return c.open(ctx, request{name: "exec", payload: command, long: true, terminal: &t})
}

// Resize changes the size of a session's terminal.
func (s *Session) Resize(columns, rows int) error {
	_, err := s.channel.SendRequest("window-change", false, xssh.Marshal(struct{ Columns, Rows, Width, Height uint32 }{uint32(columns), uint32(rows), 0, 0}))
	return err
}

// End asks the server to send a signal, named without SIG, to the session's command, and closes the session. Servers may
// ignore the signal; a command that has a terminal gets SIGHUP when the terminal is gone.
func (s *Session) End(signal string) {
	sent := make(chan struct{})
	ask := func() {
		defer close(sent)
		s.channel.SendRequest("signal", false, xssh.Marshal(struct{ Name string }{signal}))
	}
	if !isClosed(s.done) && s.link.spawn(ask) {
		timer := time.NewTimer(closing)
		defer timer.Stop()
		select {
		case <-sent:
		case <-timer.C:
		}
	}
	s.Close()
}

// Pump connects the session to three streams as Exec does, until its command has ended, and closes it.
func (s *Session) Pump(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	return s.pump(ctx, stdin, stdout, stderr)
}
