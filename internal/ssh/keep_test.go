package ssh

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

// A leak is a connection that loses what passes while it is open, as a network does that has lost its way.
type leak struct {
	net.Conn
	open *atomic.Bool
}

func (l leak) Read(p []byte) (int, error) {
	for {
		if n, err := l.Conn.Read(p); err != nil || !l.open.Load() {
			return n, err
		}
	}
}

func (l leak) Write(p []byte) (int, error) {
	if l.open.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

func TestBlackholeIsNoticed(t *testing.T) {
	var lost atomic.Bool
	var seen <-chan Event
	run := func(_ context.Context, p sshd.Program) int {
		io.WriteString(p.Stdout, "started\n")
		if p.Command == "wait" {
			io.Copy(io.Discard, p.Stdin)
		}
		return 0
	}
	change := func(cfg *Config) {
		cfg.KeepaliveInterval, cfg.KeepaliveMisses, cfg.HandshakeTimeout = 20*time.Second, 3, time.Second
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			nc, err := dial(ctx)
			return leak{nc, &lost}, err
		}
		seen = events(cfg)
	}
	servedAs(t, run, change, func(t *testing.T, c *Client) {
		time.Sleep(time.Hour) // keepalives are answered
		if c.Generation() != 1 {
			t.Errorf("generation %d", c.Generation())
		}
		var began time.Time
		err := c.Exec(t.Context(), "wait", blocked(t), &trigger{func() { lost.Store(true); began = time.Now() }}, nil)
		if took := time.Since(began); !errors.Is(err, ErrDisconnected) || !errors.Is(err, errSilent) || took < 80*time.Second || took > 100*time.Second {
			t.Errorf("Exec: %v after %v", err, took)
		}
		waitForEvent(t, seen, Disconnected)
		waitForEvent(t, seen, Reconnecting)
		if _, down := c.Down(); !down {
			t.Error("not down")
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		if err := c.Exec(ctx, "true", nil, nil, nil); !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "last failure") {
			t.Errorf("while it is down: %v", err)
		}
		lost.Store(false)
		if err := c.Exec(t.Context(), "true", nil, nil, nil); err != nil {
			t.Error(err)
		}
	})
}

// OpenSSH answers keepalives: an idle connection has more and more to read.
func TestOpenSSHAnswersKeepalives(t *testing.T) {
	s := opensshtest.Start(t)
	cfg := configFor(t, s, s.Addr)
	cfg.KeepaliveInterval, cfg.KeepaliveMisses = 10*time.Millisecond, 1_000_000 // however slow this machine is
	reads := &connect(t, cfg).main.transport.reads
	for before, ctx := reads.Load(), inTime(t); reads.Load() < before+5; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("%d reads, and then none", reads.Load())
		}
	}
}
