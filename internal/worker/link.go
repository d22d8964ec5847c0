package worker

import (
	"io"
	"sync"
)

// A link is one connection between a client and a daemon, seen from either
// end: frames are read by its user and written by its own goroutine.
type link struct {
	frameReader
	out *outbox

	conn   io.ReadWriteCloser
	once   sync.Once
	writer sync.WaitGroup
}

// newLink takes over conn. preamble is written first.
func newLink(conn io.ReadWriteCloser, preamble string) *link {
	l := &link{frameReader: newFrameReader(conn), out: newOutbox(), conn: conn}
	l.writer.Go(func() {
		defer l.cut() // the reader then ends too
		if _, err := io.WriteString(conn, preamble); err != nil {
			return
		}
		_ = l.out.run(conn) // the reader reports that the link is broken
	})
	return l
}

// cut closes the connection without waiting for the writer.
func (l *link) cut() {
	l.once.Do(func() { _ = l.conn.Close() }) // it is broken, or not needed any more
}

// close ends the link. Nothing of it runs afterwards.
func (l *link) close() {
	l.cut()
	l.out.end(nil)
	l.writer.Wait()
}
