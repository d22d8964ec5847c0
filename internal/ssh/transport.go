package ssh

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// quickReads is how many packets are acknowledged at once: enough for the
// handshake and the first commands after it.
const quickReads = 64

// A transport is the connection below SSH. It counts what arrives, which tells
// whether the other side is alive, and acknowledges the first reads at once.
type transport struct {
	net.Conn
	reads atomic.Int64
	quick int             // packets acknowledged at once, by the one reader
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
	t.reads.Add(1)
	// The server's version comes byte by byte, from one packet.
	if n > 1 && t.quick < quickReads && t.raw != nil {
		t.quick++
		quickAck(t.raw)
	}
	return n, err
}

// hear calls silent when nothing has arrived for patience, at most twice that,
// unless over is closed first.
func (t *transport) hear(patience time.Duration, over <-chan struct{}, silent func()) {
	ticker := time.NewTicker(patience)
	defer ticker.Stop()
	for seen := int64(0); ; {
		select {
		case <-over:
			return
		case <-ticker.C:
		}
		reads := t.reads.Load()
		if reads == seen {
			silent()
			return
		}
		seen = reads
	}
}

// atEnd has f called when nothing more can be read, before anybody is told.
func (t *transport) atEnd(f func()) {
	t.last.Store(&f)
	if t.over.Load() {
		f()
	}
}
