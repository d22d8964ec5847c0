package worker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/codec"
)

// The calls of the killed client. It was killed before it recorded the answers to the first two.
const (
	idEcho uint64 = iota + 1
	idFail
	idRunning
	idCancelled
	idStream
)

func placeOf(id uint64) Place { return Place{Slot: int(id), TaskID: fmt.Sprint("t", id), Attempt: 2} }

// killedClient is a client that the test kills: it makes its calls, prints a line, and waits.
func killedClient(mode string) {
	_ = os.Unsetenv("WORKER_TEST_CLIENT") // its attach processes are not clients
	socket, meeting, _ := strings.Cut(mode, " ")
	c, err := Dial(context.Background(), func(context.Context) (io.ReadWriteCloser, error) {
		return attachProcess(Env + "=" + AttachMode(socket))
	}, Hello{Generation: 1})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	request := func(id uint64, function, arg string) Request {
		return Request{ID: id, Function: function, Arg: body([]byte(arg)), Place: placeOf(id)}
	}
	_, _, err1 := c.Hold(context.Background(), request(idEcho, "echo", "kept"))
	_, _, err2 := c.Hold(context.Background(), request(idFail, "fail", "it"))
	for _, r := range []Request{request(idRunning, "meet", meeting), request(idCancelled, "meet", meeting)} {
		go c.Hold(context.Background(), r)
	}
	streaming := request(idStream, "items", "")
	streaming.Stream = NewStream()
	go c.Call(context.Background(), streaming)
	streaming.Stream.Send(nil, body([]byte("item")))
	streaming.Stream.Receive(nil)
	fmt.Println(err1, err2)
	_, _ = io.Copy(io.Discard, os.Stdin) // it ends with the test at the latest
	os.Exit(1)
}

// leaveCalls starts a client that makes its calls, and kills it once they are all under way. It returns the connections
// of the two calls that run.
func leaveCalls(t *testing.T, n *node) (one, two net.Conn) {
	t.Helper()
	m := newMeeting(t)
	cmd := self("WORKER_TEST_CLIENT=" + n.socket + " " + string(m.arg()))
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if want := "<nil> bad luck with it: registered\n"; err != nil || line != want {
		t.Errorf("the client said %q, %v; want %q", line, err, want)
	}
	t.Cleanup(func() { _ = cmd.Wait() })
	one, two = m.accept(t), m.accept(t)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	return one, two
}

func heldIDs(c *Client) (ids []uint64) {
	for _, h := range c.Held() {
		ids = append(ids, h.ID)
	}
	return ids
}

