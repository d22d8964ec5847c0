package reach

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/ssh"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Forwarding is a port of this computer whose connections lead to an address on a node. It ends by Close, with the
// context that it was begun with, or with the pool. Its methods can be called concurrently.
type Forwarding struct {
	access   *Access
	rank     int
	to       target
	listener net.Listener
	ctx      context.Context
	cancel   context.CancelFunc

	closing sync.Once
	stop    func() bool // stops watching the context that it was begun with
	over    chan struct{}

	mu    sync.Mutex
	conns sync.WaitGroup // those that serve
	told  string         // the last failure that was reported
}

// Forward listens at a local address, host:port, and leads each connection to the address to on the node that has the
// rank at that moment. An empty host is 127.0.0.1, and port 0 any free one.
func (a *Access) Forward(ctx context.Context, local string, rank int, to string) (*Forwarding, error) {
	invalid := func(err error) error { return a.refuse("forward", driver.ErrInvalid, err) }
	target, err := parseTarget(to)
	if err != nil {
		return nil, invalid(err)
	}
	if rank < 0 {
		return nil, invalid(fmt.Errorf("there is no node %d: ranks count from 0", rank))
	}
	if strings.HasPrefix(local, ":") {
		local = "127.0.0.1" + local // not every interface, as package net would
	}
	if _, _, err := net.SplitHostPort(local); err != nil {
		return nil, invalid(fmt.Errorf("the address %q here: %w; use host:port, as in 127.0.0.1:0", local, err))
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", local)
	if err != nil {
		e := a.refuse("forward", driver.ErrUnavailable, err)
		e.Hint = "port 0 takes any free one"
		return nil, e
	}
	f := &Forwarding{access: a, rank: rank, to: target, listener: l, over: make(chan struct{})}
	f.ctx, f.cancel = context.WithCancel(a.config.Context)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed || a.config.Context.Err() != nil {
		f.cancel()
		l.Close()
		return nil, a.ended("forward")
	}
	a.forwardings[f] = true
	a.wg.Go(f.accept)
	f.stop = context.AfterFunc(ctx, func() { f.end() })
	return f, nil
}

// Addr returns the address here: a *net.TCPAddr with the port.
func (f *Forwarding) Addr() net.Addr { return f.listener.Addr() }

// Close ends the forwarding with its connections, and returns when they have ended. Closing twice is the same as once.
func (f *Forwarding) Close() error {
	f.end()
	<-f.over
	return nil
}

func (f *Forwarding) end() {
	f.closing.Do(func() {
		f.cancel()
		f.listener.Close()
	})
}

// accept serves connections until the listener is closed.
func (f *Forwarding) accept() {
	defer close(f.over)
	defer func() {
		f.end()
		f.conns.Wait()
		f.access.mu.Lock()
		defer f.access.mu.Unlock()
		f.stop()
		delete(f.access.forwardings, f)
	}()
	defer context.AfterFunc(f.ctx, func() { f.listener.Close() })()
	for {
		nc, err := f.listener.Accept()
		switch {
		case f.ctx.Err() != nil:
			if err == nil {
				nc.Close()
			}
			return
		case err != nil: // as if this program has too many files open
			f.report(fmt.Errorf("accepting a connection at %v: %w", f.Addr(), err))
			select {
			case <-f.ctx.Done():
			case <-time.After(100 * time.Millisecond):
			}
			continue
		}
		f.conns.Go(func() { f.serve(nc.(*net.TCPConn)) })
	}
}

// serve leads one connection to the node. One that cannot be made, or is cut, is reset, so that its client takes no part
// for the whole.
func (f *Forwarding) serve(here *net.TCPConn) {
	there, leave, err := f.access.dial(f.ctx, f.rank, f.to)
	if err != nil {
		reset(here)
		if f.ctx.Err() == nil {
			f.report(f.access.Explain(f.ctx, "forward", f.rank, err))
		}
		return
	}
	defer leave()
	f.mu.Lock()
	f.told = ""
	f.mu.Unlock()
	join(f.ctx, here, there)
}

// report reports a failure, unless the one before was the same.
func (f *Forwarding) report(err error) {
	f.mu.Lock()
	known := f.told == err.Error()
	f.told = err.Error()
	f.mu.Unlock()
	if !known {
		f.access.config.Trouble("forward", err)
	}
}

// join copies both directions until each has ended, or until ctx ends or one fails, and closes both ends. A read from the
// node that waits for a stuck network is left to end with the node's connection.
func join(ctx context.Context, here *net.TCPConn, there ssh.Tunnel) {
	broken, ended := make(chan struct{}), make(chan struct{})
	cut := sync.OnceFunc(func() {
		defer close(broken)
		reset(here)
		there.Close()
	})
	defer context.AfterFunc(ctx, cut)()
	var both sync.WaitGroup
	both.Go(func() {
		if _, err := io.Copy(there, reader{here}); err != nil || there.CloseWrite() != nil && !isOver(there) {
			cut()
		}
	})
	both.Go(func() {
		if _, err := io.Copy(writer{here}, there); err != nil || here.CloseWrite() != nil {
			cut()
		}
	})
	go func() {
		both.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		there.Close()
		here.Close()
	case <-broken:
	}
}

// isOver reports whether a tunnel has ended.
func isOver(t ssh.Tunnel) bool {
	select {
	case <-t.Ended():
		return true
	default:
		return false
	}
}

// A reader and a writer hide what else a connection has: io.Copy allocates less for them.
type (
	reader struct{ io.Reader }
	writer struct{ io.Writer }
)

// reset ends a connection by RST rather than FIN.
func reset(nc *net.TCPConn) {
	nc.SetLinger(0)
	nc.Close()
}
