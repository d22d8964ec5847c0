package sshd

import (
	"net"
	"time"
)

// Pipe returns the two ends of a connection in memory. Up to 1 MiB that one end has written is
// buffered until the other reads it. Unlike with [net.Pipe], a writer does not wait for a reader,
// because in SSH both ends begin by writing. If the buffer is full, writing blocks, as with TCP.
//
// After one end is closed, the other can read what was written before, then gets io.EOF, and its
// writes fail. All of [net.Conn] works, including deadlines, inside a testing/synctest bubble and
// outside.
func Pipe() (client, server net.Conn) {
	up, down := newStream(), newStream()
	return &pipeConn{in: down, out: up}, &pipeConn{in: up, out: down}
}

// A pipeConn is one end: it reads from one stream and writes to the other.
type pipeConn struct {
	in, out *stream
}

func (c *pipeConn) Read(b []byte) (int, error)  { return c.in.read(b) }
func (c *pipeConn) Write(b []byte) (int, error) { return c.out.write(b) }

// Close ends both directions. It is idempotent.
func (c *pipeConn) Close() error {
	c.in.closeRead()
	c.out.closeWrite()
	return nil
}

func (c *pipeConn) LocalAddr() net.Addr  { return pipeAddr{} }
func (c *pipeConn) RemoteAddr() net.Addr { return pipeAddr{} }

func (c *pipeConn) SetDeadline(t time.Time) error {
	c.SetReadDeadline(t)
	return c.SetWriteDeadline(t)
}

func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.readDeadline, t)
	return nil
}

func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.writeDeadline, t)
	return nil
}

// pipeAddr is the address of either end.
type pipeAddr struct{}

func (pipeAddr) Network() string { return "memory" }
func (pipeAddr) String() string  { return "memory" }
