package ssh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

func TestManyExecsAtOnce(t *testing.T) {
	s := opensshtest.Start(t, opensshtest.DefaultLimits)
	link := opensshtest.Proxy(t, s.Addr)
	c := connect(t, configFor(t, s, link.Addr))
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			var out bytes.Buffer
			if err := c.Exec(inTime(t), fmt.Sprintf("echo %d", i), nil, &out, nil); err != nil {
				t.Error(err)
			} else if got := strings.TrimSpace(out.String()); got != fmt.Sprint(i) {
				t.Errorf("got %s, want %d", got, i)
			}
		})
	}
	wg.Wait()
	if link.Dials() != 1 {
		t.Errorf("%d connections for short commands", link.Dials())
	}
}

// TestLongSessions has ten sessions at once on servers that allow fewer.
func TestLongSessions(t *testing.T) {
	for _, tt := range []struct{ max, connections int }{
		{2, 5}, {1, 10}, {10, 2}, {100, 2},
	} {
		t.Run(fmt.Sprintf("MaxSessions %d", tt.max), func(t *testing.T) {
			s := opensshtest.Start(t, opensshtest.Config(fmt.Sprintf("MaxSessions %d", tt.max)))
			link := opensshtest.Proxy(t, s.Addr)
			cfg := configFor(t, s, link.Addr)
			cfg.KeepaliveInterval = 50 * time.Millisecond
			cfg.KeepaliveMisses = 1000
			c := connect(t, cfg)
			sessions := make([]*Session, 10)
			var wg sync.WaitGroup
			for i := range sessions {
				wg.Go(func() {
					var err error
					if sessions[i], err = c.Open(inTime(t), "cat"); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			if t.Failed() {
				return
			}
			if got := link.Open(); got > tt.connections {
				t.Errorf("%d connections, %d would do", got, tt.connections)
			}
			for i, session := range sessions {
				line := fmt.Sprintf("hello %d\n", i)
				io.WriteString(session, line)
				got := make([]byte, len(line))
				if _, err := io.ReadFull(session, got); err != nil || string(got) != line {
					t.Errorf("session %d: %q, %v", i, got, err)
				}
			}
			// Exec gets a session beside them.
			if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil {
				t.Error(err)
			}
			for _, session := range sessions {
				session.CloseWrite()
				if err := session.Wait(); err != nil {
					t.Error(err)
				}
				session.Close()
			}
			// Connections that are not needed any more are closed.
			for {
				c.mu.Lock()
				left, changed := len(c.extras), c.changed
				c.mu.Unlock()
				if left == 0 {
					break
				}
				if err := c.waitFor(inTime(t), changed); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil {
				t.Error(err)
			}
			if c.Generation() != 1 {
				t.Errorf("generation %d", c.Generation())
			}
		})
	}
}

func TestExecsOnAServerWithFewSessions(t *testing.T) {
	s := opensshtest.Start(t, opensshtest.Config("MaxSessions 2"))
	c := connect(t, configFor(t, s, s.Addr))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// A busy server counts sessions for a while after their end, when the client has none left that explains a refusal.
func TestRefusalAfterTheLastSession(t *testing.T) {
	k := &links{changed: make(chan struct{}), limit: defaultSessions}
	l := &link{}
	if k.learn(l) {
		t.Error("a server that has granted nothing refuses, and is asked again")
	}
	l.count(false, 1)
	l.running++
	k.release(l, false, true, false)
	if !k.learn(l) || k.limit != defaultSessions {
		t.Errorf("a session has just ended; the limit is %d", k.limit)
	}
	l.ended = l.ended.Add(-lingering)
	if k.learn(l) {
		t.Error("nothing explains the refusal any more, and the server is asked again")
	}
}

func TestServerWithoutSessions(t *testing.T) {
	s := opensshtest.Start(t, opensshtest.Config("MaxSessions 0"))
	c := connect(t, configFor(t, s, s.Addr))
	if err := c.Exec(inTime(t), "true", nil, nil, nil); err == nil || !strings.Contains(err.Error(), "MaxSessions") {
		t.Fatalf("got %v", err)
	}
}

func TestFurtherConnectionsAreCutToo(t *testing.T) {
	s := opensshtest.Start(t, opensshtest.Config("MaxSessions 1"))
	link := opensshtest.Proxy(t, s.Addr)
	c := connect(t, configFor(t, s, link.Addr))
	var sessions []*Session
	for range 3 {
		session, err := c.Open(inTime(t), "cat")
		if err != nil {
			t.Fatal(err)
		}
		defer session.Close()
		sessions = append(sessions, session)
	}
	link.Cut()
	for i, session := range sessions {
		if err := session.Wait(); !errors.Is(err, ErrDisconnected) {
			t.Errorf("session %d: %v", i, err)
		}
	}
	if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil {
		t.Fatal(err)
	}
}
