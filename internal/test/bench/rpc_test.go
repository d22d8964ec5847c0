package bench

import (
	"io"
	"net/rpc"
	"os"
	"sync"
	"testing"

	xssh "golang.org/x/crypto/ssh"
)

// Increment is the net/rpc service, with the same function as the other contenders.
type Increment struct{}

// Do sets y to x plus one.
func (Increment) Do(x int, y *int) error { *y = x + 1; return nil }

// coalesceEnv names the variable that makes serveRPC coalesce its writes.
const coalesceEnv = "GPUTRAIN_BENCH_COALESCE"

// serveRPC serves net/rpc on stdin and stdout.
func serveRPC() error {
	server := rpc.NewServer()
	if err := server.Register(Increment{}); err != nil {
		return err
	}
	var conn io.ReadWriteCloser = duplex{os.Stdin, os.Stdout}
	if os.Getenv(coalesceEnv) != "" {
		conn = duplex{os.Stdin, coalesce(os.Stdout)}
	}
	server.ServeConn(conn)
	return nil
}

// netRPC returns a client of net/rpc with gob over the stdin and stdout of a command in an SSH
// session. It ends with the test.
func (l *lab) netRPC(t *testing.T, c *xssh.Client, coalesced bool) *rpc.Client {
	t.Helper()
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	command := roleEnv + "=rpc "
	if coalesced {
		command += coalesceEnv + "=1 "
		in = coalesce(in)
	}
	if err := s.Start(command + "'" + self("rpc").Path + "'"); err != nil {
		t.Fatal(err)
	}
	client := rpc.NewClient(duplex{out, in})
	t.Cleanup(func() {
		client.Close()
		s.Wait()
		s.Close()
	})
	return client
}

// A duplex is a connection made of two streams.
type duplex struct {
	io.Reader
	io.WriteCloser
}

// A coalescer combines the writes that arrive while an earlier one is in progress.
type coalescer struct {
	mu   sync.Mutex
	more sync.Cond
	buf  []byte
	err  error
	done chan struct{}
	end  bool
}

func coalesce(w io.WriteCloser) io.WriteCloser {
	c := &coalescer{done: make(chan struct{})}
	c.more.L = &c.mu
	go c.pump(w)
	return c
}

func (c *coalescer) pump(w io.WriteCloser) {
	defer close(c.done)
	defer w.Close()
	var spare []byte
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		for len(c.buf) == 0 && !c.end {
			c.more.Wait()
		}
		if len(c.buf) == 0 || c.err != nil {
			return
		}
		out := c.buf
		c.buf = spare[:0]
		c.mu.Unlock()
		_, err := w.Write(out)
		c.mu.Lock()
		c.err, spare = err, out
	}
}

func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	c.buf = append(c.buf, p...)
	c.more.Signal()
	return len(p), nil
}

// Close returns when everything is written.
func (c *coalescer) Close() error {
	c.mu.Lock()
	c.end = true
	c.more.Signal()
	c.mu.Unlock()
	<-c.done
	return c.err
}
