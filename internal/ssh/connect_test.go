package ssh

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	xssh "golang.org/x/crypto/ssh"

	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

func TestConnectWaitsForTheMachine(t *testing.T) {
	s := opensshtest.Start(t)
	s.Kill()
	cfg := configFor(t, s, s.Addr)
	seen := events(&cfg)
	c := New(cfg)
	defer c.Close()
	connected := make(chan error, 1)
	go func() { connected <- c.Connect(inTime(t)) }()
	if e := waitForEvent(t, seen, Reconnecting); e.Err == nil || e.Attempt != 1 {
		t.Errorf("got %+v", e)
	}
	s.Resume()
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	waitForEvent(t, seen, Connected)
	if _, down := c.Down(); down || c.Generation() != 1 {
		t.Errorf("down %v, generation %d", down, c.Generation())
	}
	if err := c.Connect(inTime(t)); err != nil || c.Generation() != 1 {
		t.Errorf("connected again: %v, generation %d", err, c.Generation())
	}
}

func TestConnectThroughResets(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	link.Refuse(true)
	cfg := configFor(t, s, link.Addr)
	seen := events(&cfg)
	c := New(cfg)
	defer c.Close()
	connected := make(chan error, 1)
	go func() { connected <- c.Connect(inTime(t)) }()
	waitForEvent(t, seen, Reconnecting)
	link.CutAfter(1500) // in the middle of the key exchange
	link.Refuse(false)
	waitForEvent(t, seen, Reconnecting)
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
}

// TestConnectCancelled ends ctx at each stage of connecting.
func TestConnectCancelled(t *testing.T) {
	s := opensshtest.Start(t)
	for _, passed := range []int64{0, 1, 21, 100, 1000, 2000, 2500, 3000, 3500} {
		link := opensshtest.Proxy(t, s.Addr)
		ctx, cancel := context.WithCancel(inTime(t))
		cfg := configFor(t, s, link.Addr)
		cfg.Dial = func(ctx context.Context) (net.Conn, error) {
			nc, err := dialer(link.Addr)(ctx)
			if err != nil {
				return nil, err
			}
			return &tripwire{Conn: nc, left: passed, trip: func() { link.Blackhole(true); cancel() }}, nil
		}
		c := New(cfg)
		if err := c.Connect(ctx); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("after %d bytes: %v", passed, err)
		}
		c.Close()
		cancel()
	}
}

// A tripwire is a connection that calls trip once so many bytes were read.
type tripwire struct {
	net.Conn
	left int64
	trip func()
	once sync.Once
}

func (w *tripwire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if w.left -= int64(n); w.left <= 0 {
		w.once.Do(w.trip)
	}
	return n, err
}

func TestConnectCancelledWhileItDialsOrWaits(t *testing.T) {
	s := opensshtest.Start(t)
	ctx, cancel := context.WithCancel(inTime(t))
	cfg := configFor(t, s, s.Addr)
	cfg.Dial = func(ctx context.Context) (net.Conn, error) {
		cancel()
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c := New(cfg)
	defer c.Close()
	if err := c.Connect(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("dialing: %v", err)
	}

	s.Kill()
	ctx, cancel = context.WithCancel(inTime(t))
	cfg = configFor(t, s, s.Addr)
	cfg.Notify = func(Event) { cancel() }
	c = New(cfg)
	defer c.Close()
	err := c.Connect(ctx)
	if !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), "last failure: dial tcp") {
		t.Errorf("between attempts: %v", err)
	}
}

// A login takes many round trips, each of which must be answered in time.
func TestConnectWaitsForASlowServer(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	link.Delay(150 * time.Millisecond)
	cfg := configFor(t, s, link.Addr)
	cfg.HandshakeTimeout = 500 * time.Millisecond
	connect(t, cfg)
}

func TestConnectTimesOutOnASilentServer(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	link.Blackhole(true)
	cfg := configFor(t, s, link.Addr)
	cfg.HandshakeTimeout = 50 * time.Millisecond
	seen := events(&cfg)
	c := New(cfg)
	defer c.Close()
	connected := make(chan error, 1)
	go func() { connected <- c.Connect(inTime(t)) }()
	e := waitForEvent(t, seen, Reconnecting)
	for errors.Is(e.Err, os.ErrDeadlineExceeded) || errors.Is(e.Err, context.DeadlineExceeded) { // the link did not take the connection in time
		e = waitForEvent(t, seen, Reconnecting)
	}
	if !strings.Contains(e.Err.Error(), "does not answer") {
		t.Error(e.Err)
	}
	c.Close() // called from another goroutine, while connecting
	if err := <-connected; !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	if err := c.Connect(inTime(t)); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
}

func TestConnectWrongKey(t *testing.T) {
	s := opensshtest.Start(t)
	other, err := NewKeyPair()
	if err != nil {
		t.Fatal(err)
	}
	cfg := configFor(t, s, s.Addr)
	cfg.Auth = []xssh.AuthMethod{xssh.PublicKeys(other.Signer)}
	c := New(cfg)
	defer c.Close()
	if err := c.Connect(inTime(t)); !errors.Is(err, ErrAuth) || !strings.Contains(err.Error(), s.User) {
		t.Fatalf("got %v", err)
	}

	// With patience the key may arrive after the server.
	cfg.AuthPatience = time.Hour
	seen := events(&cfg)
	c = New(cfg)
	defer c.Close()
	connected := make(chan error, 1)
	go func() { connected <- c.Connect(inTime(t)) }()
	if e := waitForEvent(t, seen, Reconnecting); !errors.Is(e.Err, ErrAuth) {
		t.Errorf("got %v", e.Err)
	}
	if err := os.WriteFile(s.Dir+"/authorized_keys", []byte(other.Public+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
}

func TestConnectMistakes(t *testing.T) {
	for _, tt := range []struct {
		addr, says string
	}{
		{"127.0.0.1", "missing port"},
		{"127.0.0.1:nonsense", "nonsense"},
	} {
		pin := new(Pin)
		check, _, err := HostKeys(nil, "", tt.addr, pin)
		if err != nil {
			t.Fatal(err)
		}
		c := New(Config{Dial: dialer(tt.addr), HostKey: check})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if err := c.Connect(ctx); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.addr, err)
		}
		cancel()
		c.Close()
	}
	if err := New(Config{}).Connect(t.Context()); err == nil {
		t.Error("a client without Dial and HostKey connected")
	}
}

func TestConnectManyAtOnce(t *testing.T) {
	s := opensshtest.Start(t, opensshtest.DefaultLimits)
	cfg := configFor(t, s, s.Addr)
	var wg sync.WaitGroup
	for range 32 {
		c := New(cfg)
		defer c.Close()
		wg.Go(func() {
			if err := c.Connect(inTime(t)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	startups.mu.Lock()
	defer startups.mu.Unlock()
	if len(startups.slots) != 0 {
		t.Errorf("the limiter still knows %d addresses", len(startups.slots))
	}
}

// The client chooses algorithms for which the server has fast code.
func TestAlgorithms(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	got := c.main.conn.(xssh.AlgorithmsConnMetadata).Algorithms()
	if kex := got.KeyExchange; kex != xssh.KeyExchangeMLKEM768X25519 && kex != xssh.KeyExchangeECDHP256 {
		t.Errorf("key exchange %s", kex)
	}
	if got.Read.Cipher != xssh.CipherAES128GCM || got.Write.Cipher != xssh.CipherAES128GCM {
		t.Errorf("ciphers %s and %s", got.Read.Cipher, got.Write.Cipher)
	}
}
