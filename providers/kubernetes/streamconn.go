package kubernetes

import (
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// A streamConn makes a connection of streams that have no deadlines: a deadline that passes closes
// the connection.
type streamConn struct {
	pod    string
	reader io.Reader
	writer io.Writer
	why    func(error) error // explains the end of reading
	end    func()

	closing sync.Once
	mu      sync.Mutex
	timers  [2]*time.Timer // of reading and writing
	expired bool
}

func newStreamConn(pod string, r io.Reader, w io.Writer, why func(error) error, end func()) *streamConn {
	return &streamConn{pod: pod, reader: r, writer: w, why: why, end: end}
}

func (c *streamConn) Read(b []byte) (int, error) {
	n, err := c.reader.Read(b)
	if err != nil {
		err = c.late(c.why(err))
	}
	return n, err
}

func (c *streamConn) Write(b []byte) (int, error) {
	if err := c.late(nil); err != nil {
		return 0, err
	}
	n, err := c.writer.Write(b)
	if err != nil {
		err = c.late(err)
	}
	return n, err
}

// late returns the error of a deadline, if one has closed the connection.
func (c *streamConn) late(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expired {
		return os.ErrDeadlineExceeded
	}
	return err
}

// Close ends the connection. It can be called again.
func (c *streamConn) Close() error {
	c.SetDeadline(time.Time{})
	c.closing.Do(c.end)
	return nil
}

func (c *streamConn) SetDeadline(at time.Time) error {
	c.set(0, at)
	c.set(1, at)
	return nil
}
func (c *streamConn) SetReadDeadline(at time.Time) error  { c.set(0, at); return nil }
func (c *streamConn) SetWriteDeadline(at time.Time) error { c.set(1, at); return nil }

func (c *streamConn) set(i int, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timers[i] != nil {
		c.timers[i].Stop()
		c.timers[i] = nil
	}
	if at.IsZero() {
		return
	}
	c.timers[i] = time.AfterFunc(time.Until(at), func() {
		c.mu.Lock()
		c.expired = true
		c.mu.Unlock()
		c.closing.Do(c.end)
	})
}

func (c *streamConn) LocalAddr() net.Addr  { return podAddr("local") }
func (c *streamConn) RemoteAddr() net.Addr { return podAddr(c.pod) }

// A podAddr is the end of a connection through the API server.
type podAddr string

func (podAddr) Network() string  { return providerName }
func (a podAddr) String() string { return string(a) }
