package ssh

import (
	"context"
	"fmt"
	"io"
	"testing"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// BenchmarkConnect makes one connection and runs its first command, over raw x/crypto/ssh and over
// Client.
func BenchmarkConnect(b *testing.B) {
	s := opensshtest.Start(b, opensshtest.Config("MaxStartups 1000"))
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			c := dialRaw(b, s)
			runRaw(b, c, "true")
			c.Close()
		}
	})
	b.Run("client", func(b *testing.B) {
		for b.Loop() {
			c := New(configFor(b, s, s.Addr))
			if err := c.Connect(context.Background()); err != nil {
				b.Fatal(err)
			}
			if err := c.Exec(context.Background(), "true", nil, nil, nil); err != nil {
				b.Fatal(err)
			}
			c.Close()
		}
	})
}

// BenchmarkExec runs one command after another over one connection.
func BenchmarkExec(b *testing.B) {
	s := opensshtest.Start(b)
	b.Run("raw", func(b *testing.B) {
		c := dialRaw(b, s)
		defer c.Close()
		for b.Loop() {
			runRaw(b, c, "true")
		}
	})
	b.Run("client", func(b *testing.B) {
		c := connect(b, configFor(b, s, s.Addr))
		for b.Loop() {
			if err := c.Exec(context.Background(), "true", nil, nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkStreams sends bulk data through one session, each way.
func BenchmarkStreams(b *testing.B) {
	const size = 64 << 20
	s := opensshtest.Start(b)
	c := connect(b, configFor(b, s, s.Addr))
	b.Run("stdout", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if err := c.Exec(context.Background(), fmt.Sprintf("head -c %d /dev/zero", size), nil, io.Discard, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("stdin", func(b *testing.B) {
		b.SetBytes(size)
		for b.Loop() {
			if err := c.Exec(context.Background(), "cat >/dev/null", io.LimitReader(zeros{}, size), nil, nil); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func dialRaw(b *testing.B, s *opensshtest.Server) *xssh.Client {
	b.Helper()
	c, err := xssh.Dial("tcp", s.Addr, &xssh.ClientConfig{
		User: s.User, Auth: []xssh.AuthMethod{xssh.PublicKeys(s.Signer)}, HostKeyCallback: xssh.FixedHostKey(s.HostKey),
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func runRaw(b *testing.B, c *xssh.Client, command string) {
	b.Helper()
	session, err := c.NewSession()
	if err != nil {
		b.Fatal(err)
	}
	defer session.Close()
	if err := session.Run(command); err != nil {
		b.Fatal(err)
	}
}
