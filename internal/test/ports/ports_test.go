package ports

import (
	"net"
	"testing"
)

func TestDead(t *testing.T) {
	addr := Dead(t).String()
	if c, err := net.Dial("tcp", addr); err == nil {
		c.Close()
		t.Errorf("%s answers", addr)
	}
	if l, err := net.Listen("tcp", addr); err == nil {
		l.Close()
		t.Errorf("%s is free for others", addr)
	}
}

func TestFree(t *testing.T) {
	l, err := net.Listen("tcp", Free(t).String())
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
}