// The next client finds all calls of a killed client: finished calls that were not recorded, running calls, and
// streams, which it cannot collect.
func TestAdoptFromAKilledClient(t *testing.T) {
	n := startNode(t)
	first, second := leaveCalls(t, n)

	// A refused client changes nothing.
	if _, err := Dial(t.Context(), n.open, Hello{Generation: 2, Digest: strings.Repeat("0", 64), Adopt: true}); !errors.Is(err, ErrBinary) {
		t.Errorf("another binary: err = %v", err)
	}
	// A client without a digest is accepted. The node has only its own program's functions.
	c := dial(t, n, Hello{Generation: 2, Adopt: true})
	if _, err := c.Call(t.Context(), Request{Function: "the tool's own"}); !errors.Is(err, ErrUnknownFunction) {
		t.Errorf("a function of another program: err = %v", err)
	}
	want := []HeldCall{
		{ID: idEcho, Function: "echo", Place: placeOf(idEcho), Finished: true},
		{ID: idFail, Function: "fail", Place: placeOf(idFail), Finished: true},
		{ID: idRunning, Function: "meet", Place: placeOf(idRunning)},
		{ID: idCancelled, Function: "meet", Place: placeOf(idCancelled)},
		{ID: idStream, Function: "items", Place: placeOf(idStream), Stream: true},
	}
	held := c.Held()
	for i := range held {
		if held[i].Ran <= 0 || held[i].Alone && !held[i].Finished {
			t.Errorf("held %+v: three run at once", held[i])
		}
		held[i].Ran, held[i].Alone = 0, false
	}
	if fmt.Sprint(held) != fmt.Sprint(want) {
		t.Fatalf("held %+v\nwant %+v", held, want)
	}
	if _, err := c.Collect(t.Context(), idStream); !errors.Is(err, ErrStream) || !strings.Contains(err.Error(), "items") {
		t.Errorf("a stream: err = %v", err)
	}
	got, err := c.Collect(t.Context(), idEcho)
	if err != nil || string(got.Head) != "kept" {
		t.Errorf("got %q, %v", got.Head, err)
	}
	if _, err := c.Collect(t.Context(), idEcho); !errors.Is(err, ErrUnknownCall) {
		t.Errorf("collected twice: err = %v", err)
	}
	_, release, err := c.CollectHold(t.Context(), idFail, Collection{})
	var remote *RemoteError
	if !errors.As(err, &remote) || !errors.Is(err, errRegistered) || remote.Function != "fail" {
		t.Errorf("err = %v", err)
	}
	c.Drop(idStream)
	c.Drop(idEcho) // was collected already
	c.Drop(9999)

	// The client is killed again, before it has recorded the failure.
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	release() // has no effect any more
	last := dial(t, n, Hello{Generation: 3, Adopt: true})
	if got, want := heldIDs(last), []uint64{idFail, idRunning, idCancelled}; !slices.Equal(got, want) {
		t.Fatalf("held %v, want %v", got, want)
	}
	_, release, err = last.CollectHold(t.Context(), idFail, Collection{})
	if !errors.Is(err, errRegistered) {
		t.Errorf("err = %v", err)
	}
	release()

	// One of the two running calls is dropped, which closes its connection.
	last.Drop(idCancelled)
	ended := make(chan string, 2)
	var both sync.WaitGroup
	for _, conn := range []io.ReadWriteCloser{first, second} {
		both.Go(func() {
			buf := make([]byte, 1)
			if _, err := conn.Read(buf); err == io.EOF {
				ended <- "cancelled"
			}
		})
	}
	if got := <-ended; got != "cancelled" {
		t.Error(got)
	}
	for _, conn := range []io.ReadWriteCloser{first, second} {
		_, _ = io.WriteString(conn, "done") // also to the cancelled call
		_ = conn.Close()
	}
	if got, err := last.Collect(t.Context(), idRunning); err != nil || string(got.Head) != "done" {
		t.Errorf("got %q, %v", got.Head, err)
	}
	both.Wait()
	if got := last.Held(); len(got) > 0 {
		t.Errorf("held %+v", got)
	}
}

