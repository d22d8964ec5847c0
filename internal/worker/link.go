package worker

import (
	"io"
	"sync"
)

// A link is one connection between a client and a daemon, at either end: its user reads the frames, and its outbox
// writes them.
type link struct {
	frameReader
	out *outbox

	conn   io.ReadWriteCloser
	once   sync.Once
	writer sync.WaitGroup

	// members are the memberships that the other side was sent. They are the client's, guarded by it.
	members map[string]uint64
}

// newLink takes over conn. preamble is written first.
func newLink(conn io.ReadWriteCloser, preamble string) *link {
	l := &link{frameReader: newFrameReader(conn), out: newOutbox(conn), conn: conn}
	l.writer.Go(func() {
		defer l.cut()           // which also ends the reader
		_ = l.out.run(preamble) // the reader reports the broken link
	})
	return l
}

// next returns the next frame's head.
func (l *link) next() (frameHead, error) {
	h, err := l.frameReader.next()
	if err == nil {
		l.out.heard()
	}
	return h, err
}

// acknowledge makes the daemon forget a call: at once if that frees much memory, otherwise with the next frame.
func (l *link) acknowledge(id uint64, large bool) {
	if large {
		l.out.push(frameAck, id, nil)
	} else {
		l.out.pushLazy(frameAck, id, nil)
	}
}

// cut closes the connection without waiting for the writer.
func (l *link) cut() {
	l.once.Do(func() { _ = l.conn.Close() }) // it is broken, or not needed any more
}

// close ends the link. None of its goroutines run afterwards.
func (l *link) close() {
	l.cut()
	l.out.end(0, nil)
	l.writer.Wait()
}
