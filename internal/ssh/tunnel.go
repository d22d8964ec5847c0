package ssh

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"

	xssh "golang.org/x/crypto/ssh"
)

var (
	// ErrRefused means that the node cannot connect to an address: nothing listens there, or the name is unknown. The
	// connection to the node is fine.
	ErrRefused = errors.New("connection refused")
	// ErrForbidden means that the server forbids forwarding.
	ErrForbidden = errors.New("the SSH server forbids forwarding (AllowTcpForwarding in its sshd_config)")
	// ErrNoForwarding means that the server forbids forwarding, and the node has no program that takes its place.
	ErrNoForwarding = errors.New("the SSH server forbids forwarding (AllowTcpForwarding in its sshd_config), and the node has neither perl, python3 nor nc, which would serve instead")
)

// A Tunnel is a connection that the node makes for this program. Read returns io.EOF only if the other end has closed
// its half: a cut connection is ErrDisconnected. Read may be used beside Write; Write and CloseWrite are called one at a
// time. The owner closes a tunnel.
type Tunnel interface {
	io.ReadWriteCloser
	// CloseWrite ends this program's half.
	CloseWrite() error
	// Ended is closed when the tunnel has ended: by Close, by the other end, or with the connection to the node.
	Ended() <-chan struct{}
}

// Dial has the node connect to a TCP address, host and port, as the node names it. It waits for the connection to the
// node if that is down. If the server forbids forwarding, a program of the node takes its place. The error is ctx's own,
// or wraps ErrRefused, ErrNoForwarding or ErrDisconnected.
func (c *Client) Dial(ctx context.Context, host string, port int) (Tunnel, error) {
	t, err := Forward(ctx, c, host, port)
	if errors.Is(err, ErrForbidden) {
		return relay(ctx, c, host, port)
	}
	return t, err
}

// Forward is [Client.Dial] by the server's own forwarding alone. If the server forbids that, the error wraps ErrForbidden.
func Forward(ctx context.Context, c *Client, host string, port int) (Tunnel, error) {
	for {
		l, err := up(ctx, c)
		if err != nil {
			return nil, err
		}
		t, err := forward(ctx, c, l, host, port)
		var refused *xssh.OpenChannelError
		switch {
		case err == nil:
			return t, nil
		case errors.Is(err, errNotStarted):
			if err := c.waitFor(ctx, l.dead); err != nil {
				return nil, err
			}
		case !errors.As(err, &refused):
			return nil, err
		case refused.Reason == xssh.Prohibited || refused.Reason == xssh.UnknownChannelType:
			return nil, fmt.Errorf("%s: %w", c.cfg.where(), ErrForbidden)
		default:
			return nil, refusal(host, port, refused.Message)
		}
	}
}

// refusal is the error of a node that cannot connect to an address.
func refusal(host string, port int, why string) error {
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	if strings.Contains(strings.ToLower(why), "refused") {
		return fmt.Errorf("%w at %s on the node: %w", ErrRefused, addr, errNothingListens)
	}
	return fmt.Errorf("%w at %s on the node: %.200s", ErrRefused, addr, why)
}

// errNothingListens matches syscall.ECONNREFUSED, as the error of a direct connection does.
var errNothingListens error = nothingListens{}

type nothingListens struct{}

func (nothingListens) Error() string { return "nothing listens there" }
func (nothingListens) Unwrap() error { return syscall.ECONNREFUSED }

// up waits for the connection.
func up(ctx context.Context, c *Client) (*link, error) {
	for {
		if err := c.await(ctx); err != nil {
			return nil, err
		}
		c.mu.Lock()
		l := c.main
		c.mu.Unlock()
		if l != nil && !l.isDead() {
			return l, nil
		}
	}
}

// forward opens a channel of type direct-tcpip on l. The error is errNotStarted if the connection ends before the answer:
// nothing has been sent to the address then.
func forward(ctx context.Context, c *Client, l *link, host string, port int) (Tunnel, error) {
	payload := xssh.Marshal(struct {
		Host       string
		Port       uint32
		Origin     string
		OriginPort uint32
	}{host, uint32(port), "127.0.0.1", 0})
	type result struct {
		t   Tunnel
		err error
	}
	answer := make(chan result)
	spawned := l.spawn(func() {
		var r result
		ch, reqs, err := l.conn.OpenChannel("direct-tcpip", payload)
		var refused *xssh.OpenChannelError
		switch {
		case err == nil:
			t := &channelTunnel{channel: ch, link: l, ended: make(chan struct{})}
			if l.spawn(func() { xssh.DiscardRequests(reqs); close(t.ended) }) {
				r.t = t
			} else {
				r.err = errNotStarted
			}
		case errors.As(err, &refused):
			r.err = err
		default:
			r.err = errNotStarted
		}
		select {
		case answer <- r:
		case <-ctx.Done(): // no caller waits for it any more
			if r.t != nil {
				r.t.Close()
			}
		}
	})
	if !spawned {
		return nil, errNotStarted
	}
	select {
	case a := <-answer:
		return a.t, a.err
	case <-ctx.Done():
		return nil, fmt.Errorf("connecting to %s on %s: %w", net.JoinHostPort(host, strconv.Itoa(port)), c.cfg.where(), ctx.Err())
	}
}

// A channelTunnel is a channel of type direct-tcpip.
type channelTunnel struct {
	channel xssh.Channel
	link    *link
	ended   chan struct{} // closed when the server has confirmed the end, or the connection has ended
	close   sync.Once
}

func (t *channelTunnel) Read(p []byte) (int, error) {
	n, err := t.channel.Read(p)
	switch {
	case err == nil:
	case t.link.transport.over.Load(): // the channel ends as if the other end had closed it
		err = disconnected(nil)
	case !errors.Is(err, io.EOF):
		err = disconnected(err)
	}
	return n, err
}

func (t *channelTunnel) Write(p []byte) (int, error) {
	n, err := t.channel.Write(p)
	if err != nil && t.link.transport.over.Load() {
		err = disconnected(nil)
	}
	return n, err
}

func (t *channelTunnel) CloseWrite() error { return t.channel.CloseWrite() }

func (t *channelTunnel) Ended() <-chan struct{} { return t.ended }

// Close ends the tunnel at once.
func (t *channelTunnel) Close() error {
	t.close.Do(func() { closeChannel(t.link, t.channel, t.ended) })
	return nil
}