// Adopted calls that are neither collected nor dropped survive cut connections, but not a restart of the worker.
func TestAdoptedCallsOverCutConnections(t *testing.T) {
	n := startNode(t)
	one, two := leaveCalls(t, n)
	gate := make(chan struct{}, 100)
	gate <- struct{}{}
	c, err := Dial(t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
		select {
		case <-gate:
			return n.open(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}, Hello{Generation: 2, Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	offline := func() {
		until(t, "the end of the connection", func() bool {
			n.last().cmd.Process.Kill()
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.link == nil
		})
	}
	offline()
	c.Drop(idStream)
	results := make(chan string, 1)
	go func() {
		got, err := c.Collect(t.Context(), idEcho) // while there is no connection
		results <- fmt.Sprint(string(got.Head), err)
	}()
	until(t, "the collector", func() bool { return len(heldIDs(c)) < 4 })
	gate <- struct{}{}
	if got := <-results; got != "kept<nil>" {
		t.Errorf("got %q", got)
	}
	for range 3 {
		n.last().cmd.Process.Kill()
		gate <- struct{}{}
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := []uint64{idFail, idRunning, idCancelled}
	if got := heldIDs(c); !slices.Equal(got, want) {
		t.Errorf("held %v, want %v", got, want)
	}
	if _, err := c.Collect(t.Context(), idFail); !errors.Is(err, errRegistered) {
		t.Errorf("err = %v", err)
	}
	go func() {
		got, err := c.Collect(t.Context(), idRunning) // requested before the cut, answered after it
		results <- fmt.Sprint(string(got.Head), err)
	}()
	if err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	offline()
	for _, conn := range []io.ReadWriteCloser{one, two} {
		_, _ = io.WriteString(conn, "late")
		_ = conn.Close()
	}
	gate <- struct{}{}
	if got := <-results; got != "late<nil>" {
		t.Errorf("got %q", got)
	}
	n.kill()
	n.start()
	for range 10 {
		gate <- struct{}{}
	}
	if _, err := c.Collect(t.Context(), idCancelled); !errors.Is(err, ErrWorkerLost) {
		t.Errorf("after a restart: err = %v", err)
	}
}

// The newer generation gets the worker in any order of arrival. Each call of the older one fails with ErrFenced.
func TestFencing(t *testing.T) {
	t.Run("the newer one comes later", func(t *testing.T) {
		n, m := startNode(t), newMeeting(t)
		older := dial(t, n, Hello{Generation: 1})
		ends := openCalls(t, older, m)
		conn := m.accept(t)
		_, release, err := older.Hold(t.Context(), Request{ID: 7, Function: "echo", Arg: body([]byte("x"))})
		if err != nil {
			t.Fatal(err)
		}
		newer := dial(t, n, Hello{Generation: 2, Adopt: true})
		wantFenced(t, older, ends)
		release() // has no effect any more
		answer(t, conn, "newer")
		wantCollected(t, newer, map[uint64]string{1: "newer", 7: "x"})
	})
	t.Run("the older one is cut off for long", func(t *testing.T) {
		n, m := startNode(t), newMeeting(t)
		gate := make(chan struct{}, 2)
		gate <- struct{}{}
		older, err := Dial(t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
			select {
			case <-gate:
				return n.open(ctx)
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}, Hello{Generation: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer older.Close()
		ends := openCalls(t, older, m)
		conn := m.accept(t)
		if err := older.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.last().cmd.Process.Kill()
		newer := dial(t, n, Hello{Generation: 2, Adopt: true})
		answer(t, conn, "newer")
		gate <- struct{}{}
		wantFenced(t, older, ends)
		wantCollected(t, newer, map[uint64]string{1: "newer"})
	})
	t.Run("the newer one was there first", func(t *testing.T) {
		n, m := startNode(t), newMeeting(t)
		newer := dial(t, n, Hello{Generation: 2})
		ends := openCalls(t, newer, m)
		conn := m.accept(t)
		for _, h := range []Hello{{Generation: 1, Adopt: true}, {Generation: 1}, {Generation: 2, Adopt: true}} {
			if _, err := Dial(t.Context(), n.open, h); !errors.Is(err, ErrFenced) {
				t.Errorf("%+v: err = %v", h, err)
			}
		}
		answer(t, conn, "its own")
		if err := <-ends; err != nil { // the refused clients neither disturbed nor adopted the call
			t.Error(err)
		}
		if _, err := newer.Call(t.Context(), Request{Function: "echo"}); err != nil {
			t.Error(err)
		}
	})
}

// openCalls makes a call that runs and a call that streams. The channel gets their errors, in the
// order in which they end.
func openCalls(t *testing.T, c *Client, m meeting) <-chan error {
	t.Helper()
	ends := make(chan error, 2)
	call := func(r Request) {
		_, err := c.Call(context.Background(), r)
		ends <- err
	}
	go call(Request{ID: 1, Function: "meet", Arg: body(m.arg())})
	s := NewStream()
	go call(Request{ID: 2, Function: "items", Stream: s})
	s.Send(nil, body([]byte("item")))
	if _, ok := s.Receive(nil); !ok {
		t.Fatal("the stream has no items")
	}
	return ends
}

func wantFenced(t *testing.T, c *Client, ends <-chan error) {
	t.Helper()
	for range cap(ends) {
		if err := <-ends; !errors.Is(err, ErrFenced) {
			t.Errorf("an open call: err = %v", err)
		}
	}
	if _, err := c.Call(t.Context(), Request{Function: "echo"}); !errors.Is(err, ErrFenced) {
		t.Errorf("a later call: err = %v", err)
	}
	if _, _, err := c.Hold(t.Context(), Request{Function: "echo"}); !errors.Is(err, ErrFenced) {
		t.Errorf("a later call: err = %v", err)
	}
	if err := c.Ping(t.Context()); !errors.Is(err, ErrFenced) {
		t.Errorf("a ping: err = %v", err)
	}
}

// wantCollected collects the adopted calls and compares the results. It drops streams.
func wantCollected(t *testing.T, c *Client, want map[uint64]string) {
	t.Helper()
	got := map[uint64]string{}
	for _, h := range c.Held() {
		if h.Stream {
			c.Drop(h.ID)
			continue
		}
		b, err := c.Collect(t.Context(), h.ID)
		if err != nil {
			t.Error(err)
		}
		got[h.ID] = string(b.Head)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("collected %v, want %v", got, want)
	}
}

// The results that wait in a daemon are limited while it has no client, and while its new client
// has not collected them.
func TestWaitingResultsWithoutAClient(t *testing.T) {
	var r registry
	started := make(chan struct{}, 10)
	r.add("big", "", onBytes(func(context.Context, []byte) ([]byte, error) {
		started <- struct{}{}
		return make([]byte, 100), nil
	}))
	d := newDaemon(&r, nil)
	d.limit = 150
	connect := func(h hello) *session {
		s := newSession(&link{out: newOutbox(io.Discard)}, d)
		if no := d.admit(s, h); no != nil {
			t.Fatal(no)
		}
		return s
	}
	finished := func() (n int) {
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, c := range d.calls {
			if c.finished {
				n++
			}
		}
		return n
	}
	s := connect(hello{Client: "older", Generation: 1})
	for id := range uint64(2) {
		d.start(s, id, callHeader{Function: "big"}, codec.Body{})
	}
	d.leave(s)
	until(t, "two results", func() bool { return finished() >= 2 })
	d.acknowledge(s, 0) // a late acknowledgement of a client that is gone

	s = connect(hello{Client: "newer", Generation: 2, Adopt: true})
	for id := uint64(10); id < 12; id++ {
		d.start(s, id, callHeader{Function: "big"}, codec.Body{})
	}
	<-started
	<-started
	select {
	case <-started:
		t.Error("a call began with no room for its result")
	default:
	}
	if len(s.out.buf) > 1000 {
		t.Errorf("%d unasked bytes were sent", len(s.out.buf))
	}
	for id := range uint64(2) {
		d.collect(s, id)
		d.acknowledge(s, id)
	}
	<-started
	<-started
	until(t, "two results", func() bool { return finished() >= 2 })
}

// BenchmarkAcknowledge64InFlight compares Hold, whose result the caller releases, with Call.
func BenchmarkAcknowledge64InFlight(b *testing.B) {
	c := dial(b, startNode(b), Hello{})
	members, arg := NewMembers("10.0.0.1", "10.0.0.3"), body([]byte("a small argument"))
	for _, hold := range []bool{false, true} {
		b.Run("hold="+strconv.FormatBool(hold), func(b *testing.B) {
			r := Request{Function: "echo", Arg: arg, Members: members, Place: Place{Rank: 1, Slot: 1, TaskID: "t17", Attempt: 1}}
			work := make(chan struct{}, 64)
			var workers sync.WaitGroup
			for range 64 {
				workers.Go(func() {
					for range work {
						var err error
						if hold {
							var release func()
							_, release, err = c.Hold(b.Context(), r)
							release()
						} else {
							_, err = c.Call(b.Context(), r)
						}
						if err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			workers.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
		})
	}
}
