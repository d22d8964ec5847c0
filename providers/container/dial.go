package container

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/providers/driver"
)

// tunnels reports whether nodes are reached through the engine, because this machine cannot
// reach their ports.
func (d *containerDriver) tunnels() bool { return d.facts.remote || d.engine.dialect == apple }

// Dial connects to a node's SSH server: at its port, or through the engine if that runs on
// another machine. If nothing listens at the port, Dial tries the engine, too: this program may
// itself be in a container that has the engine's socket, and a 127.0.0.1 of its own.
func (d *containerDriver) Dial(ctx context.Context, in driver.Instance) (net.Conn, error) {
	if !d.tunnels() && in.SSH.Addr != "" {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", in.SSH.Addr)
		if err == nil || !errors.Is(err, syscall.ECONNREFUSED) {
			return conn, fail("dial", err)
		}
	}
	conn, err := d.engine.tunnel(ctx, in.ID)
	if err != nil {
		return nil, fail("dial", err)
	}
	return conn, nil
}

// tunnel runs an SSH server for one connection inside a container, and connects to it by the
// command's standard input and output.
func (e *engine) tunnel(ctx context.Context, id string) (net.Conn, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		theirIn.Close()
		in.Close()
		return nil, err
	}
	// The connection outlives the dialing; Close ends it.
	t := &tunnelConn{id: id, in: in, out: out, reader: bufio.NewReaderSize(out, 64<<10)}
	t.cmd = e.command(context.WithoutCancel(ctx), "exec", "--interactive", "--user", "0:0", id, "sh", "-c", tunnelScript)
	t.cmd.Stdin, t.cmd.Stdout, t.cmd.Stderr = theirIn, theirOut, &t.stderr
	err = t.cmd.Start()
	theirIn.Close()
	theirOut.Close()
	if err != nil {
		in.Close()
		out.Close()
		return nil, err
	}
	// The server speaks first. If it is silent, the engine's output has the reason.
	stop := context.AfterFunc(ctx, t.kill)
	_, err = t.reader.Peek(1)
	if !stop() && ctx.Err() != nil {
		t.Close()
		return nil, fmt.Errorf("%s exec: %w", e.dialect, context.Cause(ctx))
	}
	if err != nil {
		t.Close()
		return nil, &commandError{command: e.dialect.String() + " exec", stderr: tail(t.stderr.String()), err: err}
	}
	return t, nil
}

// A tunnelConn is a connection over a command's standard input and output.
type tunnelConn struct {
	id      string
	cmd     *exec.Cmd
	in, out *os.File
	reader  *bufio.Reader
	stderr  output.Tail // read only after the command's end
	closing sync.Once
}

func (t *tunnelConn) Read(p []byte) (int, error)  { return t.reader.Read(p) }
func (t *tunnelConn) Write(p []byte) (int, error) { return t.in.Write(p) }

// Close ends the command and waits for its end.
func (t *tunnelConn) Close() error {
	t.closing.Do(func() {
		t.in.Close()
		t.out.Close()
		t.kill()
		_ = t.cmd.Wait() // killed, so the error is known
	})
	return nil
}

func (t *tunnelConn) kill() { _ = t.cmd.Process.Kill() }

func (t *tunnelConn) LocalAddr() net.Addr  { return tunnelAddr("local") }
func (t *tunnelConn) RemoteAddr() net.Addr { return tunnelAddr(t.id) }

func (t *tunnelConn) SetDeadline(at time.Time) error {
	return errors.Join(t.SetReadDeadline(at), t.SetWriteDeadline(at))
}
func (t *tunnelConn) SetReadDeadline(at time.Time) error  { return t.out.SetReadDeadline(at) }
func (t *tunnelConn) SetWriteDeadline(at time.Time) error { return t.in.SetWriteDeadline(at) }

// A tunnelAddr is the address of a tunnel's end: a container.
type tunnelAddr string

func (tunnelAddr) Network() string  { return "exec" }
func (a tunnelAddr) String() string { return string(a) }
