package gputrain_test

import (
	"io"
	"net/rpc"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	xssh "golang.org/x/crypto/ssh"
)

// Function calls are compared with net/rpc with gob over the standard input and output of the same
// program, started over raw x/crypto/ssh on the same OpenSSH server. If coalesced, both sides
// collect small writes, which doubles the calls per second of net/rpc.

const rpcVariable = "GPUTRAIN_TEST_RPC"

func init() {
	switch os.Getenv(rpcVariable) {
	case "plain":
		serveRPC(stdio{})
	case "coalesced":
		serveRPC(coalesce(stdio{}))
	}
}

func serveRPC(conn io.ReadWriteCloser) {
	if err := rpc.Register(Norm{}); err != nil {
		panic(err)
	}
	rpc.ServeConn(conn)
	os.Exit(0)
}

// Norm is the service that answers like the function hypot.
type Norm struct{}

// Point is the argument of Norm.Of: net/rpc takes exported types only.
type Point point

// Of returns the square of a point's distance.
func (Norm) Of(p Point, result *float64) error { *result = p.X*p.X + p.Y*p.Y; return nil }

type stdio struct{}

func (stdio) Read(p []byte) (int, error) { return os.Stdin.Read(p) }

func (stdio) Write(p []byte) (int, error) { return os.Stdout.Write(p) }

func (stdio) Close() error { return os.Stdin.Close() }

// A coalescer combines the writes that arrive while an earlier one is in progress.
type coalescer struct {
	io.ReadWriteCloser
	mu      sync.Mutex
	pending []byte
	wake    chan struct{}
}

func coalesce(conn io.ReadWriteCloser) *coalescer {
	c := &coalescer{ReadWriteCloser: conn, wake: make(chan struct{}, 1)}
	go func() {
		var spare []byte
		for range c.wake {
			runtime.Gosched()
			c.mu.Lock()
			out := c.pending
			c.pending = spare[:0]
			c.mu.Unlock()
			if _, err := conn.Write(out); err != nil {
				return
			}
			spare = out
		}
	}()
	return c
}

func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = append(c.pending, p...)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return len(p), nil
}

func (c *coalescer) Close() error {
	err := c.ReadWriteCloser.Close()
	close(c.wake)
	return err
}

// A sessionConn is the standard input and output of a command.
type sessionConn struct {
	io.Reader
	io.WriteCloser
	session *xssh.Session
}

func (c sessionConn) Close() error { return c.session.Close() }

// rpcClient starts this program as an RPC server over raw SSH.
func rpcClient(b *testing.B, c *xssh.Client, mode string) *rpc.Client {
	b.Helper()
	s, err := c.NewSession()
	if err != nil {
		b.Fatal(err)
	}
	in, _ := s.StdinPipe()
	out, _ := s.StdoutPipe()
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Start(rpcVariable + "=" + mode + " exec " + self); err != nil {
		b.Fatal(err)
	}
	var conn io.ReadWriteCloser = sessionConn{out, in, s}
	if mode == "coalesced" {
		conn = coalesce(conn)
	}
	r := rpc.NewClient(conn)
	b.Cleanup(func() { r.Close() })
	return r
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

// BenchmarkFunctionCall makes one call at a time, through gputrain and net/rpc in turn. It reports
// the medians and their ratio.
func BenchmarkFunctionCall(b *testing.B) {
	l := newLab(b, 1, gputrain.Spec{})
	r := rpcClient(b, l.raw[0], "plain")
	ours := func() {
		if _, err := hypot.Run(l.pool, point{1, 2}); err != nil {
			b.Fatal(err)
		}
	}
	theirs := func() {
		var out float64
		if err := r.Call("Norm.Of", Point{1, 2}, &out); err != nil {
			b.Fatal(err)
		}
	}
	for range 200 {
		ours()
		theirs()
	}
	var a, z []time.Duration
	const run = 50 // calls in a row, as in a program
	b.ResetTimer()
	for len(a) < b.N {
		for range run {
			start := time.Now()
			ours()
			a = append(a, time.Since(start))
		}
		for range run {
			start := time.Now()
			theirs()
			z = append(z, time.Since(start))
		}
	}
	b.ReportMetric(float64(median(a).Microseconds()), "ours-p50-µs")
	b.ReportMetric(float64(median(z).Microseconds()), "rpc-p50-µs")
	b.ReportMetric(median(a).Seconds()/median(z).Seconds(), "x-rpc")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkFunctionCalls64 reports calls per second with 64 of them in flight on one node, beside
// net/rpc with writes coalesced on both sides.
func BenchmarkFunctionCalls64(b *testing.B) {
	const inFlight, batch = 64, 10000
	l := newLab(b, 1, gputrain.Spec{Concurrency: inFlight})
	r := rpcClient(b, l.raw[0], "coalesced")
	points := make([]point, batch)
	ours := func() {
		if _, err := hypot.Gather(l.pool, points...); err != nil {
			b.Fatal(err)
		}
	}
	theirs := func() {
		work := make(chan point, batch)
		for _, p := range points {
			work <- p
		}
		close(work)
		var all sync.WaitGroup
		for range inFlight {
			all.Go(func() {
				for p := range work {
					var out float64
					if err := r.Call("Norm.Of", Point(p), &out); err != nil {
						panic(err)
					}
				}
			})
		}
		all.Wait()
	}
	ours()
	theirs()
	var a, z []time.Duration
	b.ResetTimer()
	for range max(b.N, 5) {
		start := time.Now()
		ours()
		mid := time.Now()
		theirs()
		a, z = append(a, mid.Sub(start)), append(z, time.Since(mid))
	}
	b.ReportMetric(batch/median(a).Seconds(), "ours-calls/s")
	b.ReportMetric(batch/median(z).Seconds(), "rpc-calls/s")
	b.ReportMetric(median(z).Seconds()/median(a).Seconds(), "x-rpc")
	b.ReportMetric(0, "ns/op")
}
