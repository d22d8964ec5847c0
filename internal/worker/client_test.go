package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestCall(t *testing.T) {
	_, digest, err := SelfDigest()
	if err != nil {
		t.Fatal(err)
	}
	facts := NodeFacts{Pool: "p", Rank: 4, PrivateAddr: "a", PublicAddr: "z"}
	c := dial(t, startNode(t), Hello{Digest: digest, Node: facts})
	got, err := c.Call(t.Context(), Request{Function: "echo", Arg: body([]byte("hello"))})
	if err != nil || string(got.Head) != "hello" {
		t.Errorf("got %q, %v", got.Head, err)
	}
	if got, err := c.Call(t.Context(), Request{Function: "echo"}); err != nil || got.Size() != 0 {
		t.Errorf("empty: got %q, %v", got.Head, err)
	}
	place := Place{Rank: 1, Slot: 2, TaskID: "t7", Attempt: 3, Accelerators: []string{"gpu0", "gpu1"}}
	for _, members := range []*Members{NewMembers("a", "b"), NewMembers("a"), NewMembers("a", "b")} {
		got, err = c.Call(t.Context(), Request{Function: "meta", Members: members, Place: place})
		want := fmt.Sprintf("true %+v", Meta{Node: facts, Addrs: members.addrs, Place: place})
		if err != nil || string(got.Head) != want {
			t.Errorf("got %q, %v, want %q", got.Head, err, want)
		}
	}
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestFailures(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	call := func(fn string) *RemoteError {
		t.Helper()
		_, err := c.Call(t.Context(), Request{Function: fn, Arg: body([]byte("it"))})
		var remote *RemoteError
		if !errors.As(err, &remote) || remote.Function != fn {
			t.Fatalf("%s: err = %v", fn, err)
		}
		return remote
	}
	if e := call("fail"); e.Kind != Failed || e.Error() != "bad luck with it: registered" || !errors.Is(e, errRegistered) || e.Type != "*fmt.wrapError" {
		t.Errorf("%+v", e)
	}
	if e := call("panic"); e.Kind != Panic || !strings.Contains(e.Message, "nil map") || !strings.Contains(e.Stack, "process_test.go") {
		t.Errorf("%+v", e)
	}
	if e := call("nilerror"); e.Kind != Panic {
		t.Errorf("%+v", e)
	}
	if e := call("goexit"); e.Kind != Goexit {
		t.Errorf("%+v", e)
	}
	if _, err := c.Call(t.Context(), Request{Function: "missing"}); !errors.Is(err, ErrUnknownFunction) || !strings.Contains(err.Error(), "echo") {
		t.Errorf("err = %v", err)
	}
}

func TestManySmallCalls(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	var callers sync.WaitGroup
	for i := range 100 {
		callers.Go(func() {
			for j := range 100 {
				want := fmt.Sprint(i, j)
				got, err := c.Call(t.Context(), Request{Function: "echo", Arg: body([]byte(want))})
				if err != nil || string(got.Head) != want {
					t.Errorf("got %q, %v, want %q", got.Head, err, want)
					return
				}
			}
		})
	}
	callers.Wait()
}

func TestConnectionCutWhileRunning(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	c := dial(t, n, Hello{})
	results := make(chan string, 1)
	go func() {
		got, err := c.Call(t.Context(), Request{Function: "meet", Arg: body(m.arg())})
		results <- fmt.Sprint(string(got.Head), err)
	}()
	conn := m.accept(t)
	n.last().cmd.Process.Kill()
	if err := c.Ping(t.Context()); err != nil { // over the new connection
		t.Fatal(err)
	}
	answer(t, conn, "once")
	if got := <-results; got != "once<nil>" {
		t.Errorf("got %q", got)
	}
	if got, err := c.Call(t.Context(), Request{Function: "meetings"}); err != nil || string(got.Head) != "1" {
		t.Errorf("it ran %s times, %v", got.Head, err)
	}
}

func TestResultWaitsForTheClient(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	connected := make(chan struct{}, 1)
	connected <- struct{}{}
	open := func(ctx context.Context) (io.ReadWriteCloser, error) {
		select {
		case <-connected:
			return n.open(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	c, err := Dial(t.Context(), open, Hello{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	results := make(chan string, 2)
	call := func(fn string, arg []byte) {
		got, err := c.Call(t.Context(), Request{Function: fn, Arg: body(arg)})
		results <- fmt.Sprint(string(got.Head), err)
	}
	go call("meet", m.arg())
	conn := m.accept(t)
	n.last().cmd.Process.Kill()
	answer(t, conn, "kept")
	go call("echo", []byte("kept")) // begins while there is no connection
	connected <- struct{}{}
	for range 2 {
		if got := <-results; got != "kept<nil>" {
			t.Errorf("got %q", got)
		}
	}
}

func TestDaemonKilled(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	c := dial(t, n, Hello{})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), Request{Function: "meet", Arg: body(m.arg())})
		failed <- err
	}()
	m.accept(t)
	n.kill()
	if err := <-failed; !errors.Is(err, ErrWorkerLost) {
		t.Errorf("err = %v", err)
	}
	n.start() // the client finds the new daemon by itself
	n.isUp()
	if _, err := c.Call(t.Context(), Request{Function: "echo"}); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}

func TestDaemonReplacedAtOnce(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	c := dial(t, n, Hello{})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), Request{Function: "meet", Arg: body(m.arg())})
		failed <- err
	}()
	m.accept(t)
	n.kill()
	n.start() // perhaps before the client notices that the old daemon is gone
	if err := <-failed; !errors.Is(err, ErrWorkerLost) {
		t.Errorf("err = %v", err)
	}
	n.isUp()
	if got, err := c.Call(t.Context(), Request{Function: "meetings"}); err != nil || string(got.Head) != "0" {
		t.Errorf("it ran %s times on the new one, %v", got.Head, err)
	}
}

