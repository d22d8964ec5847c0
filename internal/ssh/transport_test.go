package ssh

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// TestNoSessionIsOpenedOnceReadingHasFailed ends a connection whose writes still succeed, as if the server were gone,
// and opens a session just before the other sessions learn of the end. A session that is opened after that would wait
// forever.
func TestNoSessionIsOpenedOnceReadingHasFailed(t *testing.T) {
	s := opensshtest.Start(t)
	cfg := configFor(t, s, s.Addr)
	var conns []net.Conn
	var mu sync.Mutex
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		conn, err := dialer(s.Addr)(ctx)
		mu.Lock()
		defer mu.Unlock()
		conns = append(conns, conn)
		return conn, err
	}
	c := connect(t, cfg)
	session, err := c.Open(inTime(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	link := session.link
	sealed := *link.transport.last.Load()
	late := make(chan error, 1)
	link.transport.atEnd(func() {
		sealed()
		_, _, err := link.conn.OpenChannel("session", nil)
		late <- err
	})
	conns[0].SetReadDeadline(time.Unix(1, 0)) // reading fails, but writing does not
	select {
	case err := <-late:
		if err == nil {
			t.Error("a session was opened")
		}
	case <-inTime(t).Done():
		t.Fatal("a session waits for its answer")
	}
	session.Wait()
	if again, err := c.Open(inTime(t), "cat"); err != nil {
		t.Error(err)
	} else {
		again.Close()
	}
}
