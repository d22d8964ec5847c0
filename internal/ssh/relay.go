package ssh

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A server that forbids forwarding runs commands all the same: relay.sh connects its stdin and stdout to an address.
//
//go:embed relay.sh
var relayScript string

// relay has a program of the node connect to an address.
func relay(ctx context.Context, c *Client, host string, port int) (Tunnel, error) {
	s, err := c.Open(ctx, "exec sh -c "+word(relayScript)+" sh "+word(host)+" "+strconv.Itoa(port))
	if err != nil {
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() { s.Close() })
	t := &sessionTunnel{s}
	// It prints C before the first byte of the other end, R and a reason if that cannot be reached, and N if no program
	// can take the place of the server.
	var first [1]byte
	_, err = io.ReadFull(t, first[:])
	var why []byte
	if err == nil && first[0] != 'C' {
		why, _ = io.ReadAll(io.LimitReader(t, 1000))
	}
	if !stop() && ctx.Err() != nil {
		t.Close()
		return nil, fmt.Errorf("connecting on %s: %w", c.cfg.where(), ctx.Err())
	}
	switch {
	case err == nil && first[0] == 'C':
		if !s.link.spawn(func() { io.Copy(io.Discard, s.Stderr) }) {
			s.Close()
			return nil, ErrDisconnected
		}
		return t, nil
	case err == nil && first[0] == 'R':
		err = refusal(host, port, strings.TrimSpace(string(why)))
	case err == nil:
		err = ErrNoForwarding
	case !errors.Is(err, ErrDisconnected):
		err = fmt.Errorf("%w: %w", ErrNoForwarding, err)
	}
	t.Close()
	return nil, err
}

// A sessionTunnel is a command that relays.
type sessionTunnel struct{ *Session }

func (t *sessionTunnel) Read(p []byte) (int, error) {
	n, err := t.Session.Read(p)
	if err != nil && t.link.transport.over.Load() {
		err = disconnected(nil)
	}
	return n, err
}

func (t *sessionTunnel) Ended() <-chan struct{} { return t.done }

// Close ends the program too, which a closed session alone does not.
func (t *sessionTunnel) Close() error {
	t.End("TERM")
	return nil
}

// word returns text that a POSIX shell reads as one word.
func word(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
