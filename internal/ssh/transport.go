package ssh

import (
	"net"
	"sync/atomic"
	"syscall"
)

// quickReads is how many reads are acknowledged at once: enough for the
// handshake and the first commands after it.
const quickReads = 64

// A transport is the connection below SSH. It counts what arrives, which tells
// whether the other side is alive, and acknowledges the first reads at once.
type transport struct {
	net.Conn
	reads atomic.Int64
	raw   syscall.RawConn // nil where there is no TCP socket
	over  atomic.Bool     // nothing more can be read
	last  atomic.Pointer[func()]
}

func newTransport(nc net.Conn) *transport {
	t := &transport{Conn: nc}
	if tcp, ok := nc.(interface{ SetNoDelay(bool) error }); ok {
		tcp.SetNoDelay(true)
	}
	if sc, ok := nc.(syscall.Conn); ok {
		if raw, err := sc.SyscallConn(); err == nil {
			t.raw = raw
			quickAck(raw)
		}
	}
	return t
}

func (t *transport) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if err != nil {
		t.Conn.Close() // writing fails too from now on
		t.over.Store(true)
		if last := t.last.Load(); last != nil {
			(*last)()
		}
	}
	if t.reads.Add(1) < quickReads && t.raw != nil {
		quickAck(t.raw)
	}
	return n, err
}

// atEnd has f called when nothing more can be read, before anybody is told.
func (t *transport) atEnd(f func()) {
	t.last.Store(&f)
	if t.over.Load() {
		f()
	}
}
