package worker

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gputrain/gputrain/internal/codec"
	"golang.org/x/sync/errgroup"
)

// A duplex makes one stream of a reader and a writer.
type duplex struct {
	io.Reader
	io.WriteCloser
}

// While too many results wait for the client, no further call starts. Nothing else changes.
func TestWaitingResultsAreBounded(t *testing.T) {
	var r registry
	started := make(chan struct{}, 2)
	r.add("big", "", onBytes(func(context.Context, []byte) ([]byte, error) {
		started <- struct{}{}
		return make([]byte, 100), nil
	}))
	d := newDaemon(&r, nil)
	d.limit = 50
	s := newSession(&link{out: newOutbox(io.Discard)}, d)
	if no := d.admit(s, hello{Client: "c"}); no != nil {
		t.Fatal(no)
	}
	d.start(s, 1, callHeader{Function: "big"}, codec.Body{})
	<-started
	until(t, "the result", func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.waiting > 0
	})
	d.start(s, 2, callHeader{Function: "big"}, codec.Body{})
	d.start(s, 2, callHeader{Function: "big"}, codec.Body{}) // sent twice
	d.start(s, 3, callHeader{Function: "big"}, codec.Body{})
	d.cancel(s, 3, nil)
	select {
	case <-started:
		t.Error("a call began with no room for its result")
	default:
	}
	d.acknowledge(s, 1)
	<-started
	d.acknowledge(s, 2)
	if len(started) > 0 {
		t.Error("a call ran twice")
	}
}

// talk sends bytes to a daemon as a client would, and returns once the daemon has closed the connection.
func talk(d *daemon, b []byte) {
	in, client := io.Pipe()
	var g errgroup.Group
	g.Go(func() error {
		_, _ = client.Write(b)
		return client.Close()
	})
	d.serve(duplex{in, nopWriteCloser{in}})
	_ = g.Wait()
}

// A nopWriteCloser discards writes. Its Close ends the reads from in.
type nopWriteCloser struct{ in *io.PipeReader }

func (nopWriteCloser) Write(p []byte) (int, error) { return len(p), nil }
func (w nopWriteCloser) Close() error              { return w.in.Close() }

func frame(typ frameType, id uint64, payload []byte) []byte {
	return append(frameHead{len(payload), typ, id}.append(nil), payload...)
}

func join(parts ...[]byte) (all []byte) {
	for _, p := range parts {
		all = append(all, p...)
	}
	return all
}

// echoStream returns its argument, and sends each item back.
func echoStream(ctx context.Context, arg codec.Body, s *Stream) (codec.Body, error) {
	for s != nil {
		item, ok := s.Receive(ctx.Done())
		if !ok || !s.Send(ctx.Done(), item) {
			break
		}
	}
	return arg, ctx.Err()
}

