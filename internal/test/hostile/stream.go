package hostile

import (
	"io"
	"sync"
)

// Stream wraps a connection to a node: the client reads what tamper writes.
func Stream(conn io.ReadWriteCloser, tamper Tamper) io.ReadWriteCloser {
	r, w := io.Pipe()
	s := &Session{done: make(chan struct{})}
	t := &tampered{conn: conn, r: r, shut: sync.OnceFunc(func() { close(s.done) })}
	t.wg.Go(func() {
		tamper(s, w, conn)
		w.Close()
		io.Copy(io.Discard, conn)
	})
	return t
}

type tampered struct {
	conn io.ReadWriteCloser
	r    *io.PipeReader
	shut func()
	wg   sync.WaitGroup
}

func (t *tampered) Read(p []byte) (int, error)  { return t.r.Read(p) }
func (t *tampered) Write(p []byte) (int, error) { return t.conn.Write(p) }

func (t *tampered) Close() error {
	t.shut()
	t.r.Close()
	err := t.conn.Close()
	t.wg.Wait()
	return err
}
