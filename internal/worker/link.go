package worker

import (
	"io"
	"sync"
)

// A link is one connection between a client and a daemon, seen from either
// end: frames are read by its user and written by way of its outbox.
type link struct {
	frameReader
	out *outbox

	conn   io.ReadWriteCloser
	once   sync.Once
	writer sync.WaitGroup

	// members are the memberships that the other side was told of. They are
	// the client's, guarded by it.
	members map[string]uint64
}

// newLink takes over conn. preamble is written first.
func newLink(conn io.ReadWriteCloser, preamble string) *link {
	l := &link{frameReader: newFrameReader(conn), out: newOutbox(conn), conn: conn}
	l.writer.Go(func() {
		defer l.cut()           // the reader then ends too
		_ = l.out.run(preamble) // the reader reports that the link is broken
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

// acknowledge lets the daemon forget a call: at once where that frees much
// memory, and else with what goes there next.
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

// close ends the link. Nothing of it runs afterwards.
func (l *link) close() {
	l.cut()
	l.out.end(0, nil)
	l.writer.Wait()
}