// FuzzDaemon sends arbitrary bytes to a daemon, as a client would.
func FuzzDaemon(f *testing.F) {
	greeting := frame(frameHello, 0, encodeHello(hello{Client: "c", Open: []uint64{1}, Kept: []uint64{2}}))
	members := frame(frameMembers, 1, encodeWire([]string{"a"}))
	header := func(size, flags int) []byte {
		h := callHeader{Function: "echo", Members: 1, Flags: uint64(flags), Place: Place{TaskID: "t1", Attempt: 1}}
		return append(h.appendTo(nil), byte(size), 0)
	}
	call := header(5, 0)
	item := func(n uint64, end bool, text string) []byte {
		return frame(frameItem, 1, opening{&itemHeader{n, end}, body([]byte(text))}.appendTo(nil))
	}
	large := (&callHeader{Function: "echo"}).appendTo(nil)
	large = appendLayout(large, codec.Body{Head: []byte("h"), Parts: [][]byte{make([]byte, codec.MinPart)}})
	many := append((&callHeader{Function: "echo"}).appendTo(nil), 1, 0xff, 0xff, 0xff, 0x7f)
	f.Add(greeting)
	f.Add(join(greeting, members, frame(frameCall, 1, append(call, "12345"...)), frame(frameAck, 1, nil), frame(framePing, 2, nil)))
	f.Add(join(greeting, members, frame(frameCall, 1, append(call, "12"...)), frame(frameData, 1, []byte("345")), frame(frameCancel, 1, nil)))
	f.Add(join(greeting, members, frame(frameCall, 1, append(call, "12"...)), frame(frameCancel, 1, nil), frame(frameData, 1, []byte("345"))))
	f.Add(join(greeting, frame(frameCall, 1, append(large, 'h')), frame(frameData, 1, make([]byte, 1000)), frame(frameData, 1, nil)))
	f.Add(join(greeting, frame(frameCall, 1, many)))
	f.Add(join(greeting, members, frame(frameCall, 1, append(header(1, flagStream), 'x')), item(0, false, "one"), item(1, false, "two"), item(2, true, "")))
	f.Add(join(greeting, members, frame(frameCall, 1, append(header(1, flagStream|flagScratch), 'x')), item(7, false, "gap"), frame(frameCredit, 1, []byte{9})))
	f.Add(join(frame(frameHello, 0, encodeHello(hello{Client: "c", Adopt: true})), frame(frameCall, 1, append((&callHeader{Function: "echo"}).appendTo(nil), 0, 0)), frame(frameCollect, 1, nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var r registry
		r.add("echo", "", echoStream)
		d := newDaemon(&r, func() (string, error) { return "digest", nil })
		talk(d, b)
		d.mu.Lock()
		defer d.mu.Unlock()
		for _, c := range d.calls {
			d.forget(c) // calls that still wait for items
		}
	})
}

// FuzzHello decodes arbitrary first frames.
func FuzzHello(f *testing.F) {
	f.Add(encodeHello(hello{Client: "c", Digest: "d", Open: []uint64{1, 2}, Adopt: true}))
	f.Add([]byte(helloMagic))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, version, err := decodeHello(b)
		if err != nil {
			return
		}
		if again, v, err := decodeHello(encodeHello(h)); err != nil || v != version || again.Client != h.Client || len(again.Open) != len(h.Open) {
			t.Errorf("%+v became %+v, %v", h, again, err)
		}
	})
}

// FuzzClient sends arbitrary bytes to a client, as a node would.
func FuzzClient(f *testing.F) {
	held := []heldCall{{ID: 1, Header: (&callHeader{Function: "echo"}).appendTo(nil)}}
	greeting := join([]byte("motd"), []byte(nodePreamble), frame(frameWelcome, 0, encodeWire(welcome{Instance: "i", Functions: []string{"echo"}, Known: []uint64{1}, Held: held})))
	result := func(size byte) []byte { return append((&resultHeader{}).appendTo(nil), size, 0) }
	f.Add(greeting)
	f.Add(join([]byte(nodePreamble), frame(frameReject, 0, encodeWire(rejection{rejectFenced, "no"}))))
	cut := join([]byte(nodePreamble), frame(frameReject, 0, encodeWire(rejection{rejectFenced, "no"})))
	f.Add(cut[:len(cut)-4])
	f.Add(join(greeting, frame(frameResult, 1, append(result(3), "1"...)), frame(frameData, 1, []byte("23"))))
	failed := resultHeader{Error: &wireError{Kind: Panic, Known: []string{"io.EOF"}}}
	f.Add(join(greeting, frame(frameResult, 1, opening{&failed, codec.Body{}}.appendTo(nil)), frame(frameFenced, 0, nil)))
	f.Add(join(greeting, frame(frameItem, 1, []byte{0, 1, 0, 'x'}), frame(frameCredit, 1, []byte{1})))
	f.Fuzz(func(t *testing.T, b []byte) {
		streams := make(chan io.ReadWriteCloser, 1)
		in, node := io.Pipe()
		streams <- duplex{in, nopWriteCloser{in}}
		var g errgroup.Group
		g.Go(func() error {
			_, _ = node.Write(b)
			return node.Close()
		})
		defer g.Wait()
		ended := make(chan struct{})
		end := sync.OnceFunc(func() { close(ended) })
		var dialed atomic.Bool
		c, err := Dial(t.Context(), func(ctx context.Context) (io.ReadWriteCloser, error) {
			select {
			case s := <-streams:
				return s, nil
			default:
				end() // the first stream has ended
				if !dialed.Load() {
					return nil, ErrWorkerLost // Dial ends too
				}
				<-ctx.Done() // until Close
				return nil, ctx.Err()
			}
		}, Hello{Adopt: true})
		if err != nil {
			return
		}
		dialed.Store(true)
		select {
		case <-ended:
		case <-c.done:
		}
		c.Close()
	})
}