func TestOwnerKnowsThatTheWorkerIsDead(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(t.Context(), Request{Function: "wait"})
		failed <- err
	}()
	reason := errors.New("out of memory")
	c.Fail(reason)
	if err := <-failed; !errors.Is(err, ErrWorkerLost) || !errors.Is(err, reason) {
		t.Errorf("err = %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrWorkerLost) {
		t.Errorf("later: err = %v", err)
	}
}

func TestNewerClientTakesOver(t *testing.T) {
	n, m := startNode(t), newMeeting(t)
	older := dial(t, n, Hello{Generation: 1})
	failed := make(chan error, 2)
	for _, id := range []uint64{77, 0} {
		go func() {
			_, err := older.Call(t.Context(), Request{ID: id, Function: "meet", Arg: body(m.arg())})
			failed <- err
		}()
	}
	one, two := m.accept(t), m.accept(t)

	if _, err := Dial(t.Context(), n.open, Hello{Generation: 1}); !errors.Is(err, ErrFenced) {
		t.Errorf("the same generation: err = %v", err)
	}
	newer := dial(t, n, Hello{Generation: 2})
	for range 2 {
		if err := <-failed; !errors.Is(err, ErrFenced) {
			t.Errorf("err = %v", err)
		}
	}
	if _, err := older.Call(t.Context(), Request{Function: "echo"}); !errors.Is(err, ErrFenced) {
		t.Errorf("the older client: err = %v", err)
	}
	if _, err := Dial(t.Context(), n.open, Hello{Generation: 1}); !errors.Is(err, ErrFenced) {
		t.Errorf("an older client again: err = %v", err)
	}
	// No client adopted the calls, so they were cancelled.
	for _, conn := range []net.Conn{one, two} {
		if _, err := io.ReadAll(conn); err != nil {
			t.Error(err)
		}
	}
	if held := newer.Held(); len(held) > 0 {
		t.Errorf("held %+v", held)
	}
	if _, err := newer.Collect(t.Context(), 77); !errors.Is(err, ErrUnknownCall) {
		t.Errorf("err = %v", err)
	}
}

