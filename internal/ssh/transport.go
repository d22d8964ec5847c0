package ssh

import (
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// The first quickReads packets are acknowledged at once: the handshake and the first commands after it.
const quickReads = 64

// A transport is the connection below SSH. It counts the reads, which shows whether the other side is alive, and
// acknowledges the first ones at once.
type transport struct {
	net.Conn
	reads atomic.Int64
	quick int             // packets acknowledged at once; used by the one reader
	raw   syscall.RawConn // nil if it is not a TCP socket
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
		t.Conn.Close() // makes writing fail too
		t.over.Store(true)
		if last := t.last.Load(); last != nil {
			(*last)()
		}
	}
	t.reads.Add(1)
	// The server sends its version in one packet, and it is read byte by byte.
	if n > 1 && t.quick < quickReads && t.raw != nil {
		t.quick++
		quickAck(t.raw)
	}
	return n, err
}

// hear calls silent after patience without data, or at most twice that, unless over is closed first.
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

// atEnd calls f when nothing more can be read, before the reader returns the error.
func (t *transport) atEnd(f func()) {
	t.last.Store(&f)
	if t.over.Load() {
		f()
	}
}
