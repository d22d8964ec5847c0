// Package ports has ports of this computer that no other program takes during a test.
package ports

import (
	"math/rand/v2"
	"net"
	"testing"
)

// Dead returns an address that refuses connections until the end of the test: its port is that of a connection.
func Dead(t testing.TB) *net.TCPAddr {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c.LocalAddr().(*net.TCPAddr)
}

// Free returns an address at which a server of the test can listen. Its port is below those that systems give to programs which
// do not ask for a certain one.
func Free(t testing.TB) *net.TCPAddr {
	t.Helper()
	for {
		l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 10000 + rand.IntN(10000)})
		if err == nil {
			defer l.Close()
			return l.Addr().(*net.TCPAddr)
		}
	}
}