func TestMismatches(t *testing.T) {
	n := startNode(t)
	for _, tt := range []struct {
		name  string
		hello Hello
		is    error
		says  string
	}{
		{"another binary", Hello{Digest: strings.Repeat("0", 64)}, ErrBinary, "ship the program again"},
	} {
		if _, err := Dial(t.Context(), n.open, tt.hello); !errors.Is(err, tt.is) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: err = %v", tt.name, err)
		}
	}
	if _, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
		return attachProcess(Env + "=none")
	}, Hello{}); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), "gputrain.Init") {
		t.Errorf("no Init: err = %v", err)
	}
	c, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
		return attachProcess(Env+"="+AttachMode(n.socket), "WORKER_TEST_PRINT=1")
	}, Hello{})
	if err != nil {
		t.Fatalf("a program that prints first: %v", err)
	}
	c.Close()
}

func TestOtherProtocolVersion(t *testing.T) {
	n := startNode(t)
	conn, err := n.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	payload := encodeHello(hello{Client: "c"})
	payload[len(helloMagic)+3]++
	l := newLink(conn, "")
	defer l.close()
	l.out.push(frameHello, 0, raw(payload))
	if err := skipToPreamble(l.r); err != nil {
		t.Fatal(err)
	}
	h, err := l.next()
	if err != nil || h.typ != frameReject {
		t.Fatalf("got %v, %v", h, err)
	}
	var no rejection
	if b, err := l.payload(h); err != nil || decodeWire(b, &no) != nil || !errors.Is(no.err(), ErrProtocol) || !strings.Contains(no.Message, fmt.Sprintf("version %d", protocolVersion+1)) {
		t.Errorf("got %+v, %v", no, err)
	}
}

func TestCancel(t *testing.T) {
	m := newMeeting(t)
	c := dial(t, startNode(t), Hello{Grace: patience})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, Request{Function: "meet", Arg: body(m.arg())})
		failed <- err
	}()
	conn := m.accept(t)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || errors.Is(err, ErrAbandoned) {
		t.Errorf("err = %v", err)
	}
	if _, err := io.ReadAll(conn); err != nil {
		t.Error(err) // ReadAll ends when the function does
	}
	if _, err := c.Call(ctx, Request{Function: "echo"}); !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}

// A hastyError is a cause that leaves a function 10 ms: see cutoff.Grace.
type hastyError struct{}

func (hastyError) Error() string            { return "in haste" }
func (hastyError) KillGrace() time.Duration { return 10 * time.Millisecond }

func TestFunctionThatIgnoresItsContext(t *testing.T) {
	m := newMeeting(t)
	c := dial(t, startNode(t), Hello{Grace: 10 * time.Millisecond})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, Request{Function: "stubborn", Arg: body(m.arg())})
		failed <- err
	}()
	m.accept(t)
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrAbandoned) {
		t.Errorf("err = %v", err)
	}
	patient := dial(t, startNode(t), Hello{Grace: time.Hour})
	hasty, why := context.WithCancelCause(t.Context()) // the cause says that the grace is too long
	go func() {
		_, err := patient.Call(hasty, Request{Function: "stubborn", Arg: body(m.arg())})
		failed <- err
	}()
	m.accept(t)
	why(hastyError{})
	if err := <-failed; !errors.Is(err, context.Canceled) || !errors.Is(err, ErrAbandoned) {
		t.Errorf("in haste: %v", err)
	}
	_, err := c.Call(t.Context(), Request{Function: "stubborn", Arg: body(m.arg()), Timeout: time.Millisecond})
	var remote *RemoteError
	if !errors.As(err, &remote) || !remote.TimedOut || !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrAbandoned) {
		t.Errorf("err = %v", err)
	}
}

func TestTimeout(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	_, err := c.Call(t.Context(), Request{Function: "wait", Timeout: time.Millisecond})
	var remote *RemoteError
	if !errors.As(err, &remote) || !remote.TimedOut || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err = %v", err)
	}
}

func TestWhatReturnsAfterItsTimeoutHasNoResult(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	for _, arg := range [][]byte{nil, []byte("a result")} {
		got, err := c.Call(t.Context(), Request{Function: "late", Arg: body(arg), Timeout: time.Millisecond})
		var remote *RemoteError
		if !errors.As(err, &remote) || !remote.TimedOut || !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrAbandoned) || !strings.Contains(err.Error(), "late returned after its timeout of 1ms") {
			t.Errorf("err = %v", err)
		}
		if len(string(got.Head)) > 0 {
			t.Errorf("its result is %q", string(got.Head))
		}
	}
	ctx, cancel := context.WithCancel(t.Context()) // the caller's own end is no timeout: what comes in the grace counts
	time.AfterFunc(time.Millisecond, cancel)
	if got, err := c.Call(ctx, Request{Function: "late", Arg: body([]byte("x")), Timeout: time.Hour}); err != nil && !errors.Is(err, context.Canceled) || err == nil && string(got.Head) != "x" {
		t.Errorf("%q, %v", string(got.Head), err)
	}
}

