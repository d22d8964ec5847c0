package slurm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	gossh "github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
	"github.com/gputrain/gputrain/providers/ssh"
)

// absentPatience is how many seconds a login node may refuse the port, or be unknown, when it is first reached: it is up, but
// its SSH server may be restarting.
const absentPatience = 3

// A login is the connection to the login node: one for all commands and all forwards, through all hosts before it. It
// is reopened when it is cut.
type login struct {
	hops []driver.Endpoint //secretvet:ignore hosts have no password; the login node is the last

	mu      sync.Mutex
	clients []*gossh.Client // of hops; nil before the first command, and once a server has refused the login
	closed  bool
}

// shell returns what runs commands, and the user that they run as.
func (c Config) shell() (shell, string, error) {
	if c.Local {
		return newLocal()
	}
	l := &login{}
	for _, h := range append(append([]ssh.Host{}, c.Jump...), c.Login) {
		at, err := h.Endpoint()
		if err != nil {
			return nil, "", err
		}
		l.hops = append(l.hops, at)
	}
	return l, l.hops[len(l.hops)-1].User, nil
}

// Run runs shell text by a shell of its own, which reads it from stdin: no argument shows it.
func (l *login) Run(ctx context.Context, text string) (stdout, stderr string, err error) {
	client, err := l.connected(ctx)
	if err != nil {
		return "", "", &unsent{err}
	}
	var out, complaint output
	err = client.Exec(ctx, "exec sh", strings.NewReader(text), &out, &complaint)
	if errors.Is(err, gossh.ErrNoCommand) {
		return "", "", &unsent{err}
	}
	if _, ended := errors.AsType[*gossh.ExitError](err); ended {
		err = nil // whether all was run is read from the output
	}
	return out.text.String(), complaint.text.String(), err
}

// connected returns the client of the login node once it is connected.
func (l *login) connected(ctx context.Context) (*gossh.Client, error) {
	clients, err := l.chain()
	if err != nil {
		return nil, err
	}
	for i, client := range clients {
		if err := client.Connect(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", l.hops[i].Addr, err)
		}
	}
	return clients[len(clients)-1], nil
}

// chain returns the clients of all hops, each of which is dialed through the one before it.
func (l *login) chain() ([]*gossh.Client, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, gossh.ErrClosed
	}
	for _, c := range l.clients {
		if c.Err() != nil { // its login is refused, or its host key has changed: perhaps not for ever
			l.hangUp()
			break
		}
	}
	if l.clients != nil {
		return l.clients, nil
	}
	for i, at := range l.hops {
		cfg, err := clientConfig(at)
		if err != nil {
			l.hangUp()
			return nil, err
		}
		cfg.Dial = dialDirect(at.Addr)
		if i > 0 {
			cfg.Dial = dialThrough(l.clients[i-1], at.Addr)
		}
		l.clients = append(l.clients, gossh.New(cfg))
	}
	return l.clients, nil
}

// clientConfig returns how to log in to a host.
func clientConfig(at driver.Endpoint) (gossh.Config, error) {
	keys, err := gossh.UserKeys(at.Identities(), at.Agent)
	if err != nil {
		return gossh.Config{}, &driver.Error{Kind: driver.ErrAuth, Err: err}
	}
	hostKey, algorithms, err := gossh.HostKeys(at.HostKeys, at.KnownHosts, at.Addr, nil)
	if err != nil {
		return gossh.Config{}, &driver.Error{Kind: driver.ErrHostKey, Err: err}
	}
	return gossh.Config{
		Addr: at.Addr, User: at.User, Keys: keys, HostKey: hostKey, HostKeyAlgorithms: algorithms, AbsentPatience: absentPatience * cloud.Second,
	}, nil
}

func dialDirect(addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", addr)
	}
}

func dialThrough(via *gossh.Client, addr string) func(context.Context) (net.Conn, error) {
	return func(ctx context.Context) (net.Conn, error) {
		host, port, err := splitAddr(addr)
		if err != nil {
			return nil, err
		}
		t, err := via.Dial(ctx, host, port)
		if err != nil {
			return nil, err
		}
		return gossh.Conn(t, addr), nil
	}
}

func splitAddr(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	return host, port, err
}

// hangUp closes the clients. mu is held.
func (l *login) hangUp() {
	for i := len(l.clients) - 1; i >= 0; i-- {
		l.clients[i].Close()
	}
	l.clients = nil
}

// Close ends the connection. What ran over it ends.
func (l *login) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.hangUp()
	return nil
}
