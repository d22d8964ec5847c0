package gputrain_test

import (
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// BenchmarkForward sends 64 MiB through a forwarded port in each direction at once, beside ssh -L to the same server. The
// node and its service are this machine.
func BenchmarkForward(b *testing.B) {
	const size = 64 << 20
	client := opensshtest.Client(b, "ssh")
	_, cfg := servers(b, 1)
	l, err := net.Listen("tcp", "127.0.0.1:0") // returns what it is sent
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				io.Copy(struct{ io.Writer }{nc}, struct{ io.Reader }{nc})
			}()
		}
	}()
	at := l.Addr().String()

	pool, err := gputrain.Open(b.Context(), cfg, gputrain.Spec{})
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	board, err := pool.Forward(b.Context(), "127.0.0.1:0", 0, at)
	if err != nil {
		b.Fatal(err)
	}
	config := filepath.Join(b.TempDir(), "c")
	if err := pool.WriteSSHConfig(config); err != nil {
		b.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	theirs := free.Addr().String()
	free.Close()
	cmd := exec.CommandContext(b.Context(), client, "-F", config, "-N", "-o", "ExitOnForwardFailure=yes", "-L", theirs+":"+at, "node-0")
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		cmd.Process.Kill()
		cmd.Wait()
	}()
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		nc, err := net.Dial("tcp", theirs)
		if err == nil {
			nc.Close()
			break
		}
		if time.Now().After(deadline) {
			b.Fatal(err)
		}
	}

	data := make([]byte, 1<<20)
	through := func(addr string) time.Duration {
		start := time.Now()
		nc, err := net.Dial("tcp", addr)
		if err != nil {
			b.Fatal(err)
		}
		defer nc.Close()
		go func() {
			for range size / len(data) {
				nc.Write(data)
			}
			nc.(*net.TCPConn).CloseWrite()
		}()
		if n, err := io.Copy(io.Discard, nc); n != size || err != nil {
			b.Fatalf("%d of %d bytes came back: %v", n, size, err)
		}
		return time.Since(start)
	}
	b.SetBytes(2 * size)
	medians(b, "x-ssh-L", func() time.Duration { return through(board.Addr().String()) }, func() time.Duration { return through(theirs) })

}