func TestLargeBodiesAtBoundedMemory(t *testing.T) {
	const size = 256 << 20
	n := startNode(t)
	c := dial(t, n, Hello{})
	arg := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	want := sha256.Sum256(arg)

	var both sync.WaitGroup
	both.Go(func() {
		got, err := c.Call(t.Context(), Request{Function: "echo", Arg: body(arg)})
		if err != nil || sha256.Sum256(got.Head) != want {
			t.Errorf("got %d bytes, %v", got.Size(), err)
		}
	})
	for range 20 { // small calls do not wait for the large one
		if _, err := c.Call(t.Context(), Request{Function: "echo", Arg: body([]byte("small"))}); err != nil {
			t.Error(err)
		}
	}
	both.Wait()
	if runtime.GOOS != "linux" {
		t.Skip("the node's memory is not known")
	}
	peak, err := c.Call(t.Context(), Request{Function: "peak"})
	if err != nil {
		t.Fatal(err)
	}
	if kib, _ := strconv.Atoi(string(peak.Head)); !bubble.Race && kib > 2*size>>10 {
		t.Errorf("the node took %d KiB for a body of %d", kib, size>>10)
	}
}

func TestLargeArgumentIsCancelled(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	ctx, cancel := context.WithCancel(t.Context())
	failed := make(chan error, 1)
	go func() {
		_, err := c.Call(ctx, Request{Function: "hash", Arg: body(make([]byte, 512<<20))})
		failed <- err
	}()
	if err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-failed; err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
	if _, err := c.Call(t.Context(), Request{Function: "echo"}); err != nil {
		t.Error(err)
	}
}

func TestConnectionCutWhileBodiesFlow(t *testing.T) {
	n := startNode(t)
	c := dial(t, n, Hello{})
	arg := bytes.Repeat([]byte{1, 2, 3, 5, 7}, 8<<20)
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			got, err := c.Call(t.Context(), Request{Function: "echo", Arg: body(arg)})
			if err != nil || !bytes.Equal(got.Head, arg) {
				t.Errorf("got %d bytes, %v", got.Size(), err)
			}
		})
	}
	for range 3 {
		n.last().cmd.Process.Kill()
		if err := c.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	callers.Wait()
}

func TestNoDaemon(t *testing.T) {
	n := startNode(t)
	if err := dial(t, n, Hello{}).Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	n.kill() // the file of its socket stays
	if _, err := Dial(t.Context(), n.open, Hello{}); !errors.Is(err, ErrWorkerLost) || !strings.Contains(err.Error(), "no worker serves") {
		t.Errorf("err = %v", err)
	}
}

func TestSecondDaemonRefuses(t *testing.T) {
	n := startNode(t)
	dial(t, n, Hello{})
	second := self(Env + "=" + ServeMode(n.socket))
	var stderr strings.Builder
	second.Stderr = &stderr
	if err := second.Run(); err == nil || !strings.Contains(stderr.String(), "another worker serves there") {
		t.Errorf("%v: %s", err, stderr.String())
	}
}

func TestWrongMode(t *testing.T) {
	for _, mode := range []string{"dance", "serve", "serve:", "dance:/x"} {
		cmd := self(Env + "=" + mode)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		if cmd.Run(); cmd.ProcessState.ExitCode() != exitUsage || !strings.Contains(stderr.String(), "unset it") {
			t.Errorf("%q: %v: %s", mode, cmd.ProcessState, stderr.String())
		}
	}
}

func TestDialEndsWithItsContext(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	ctx, cancel := context.WithCancel(t.Context())
	_, err = Dial(ctx, func(context.Context) (io.ReadWriteCloser, error) {
		cancel()
		return struct {
			io.ReadCloser
			io.Writer
		}{r, io.Discard}, nil
	}, Hello{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("err = %v", err)
	}
}
