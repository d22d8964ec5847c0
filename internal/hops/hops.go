// Package hops logs in to a host through other hosts, one after the other.
package hops

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// dialTimeout bounds the connection to the first host.
const dialTimeout = 10 * time.Second

// A Chain is the connections to hosts, each of which is reached through the one before it. It connects when it is first used, and
// again when it is cut.
type Chain struct {
	hops    []driver.Endpoint //secretvet:ignore hosts have no password
	patient time.Duration

	mu      sync.Mutex
	clients []*ssh.Client // of hops; nil before the first use, and once a server has refused the login
	closed  bool
}

// New returns a Chain. One of no host dials directly. absentPatience is for how long a host may refuse the port, or be unknown, when it is first
// reached: it is up, but its SSH server may be restarting.
func New(hops []driver.Endpoint, absentPatience time.Duration) *Chain {
	return &Chain{hops: hops, patient: absentPatience}
}

// User is the user at the last host.
func (c *Chain) User() string { return c.hops[len(c.hops)-1].User }

// Client returns the client of the last host, of at least one, once it is connected.
func (c *Chain) Client(ctx context.Context) (*ssh.Client, error) {
	clients, err := c.open()
	if err != nil {
		return nil, err
	}
	for i, client := range clients {
		if err := client.Connect(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", c.hops[i].Addr, err)
		}
	}
	return clients[len(clients)-1], nil
}

// Dial connects to host:port as the last host names it.
func (c *Chain) Dial(ctx context.Context, addr string) (net.Conn, error) {
	if len(c.hops) == 0 {
		return direct(addr)(ctx)
	}
	last, err := c.Client(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := through(last, addr)(ctx)
	if err != nil {
		return nil, fmt.Errorf("through %s: %w", c.hops[len(c.hops)-1].Addr, err)
	}
	return conn, nil
}

// open returns the clients of all hops.
func (c *Chain) open() ([]*ssh.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, ssh.ErrClosed
	}
	for _, client := range c.clients {
		if client.Err() != nil { // its login is refused, or its host key has changed: perhaps not for ever
			c.hangUp()
			break
		}
	}
	if c.clients != nil {
		return c.clients, nil
	}
	for i, at := range c.hops {
		cfg, err := c.config(at)
		if err != nil {
			c.hangUp()
			return nil, err
		}
		cfg.Dial = direct(at.Addr)
		if i > 0 {
			cfg.Dial = through(c.clients[i-1], at.Addr)
		}
		c.clients = append(c.clients, ssh.New(cfg))
	}
	return c.clients, nil
}

// config returns how to log in to a host.
func (c *Chain) config(at driver.Endpoint) (ssh.Config, error) {
	keys, err := ssh.UserKeys(at.Identities(), at.Agent)
	if err != nil {
		return ssh.Config{}, &driver.Error{Kind: driver.ErrAuth, Err: err}
	}
	hostKey, algorithms, err := ssh.HostKeys(at.HostKeys, at.KnownHosts, at.Addr, nil)
	if err != nil {
		return ssh.Config{}, &driver.Error{Kind: driver.ErrHostKey, Err: err}
	}
	return ssh.Config{
		Addr: at.Addr, User: at.User, Keys: keys, HostKey: hostKey, HostKeyAlgorithms: algorithms, AbsentPatience: c.patient,
	}, nil
}

func direct(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", addr)
	}
}

func through(via *ssh.Client, addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		host, port, err := Split(addr)
		if err != nil {
			return nil, err
		}
		t, err := via.Dial(ctx, host, port)
		if err != nil {
			return nil, err
		}
		return ssh.Conn(t, addr), nil
	}
}

// Split returns the parts of host:port.
func Split(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// hangUp closes the clients. mu is held.
func (c *Chain) hangUp() {
	for i := len(c.clients) - 1; i >= 0; i-- {
		c.clients[i].Close()
	}
	c.clients = nil
}

// Close ends the connections. What runs over them ends.
func (c *Chain) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.hangUp()
}
