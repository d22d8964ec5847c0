package supervisor

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
	xssh "golang.org/x/crypto/ssh"
)

// BenchmarkCommand runs one command after another on a warm node, for each shell of the control session.
// BenchmarkRawSession does so with one x/crypto/ssh session each, without the supervisor's guarantees.
func BenchmarkCommand(b *testing.B) {
	srv := quietServer(b)
	for _, sh := range append(shells, "") {
		b.Run(fmt.Sprintf("shell=%s", sh), func(b *testing.B) {
			if sh != "" {
				needShell(b, sh)
			}
			n := start(b, connect(b, srv, ""), config(b, sh))
			for b.Loop() {
				trueOn(b, n)
			}
		})
	}
}

func BenchmarkRawSession(b *testing.B) {
	c := raw(b, quietServer(b))
	for b.Loop() {
		rawTrue(b, c)
	}
}

// BenchmarkFanout runs 1000 commands over 16 nodes, four at once on each.
func BenchmarkFanout(b *testing.B) {
	for _, sh := range append(shells, "", "raw") {
		b.Run(fmt.Sprintf("shell=%s", sh), func(b *testing.B) {
			if sh != "" && sh != "raw" {
				needShell(b, sh)
			}
			var nodes []func()
			for range 16 {
				srv := quietServer(b)
				if sh == "raw" {
					c := raw(b, srv)
					nodes = append(nodes, func() { rawTrue(b, c) })
				} else {
					n := start(b, connect(b, srv, ""), config(b, sh))
					nodes = append(nodes, func() { trueOn(b, n) })
				}
			}
			for b.Loop() {
				fan(1000, nodes)
			}
			b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "tasks/s")
		})
	}
}

// quietServer starts a server with an empty home, so that no login script is measured.
func quietServer(b *testing.B) *opensshtest.Server {
	return opensshtest.Start(b, opensshtest.Config("SetEnv HOME="+b.TempDir()))
}

// BenchmarkStdout transfers the output of one command.
func BenchmarkStdout(b *testing.B) {
	const size = 256 << 20
	srv := quietServer(b)
	b.Run("supervisor", func(b *testing.B) {
		n := start(b, connect(b, srv, ""), config(b, ""))
		b.SetBytes(size)
		for b.Loop() {
			id := fmt.Sprintf("b-%d", benchIDs.Add(1))
			x, err := n.Run(b.Context(), Spec{ID: id, Script: fmt.Sprintf("head -c %d /dev/zero", size)}, Sinks{Stdout: io.Discard, Live: true})
			if err != nil || x.StdoutBytes != size {
				b.Fatal(x, err)
			}
		}
	})
	b.Run("raw", func(b *testing.B) {
		c := raw(b, srv)
		b.SetBytes(size)
		for b.Loop() {
			s, err := c.NewSession()
			if err != nil {
				b.Fatal(err)
			}
			s.Stdout = io.Discard
			if err := s.Run(fmt.Sprintf("head -c %d /dev/zero", size)); err != nil {
				b.Fatal(err)
			}
			s.Close()
		}
	})
}

var benchIDs atomic.Int64

func trueOn(b *testing.B, n *Node) {
	x, err := n.Run(b.Context(), Spec{ID: fmt.Sprintf("b-%d", benchIDs.Add(1)), Args: []string{"true"}}, Sinks{Stdout: io.Discard, Stderr: io.Discard})
	if err != nil || x.Code != 0 {
		b.Error(x, err)
	}
}

func raw(b *testing.B, srv *opensshtest.Server) *xssh.Client {
	c, err := xssh.Dial("tcp", srv.Addr, &xssh.ClientConfig{
		User: srv.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(srv.Signer)}, HostKeyCallback: xssh.FixedHostKey(srv.HostKey),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func rawTrue(b *testing.B, c *xssh.Client) {
	s, err := c.NewSession()
	if err != nil {
		b.Error(err)
		return
	}
	defer s.Close()
	if err := s.Run("true"); err != nil {
		b.Error(err)
	}
}

// fan calls each of nodes n times, four at once on each.
func fan(n int, nodes []func()) {
	var wg sync.WaitGroup
	var next atomic.Int64
	for _, f := range nodes {
		for range 4 {
			wg.Go(func() {
				for next.Add(1) <= int64(n) {
					f()
				}
			})
		}
	}
	wg.Wait()
}
