package ssh

import (
	"net"
	"os"
	"sync"
	"time"
)

// Conn returns a tunnel as a net.Conn with deadlines, which channels of SSH do not have. The remote address is what was
// dialed, on the node. It has the method CloseWrite, as TCP connections do. Closing it closes the tunnel.
func Conn(t Tunnel, remote string) net.Conn {
	return &conn{
		tunnel: t, remote: remote, closed: make(chan struct{}),
		readBy: deadline{passed: make(chan struct{})}, writeBy: deadline{passed: make(chan struct{})},
	}
}

// chunkSize is a little less than the largest packet of a channel.
const chunkSize = 32 << 10

// A conn reads from its tunnel, and writes to it, in goroutines that a deadline leaves behind: the next call takes up
// their result.
type conn struct {
	tunnel Tunnel
	remote string

	closing sync.Once
	closed  chan struct{}

	reading sync.Mutex // guards the fields up to readBy
	rest    []byte     // read and not yet taken
	failed  error      // why no more can be read
	read    chan transferred
	in      []byte
	readBy  deadline

	writing sync.Mutex // guards the fields up to writeBy
	wrote   chan transferred
	out     []byte
	writeBy deadline
}

// transferred is the result of a Read or Write of the tunnel.
type transferred struct {
	n   int
	err error
}

func (c *conn) Read(p []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	for {
		switch {
		case isClosed(c.closed):
			return 0, net.ErrClosed
		case isClosed(c.readBy.wait()):
			return 0, os.ErrDeadlineExceeded
		case len(p) == 0:
			return 0, nil
		case len(c.rest) > 0:
			n := copy(p, c.rest)
			c.rest = c.rest[n:]
			return n, nil
		case c.failed != nil:
			return 0, c.failed
		}
		if c.read == nil {
			if c.in == nil {
				c.in = make([]byte, chunkSize)
			}
			c.read = make(chan transferred, 1)
			go func(to chan<- transferred) {
				n, err := c.tunnel.Read(c.in)
				to <- transferred{n, err}
			}(c.read)
		}
		select {
		case r := <-c.read:
			c.read, c.rest, c.failed = nil, c.in[:r.n], r.err
		case <-c.readBy.wait():
		case <-c.closed:
		}
	}
}

// Write counts what the tunnel has been given, also if a deadline passes before the tunnel has taken it: the caller goes on
// with the rest. If that fails later, the next call returns the error.
func (c *conn) Write(p []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	mine := false // the tunnel has data of this call, and not of one that a deadline has ended
	for done := 0; ; {
		switch {
		case isClosed(c.closed):
			return done, net.ErrClosed
		case isClosed(c.writeBy.wait()):
			return done, os.ErrDeadlineExceeded
		case c.wrote == nil && done == len(p):
			return done, nil
		}
		if c.wrote == nil {
			c.out = append(c.out[:0], p[done:min(len(p), done+chunkSize)]...)
			c.wrote = make(chan transferred, 1)
			mine, done = true, done+len(c.out)
			go func(to chan<- transferred) {
				n, err := c.tunnel.Write(c.out)
				to <- transferred{n, err}
			}(c.wrote)
		}
		select {
		case r := <-c.wrote:
			c.wrote = nil
			if mine {
				done -= len(c.out) - r.n
			}
			if r.err != nil {
				return done, r.err
			}
		case <-c.writeBy.wait():
		case <-c.closed:
		}
	}
}

// CloseWrite ends this program's half, once what was written is on its way.
func (c *conn) CloseWrite() error {
	if _, err := c.Write(nil); err != nil {
		return err
	}
	c.writing.Lock()
	defer c.writing.Unlock()
	return c.tunnel.CloseWrite()
}

func (c *conn) Close() error {
	err := error(net.ErrClosed)
	c.closing.Do(func() {
		close(c.closed)
		err = c.tunnel.Close()
		c.readBy.set(time.Time{})
		c.writeBy.set(time.Time{})
	})
	return err
}

func (c *conn) LocalAddr() net.Addr  { return address("gputrain") }
func (c *conn) RemoteAddr() net.Addr { return address(c.remote) }

func (c *conn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	c.writeBy.set(t)
	return nil
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return nil
}

func (c *conn) SetWriteDeadline(t time.Time) error {
	c.writeBy.set(t)
	return nil
}

// A deadline is a time after which a read or write fails, as in net.Pipe.
type deadline struct {
	mu     sync.Mutex
	timer  *time.Timer
	passed chan struct{} // closed when the deadline passes; set replaces it
}

// wait returns a channel that is closed after the deadline.
func (d *deadline) wait() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.passed
}

// set moves the deadline. The zero time means that there is none.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.passed // the timer's function runs, and closes it
	}
	d.timer = nil
	over := isClosed(d.passed)
	switch wait := time.Until(t); {
	case t.IsZero():
		if over {
			d.passed = make(chan struct{})
		}
	case wait > 0:
		if over {
			d.passed = make(chan struct{})
		}
		passed := d.passed
		d.timer = time.AfterFunc(wait, func() { close(passed) })
	case !over:
		close(d.passed)
	}
}
