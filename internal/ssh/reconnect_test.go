package ssh

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
	"github.com/gputrain/gputrain/internal/test/opensshtest"
)

func TestReconnectAfterACut(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	cfg := configFor(t, s, link.Addr)
	seen := events(&cfg)
	c := connect(t, cfg)
	waitForEvent(t, seen, Connected)
	session, err := c.Open(inTime(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	running := make(chan error, 1)
	go func() {
		running <- c.Exec(inTime(t), "echo started; cat", blocked(t), &trigger{link.Cut}, nil)
	}()
	if err := <-running; !errors.Is(err, ErrDisconnected) {
		t.Errorf("Exec: %v", err)
	}
	if err := session.Wait(); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Wait: %v", err)
	}
	if e := waitForEvent(t, seen, Disconnected); !errors.Is(e.Err, ErrDisconnected) {
		t.Errorf("event: %v", e.Err)
	}
	if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil { // it waits for the connection
		t.Fatal(err)
	}
	if c.Generation() != 2 {
		t.Errorf("generation %d", c.Generation())
	}
	if c.Err() != nil {
		t.Error(c.Err())
	}
}

// After Sever what ran has lost its connection, what is new waits, as for a network that does not come back, and the
// server gets nothing more. Close ends the waiting.
func TestSever(t *testing.T) {
	s := opensshtest.Start(t)
	cfg := configFor(t, s, s.Addr)
	seen := events(&cfg)
	c := connect(t, cfg)
	waitForEvent(t, seen, Connected)
	session, err := c.Open(inTime(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	c.Sever()
	c.Sever()
	if _, err := session.Write([]byte("x")); err == nil {
		t.Error("a session takes input")
	}
	if err := session.Wait(); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Wait: %v", err)
	}
	waitForEvent(t, seen, Disconnected)
	if _, down := c.Down(); !down || c.Err() != nil {
		t.Errorf("down %v, %v", down, c.Err())
	}
	made := filepath.Join(t.TempDir(), "made")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := c.Exec(ctx, "touch "+made, nil, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec: %v", err)
	}
	waiting := make(chan error)
	go func() { waiting <- c.Exec(inTime(t), "touch "+made, nil, nil, nil) }()
	c.Close()
	if err := <-waiting; !errors.Is(err, ErrClosed) {
		t.Errorf("Exec until Close: %v", err)
	}
	if _, err := os.Stat(made); err == nil || c.Generation() != 1 {
		t.Errorf("a command ran, or connection %d was made", c.Generation())
	}

	early := New(cfg) // severed before its first connection
	early.Sever()
	go func() { waiting <- early.Connect(inTime(t)) }()
	select {
	case err := <-waiting:
		t.Errorf("Connect: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	early.Close()
	if err := <-waiting; !errors.Is(err, ErrClosed) || early.Generation() != 0 {
		t.Errorf("Connect until Close: %v, %d connections", err, early.Generation())
	}
}

// blocked returns a stdin that blocks until the test ends.
func blocked(t *testing.T) io.Reader {
	r, w := io.Pipe()
	t.Cleanup(func() { w.Close() })
	return r
}

func TestCutWhileOutputFlows(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	c := connect(t, configFor(t, s, link.Addr))
	link.CutAfter(10 << 20)
	var out bytes.Buffer
	err := c.Exec(inTime(t), "head -c 50000000 /dev/zero", nil, &out, nil)
	if !errors.Is(err, ErrDisconnected) || out.Len() == 0 || out.Len() >= 50000000 {
		t.Fatalf("got %v after %d bytes", err, out.Len())
	}
}

// A server sends the exit status once the command has ended, and then still sends output of other processes. A cut at
// that time is not a success.
func TestCutAfterTheExitStatus(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	c := connect(t, configFor(t, s, link.Addr))
	const command = `p=$$; { while kill -0 $p 2>/dev/null; do sleep 0.1; done; while echo late; do sleep 0.1; done; } & exit 0`
	lines := 0
	err := c.Exec(inTime(t), command, nil, &trigger{func() {
		if lines++; lines == 5 {
			link.Cut()
		}
	}}, nil)
	if !errors.Is(err, ErrDisconnected) {
		t.Errorf("after the exit status the connection was cut, and that is %v", err)
	}
}

func TestExecCancelledInABlackhole(t *testing.T) {
	s := opensshtest.Start(t)
	link := opensshtest.Proxy(t, s.Addr)
	c := connect(t, configFor(t, s, link.Addr)) // its keepalive takes a minute
	ctx, cancel := context.WithCancel(inTime(t))
	out := &trigger{func() { link.Blackhole(true); cancel() }}
	if err := c.Exec(ctx, "echo started; cat", blocked(t), out, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("running: %v", err)
	}
	ctx, cancel = context.WithTimeout(inTime(t), 50*time.Millisecond)
	defer cancel()
	if err := c.Exec(ctx, "true", nil, nil, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("starting: %v", err)
	}
	if _, err := c.SFTP(ctx, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("sftp: %v", err)
	}
	c.Close() // closes the further connections
}

func TestReconnectAfterServerRestart(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	s.Restart() // as after an upgrade: existing connections stay
	if err := c.Exec(inTime(t), "true", nil, nil, nil); err != nil || c.Generation() != 1 {
		t.Fatalf("%v, generation %d", err, c.Generation())
	}
	session, err := c.Open(inTime(t), "cat")
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s.Kill()
	if err := session.Wait(); !errors.Is(err, ErrDisconnected) {
		t.Errorf("Wait: %v", err)
	}
	waiting := make(chan error, 1)
	go func() { waiting <- c.Exec(inTime(t), "true", nil, nil, nil) }()
	s.Resume()
	if err := <-waiting; err != nil {
		t.Fatal(err)
	}
}

func TestHostKeyChangedOnReconnect(t *testing.T) {
	s := opensshtest.Start(t)
	cfg := configFor(t, s, s.Addr)
	seen := events(&cfg)
	c := connect(t, cfg)
	old := Fingerprint(s.HostKey)
	s.Kill()
	s.NewHostKey()
	s.Resume()
	<-c.Done()
	var changed *HostKeyError
	if !errors.As(c.Err(), &changed) || changed.Got != Fingerprint(s.HostKey) || changed.Want[0] != old {
		t.Fatalf("got %v", c.Err())
	}
	if e := waitForEvent(t, seen, Ended); !errors.Is(e.Err, ErrHostKey) {
		t.Errorf("event: %v", e.Err)
	}
	if err := c.Exec(inTime(t), "true", nil, nil, nil); !errors.Is(err, ErrHostKey) {
		t.Errorf("Exec: %v", err)
	}
	for _, f := range []string{old, Fingerprint(s.HostKey)} {
		if !strings.Contains(c.Err().Error(), f) {
			t.Errorf("%v does not name %s", c.Err(), f)
		}
	}
}

func TestLoginRefusedOnReconnect(t *testing.T) {
	s := opensshtest.Start(t)
	cfg := configFor(t, s, s.Addr)
	cfg.ReauthPatience = 300 * time.Millisecond
	c := connect(t, cfg)
	if err := os.WriteFile(s.Dir+"/authorized_keys", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Resume()
	<-c.Done()
	if err := c.Err(); !errors.Is(err, ErrAuth) {
		t.Fatalf("got %v", err)
	}
}

func TestCloseEndsWhatRuns(t *testing.T) {
	s := opensshtest.Start(t)
	c := connect(t, configFor(t, s, s.Addr))
	var wg sync.WaitGroup
	out := &trigger{func() { wg.Go(func() { c.Close() }) }}
	if err := c.Exec(inTime(t), "echo started; cat", blocked(t), out, nil); !errors.Is(err, ErrDisconnected) || !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
	wg.Wait()
	if err := c.Exec(inTime(t), "true", nil, nil, nil); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	select {
	case <-c.Done():
	default:
		t.Error("Done is open after Close")
	}
}

func TestBackoff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		pauses := backoff{next: 200 * time.Millisecond, most: 5 * time.Second}
		least := 100 * time.Millisecond
		for range 10 {
			start := time.Now()
			if !pauses.pause(t.Context()) {
				t.Fatal("ended")
			}
			if took := time.Since(start); took < least || took > 2*least {
				t.Errorf("paused for %v, not %v to %v", took, least, 2*least)
			}
			least = min(2*least, 2500*time.Millisecond)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if pauses.pause(ctx) {
			t.Error("a pause outlived its ctx")
		}
	})
}
