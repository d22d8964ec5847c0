// Package reach leads from this program to the nodes of a pool, beside its tasks: connections, forwarded ports, shells,
// and a configuration for other SSH clients.
package reach

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// Config configures an Access.
type Config struct {
	// Pool is the pool's ID, and Provider its provider's name.
	Pool, Provider string
	// Context ends with the pool.
	Context context.Context
	// Visit waits until the node of a rank can be reached, and keeps it until the visit is over.
	Visit func(ctx context.Context, rank int) (*Visit, error)
	// Servers returns the SSH servers of the nodes that have proved their host keys, in the order of their ranks.
	Servers func() []Server
	// Trouble is called with what goes wrong with a forwarding ("forward") or a configuration file ("ssh config") while
	// no caller waits.
	Trouble func(about string, err error)
}

// A Visit is a use of a node.
type Visit struct {
	// Client is the connection to the node, and Context ends when the node is given up.
	Client  *ssh.Client
	Context context.Context
	// Command returns the command that runs another where tasks run, in a session with a terminal or with pipes.
	Command func(command string, terminal bool) (string, error)
	// Login returns the shell text that starts the user's shell: see supervisor.Login.
	Login func() (string, error)
	// Leave ends the visit. It may be called again.
	Leave func()
}

// An Access is the ways into the nodes of one pool. Its methods can be called concurrently.
type Access struct {
	config Config
	files  configFiles

	mu          sync.Mutex
	closed      bool
	forwardings map[*Forwarding]bool
	wg          sync.WaitGroup // goroutines of forwardings and of files
}

// New returns an Access, which does nothing yet. Its owner closes it.
func New(c Config) *Access {
	a := &Access{config: c, forwardings: map[*Forwarding]bool{}}
	a.files = configFiles{access: a, changed: make(chan struct{}, 1), written: map[string][]byte{}, doors: map[string]*door{}}
	return a
}

// Close ends the forwardings, and removes the configuration files. It returns when that is done. Connections of Dial, and
// shells, end with the connections to the nodes.
func (a *Access) Close() {
	a.mu.Lock()
	a.closed = true
	var all []*Forwarding
	for f := range a.forwardings {
		all = append(all, f)
	}
	a.mu.Unlock()
	for _, f := range all {
		f.Close()
	}
	a.files.close()
	a.wg.Wait()
}

// start runs a goroutine that Close waits for. It reports false if the pool has ended.
func (a *Access) start(run func()) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.wg.Go(run)
	return true
}

// refuse returns the error of an operation that was refused.
func (a *Access) refuse(op string, kind, err error) *driver.Error {
	return &driver.Error{Provider: a.config.Provider, Op: op, Kind: kind, Err: err}
}

// ended returns the error of an operation after the end of the pool.
func (a *Access) ended(op string) error { return a.refuse(op, driver.ErrClosed, nil) }

// Dial has the node of a rank connect to a TCP address, as the node names it. ctx bounds the dialing.
func (a *Access) Dial(ctx context.Context, rank int, addr string) (net.Conn, error) {
	to, err := parseTarget(addr)
	if err != nil {
		return nil, a.refuse("dial", driver.ErrInvalid, err)
	}
	tunnel, leave, err := a.dial(ctx, rank, to)
	if err != nil {
		return nil, a.Explain(ctx, "dial", rank, err)
	}
	stop := context.AfterFunc(a.config.Context, func() { tunnel.Close() })
	go func() { // ends with the connection to the node at the latest
		<-tunnel.Ended()
		stop()
		leave()
	}()
	return ssh.Conn(tunnel, to.String()), nil
}

// dial returns a connection, and what ends the visit that it is part of.
func (a *Access) dial(ctx context.Context, rank int, to target) (ssh.Tunnel, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.config.Context, func() { cancel(context.Cause(a.config.Context)) })()
	visit, err := a.config.Visit(ctx, rank)
	if err != nil {
		return nil, nil, err
	}
	defer context.AfterFunc(visit.Context, func() { cancel(lost(visit)) })()
	tunnel, err := visit.Client.Dial(ctx, to.host, to.port)
	if err != nil {
		visit.Leave()
		if cause := context.Cause(ctx); cause != nil && !errors.Is(err, cause) {
			err = fmt.Errorf("%w: %w", cause, err)
		}
		return nil, nil, err
	}
	return tunnel, visit.Leave, nil
}

// lost returns why the node of a visit was given up.
func lost(v *Visit) error {
	err := context.Cause(v.Context)
	if errors.Is(err, driver.ErrClosed) || errors.Is(err, driver.ErrNodeLost) {
		return err
	}
	return fmt.Errorf("%w: %w", driver.ErrNodeLost, err)
}

// Explain returns the error of an operation on a node, with its kind and what to do next.
func (a *Access) Explain(ctx context.Context, op string, rank int, err error) error {
	if ended := context.Cause(a.config.Context); ended != nil {
		return a.refuse(op, driver.ErrClosed, err)
	}
	if _, ok := errors.AsType[*driver.Error](err); ok && !errors.Is(err, driver.ErrNodeLost) {
		return err
	}
	e := a.refuse(op+" node "+strconv.Itoa(rank), nil, err)
	switch {
	case ctx.Err() != nil:
		if cause := context.Cause(ctx); !errors.Is(err, cause) {
			e.Err = fmt.Errorf("%w: %w", cause, err)
		}
	case errors.Is(err, driver.ErrNodeLost):
		e.Kind = driver.ErrNodeLost
	case errors.Is(err, ssh.ErrNoForwarding):
		e.Kind, e.Hint = driver.ErrUnsupported, "set AllowTcpForwarding yes in its sshd_config, or install one of these programs"
	case errors.Is(err, ssh.ErrNoTerminal):
		e.Kind, e.Hint = driver.ErrUnsupported, "set PermitTTY yes in its sshd_config, or give Shell a stdin that is no terminal"
	default:
		e.Kind = driver.ErrUnavailable
	}
	return e
}

// A target is a TCP address on a node.
type target struct {
	host string
	port int
}

func (t target) String() string { return net.JoinHostPort(t.host, strconv.Itoa(t.port)) }

// parseTarget reads host:port. An empty host is the node itself.
func parseTarget(addr string) (target, error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return target{}, fmt.Errorf("the address %q on the node: %w; use host:port, as in 127.0.0.1:6006", addr, err)
	}
	port, err := strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 {
		return target{}, fmt.Errorf("the address %q on the node has no port from 1 to 65535", addr)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	for _, r := range host {
		if r <= ' ' || r == 0x7f {
			return target{}, fmt.Errorf("the address %q on the node has a space or control character", addr)
		}
	}
	if host[0] == '-' {
		return target{}, fmt.Errorf("the address %q on the node begins with a dash", addr)
	}
	return target{host, port}, nil
}
