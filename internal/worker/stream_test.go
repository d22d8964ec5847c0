package worker

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

func numbered(i, size int) codec.Body {
	b := codec.Body{Head: binary.BigEndian.AppendUint64(nil, uint64(i))}
	if size > 0 {
		b.Parts = [][]byte{bytes.Repeat([]byte{byte(i)}, size)}
	}
	return b
}

func checkNumbered(t *testing.T, b codec.Body, i, size int) {
	t.Helper()
	want := numbered(i, size)
	if !bytes.Equal(b.Head, want.Head) || len(b.Parts) != len(want.Parts) || size > 0 && !bytes.Equal(b.Parts[0], want.Parts[0]) {
		t.Fatalf("item %d arrived as %x and %d parts", i, b.Head, len(b.Parts))
	}
}

// Items cross in both directions, each once and in order, while the connection is cut many times.
func TestItemsOverConnectionsThatAreCut(t *testing.T) {
	for name, tt := range map[string]struct{ items, size, cuts int }{
		"small": {3000, 0, 6},
		"large": {40, 1 << 20, 6},
	} {
		t.Run(name, func(t *testing.T) {
			n := startNode(t)
			c := dial(t, n, Hello{})
			s := NewStream()
			over := make(chan struct{})
			var outcome error
			var all sync.WaitGroup
			all.Go(func() {
				defer close(over)
				_, outcome = c.Call(t.Context(), Request{Function: "items", Stream: s, Members: NewMembers("a"), Arg: numbered(1, tt.size)})
			})
			all.Go(func() {
				for i := range tt.items {
					if !s.Send(over, numbered(i, tt.size)) {
						t.Error("the call was over")
					}
				}
				s.CloseSend()
			})
			for i := range tt.items {
				item, ok := s.Receive(over)
				if !ok {
					t.Fatalf("item %d is missing: %v", i, outcome)
				}
				checkNumbered(t, item, i, tt.size)
				if i%(tt.items/tt.cuts) == tt.items/tt.cuts/2 {
					n.last().cmd.Process.Kill()
				}
			}
			if _, more := s.Receive(over); more {
				t.Error("there was one more")
			}
			all.Wait()
			if outcome != nil || s.Rewind() {
				t.Error("it could be done again", outcome)
			}
		})
	}
}

// A sender blocks if the other end takes no items. Other calls go on.
func TestStreamWindow(t *testing.T) {
	c := dial(t, startNode(t), Hello{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s := NewStream()
	over := make(chan struct{})
	var outcome error
	go func() {
		defer close(over)
		_, outcome = c.Call(ctx, Request{Function: "flood", Stream: s})
	}()
	if _, ok := s.Receive(over); !ok {
		t.Fatal(outcome)
	}
	for !s.has(StreamItems) { // until the full window has arrived
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for range 100 {
		if _, err := c.Call(t.Context(), Request{Function: "echo", Arg: body([]byte("x"))}); err != nil {
			t.Fatal(err)
		}
	}
	if sent := s.state(0).Received; sent > StreamItems+1 {
		t.Errorf("%d items were sent, although only one was received", sent)
	}
	cancel()
	if <-over; !errors.Is(outcome, context.Canceled) {
		t.Error(outcome)
	}
	got := 1
	for {
		if _, ok := s.Receive(over); !ok {
			break
		}
		got++
	}
	if got < StreamItems || got > StreamItems+1 {
		t.Errorf("%d items in all", got)
	}
}

func TestStreamIsRewound(t *testing.T) {
	s := NewStream()
	for i := range 3 {
		s.Send(nil, numbered(i, 0))
	}
	s.CloseSend()
	o := newOutbox(io.Discard)
	s.attach(1, o, 0, 0)
	if _, _, more := s.source.fill(nil); more || s.next != 4 {
		t.Fatalf("%d were written", s.next)
	}
	old := s.source
	if err := s.deliver(itemHeader{Number: 0}, numbered(7, 0)); err != nil || !s.Rewind() {
		t.Fatal("no item was taken", err)
	}
	s.attach(2, o, 0, 0)
	if frames, _, _ := old.fill(nil); len(frames) > 0 {
		t.Error("the old source still has items")
	}
	if frames, _, _ := s.source.fill(nil); bytes.Count(frames, []byte{byte(frameItem), 0, 0, 0, 0, 0, 0, 0, 2}) != 4 {
		t.Errorf("wrote %x", frames)
	}
	if err := s.credit(5); !errors.Is(err, ErrProtocol) {
		t.Errorf("credit for items that were not sent: %v", err)
	}
	if err := errors.Join(s.credit(1), s.credit(0), s.deliver(itemHeader{Number: 1, End: true}, codec.Body{})); !errors.Is(err, ErrProtocol) {
		t.Errorf("an end out of order: %v", err)
	}
	if s.Rewind() {
		t.Error("an item was taken")
	}
}

// Items that are taken after a hello was encoded, but before its connection is open, are credited over that
// connection. The other end may wait for nothing but this credit.
func TestStreamTellsWhatWasTakenMeanwhile(t *testing.T) {
	s := NewStream()
	old := newOutbox(io.Discard)
	s.attach(1, old, 0, 0)
	for i := range StreamItems {
		if err := s.deliver(itemHeader{Number: uint64(i)}, numbered(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if said := s.state(1); said.Taken != 0 {
		t.Fatalf("the hello says that %d were taken", said.Taken)
	}
	for range StreamItems {
		if _, ok := s.Receive(nil); !ok {
			t.Fatal("an item is missing")
		}
	}
	o := newOutbox(io.Discard)
	s.attach(1, o, 0, 0)
	if want := appendFrame(nil, frameCredit, 1, number(StreamItems), 0); !bytes.Equal(o.buf, want) {
		t.Errorf("the new connection got %x; want %x", o.buf, want)
	}
}

func TestStreamRefusesMoreThanItsWindow(t *testing.T) {
	s := NewStream()
	for i := range StreamItems {
		if err := s.deliver(itemHeader{Number: uint64(i)}, numbered(i, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.deliver(itemHeader{Number: StreamItems}, numbered(0, 0)); !errors.Is(err, errOverrun) {
		t.Error(err)
	}
	s = NewStream()
	if err := s.deliver(itemHeader{}, numbered(0, 2*StreamBytes)); err != nil {
		t.Error(err) // a single item is always accepted
	}
	if err := s.deliver(itemHeader{Number: 1}, numbered(1, 1)); !errors.Is(err, errOverrun) {
		t.Error(err)
	}
}

// Memory of an announced size is not allocated before some of the content has arrived.
func TestAnnouncedSizesAreNotBelieved(t *testing.T) {
	layout := appendLayout(nil, codec.Body{Head: []byte("h")})
	layout[1] = 1
	p := parser{b: append(binary.AppendUvarint(layout, maxSize), 'h')}
	var in incoming
	if err := in.open(&p, 2*maxSize); err != nil {
		t.Fatal(err)
	}
	var stream bytes.Buffer
	stream.Write(make([]byte, chunkSize))
	if err := in.more(newFrameReader(&stream), frameHead{size: chunkSize, typ: frameData}); err != nil {
		t.Fatal(err)
	}
	if got := cap(in.body.Parts[0]); got > reach*chunkSize {
		t.Errorf("%d bytes were reserved for %d", got, chunkSize)
	}
}

// An argument or a result of 1 GiB takes memory for one copy at each end, and for no second one.
func TestGigabyte(t *testing.T) {
	if testing.Short() || bubble.Race {
		t.Skip("scripts/test -deep runs it: 1 GiB each way, with memory counted, and without the race detector")
	}
	const size, slack = 1 << 30, 64 << 20
	if _, err := peakMemory(); err != nil {
		t.Skip(err)
	}
	c := dial(t, startNode(t), Hello{})
	nodePeak := func() int {
		t.Helper()
		kib, err := c.Call(t.Context(), Request{Function: "peak"})
		n, convErr := strconv.Atoi(string(kib.Head))
		if err = errors.Join(err, convErr); err != nil {
			t.Fatal(err)
		}
		return n << 10
	}
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0o600); err != nil {
		t.Skip(err) // the peak would be that of earlier tests
	}
	arg := make([]byte, size)
	for i := 0; i < size; i += 4096 {
		arg[i] = byte(i >> 12)
	}
	before, nodeBefore := memoryNow(t), nodePeak()
	sent, err := c.Call(t.Context(), Request{Function: "weigh", Arg: codec.Body{Head: []byte("x"), Parts: [][]byte{arg}}})
	if err != nil || string(sent.Head) != strconv.Itoa(size) {
		t.Fatalf("%s, %v", sent.Head, err)
	}
	if extra := nodePeak() - nodeBefore; extra > size+slack {
		t.Errorf("the node took %d MiB for an argument of %d", extra>>20, size>>20)
	}
	if peak, _ := peakMemory(); peak-before > slack {
		t.Errorf("sending took %d MiB", (peak-before)>>20)
	}
	arg = nil
	debug.FreeOSMemory()
	before = memoryNow(t)
	got, err := c.Call(t.Context(), Request{Function: "gigabyte"})
	if err != nil || len(got.Parts) != 1 || len(got.Parts[0]) != size || got.Parts[0][size-1] != 1 {
		t.Fatalf("%d parts, %v", len(got.Parts), err)
	}
	if now := memoryNow(t); now-before > size+slack {
		t.Errorf("the result takes %d MiB", (now-before)>>20)
	}
	if peak, _ := peakMemory(); peak-before > size+slack {
		t.Errorf("receiving %d MiB took %d", size>>20, (peak-before)>>20)
	}
	if extra := nodePeak() - nodeBefore; extra > 2*size+slack { // the argument may still be in memory
		t.Errorf("the node took %d MiB in all", extra>>20)
	}
}

// status returns a field of /proc/self/status, converted from KiB to bytes.
func status(field string) (int, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(b), field+":")
	kib, err := strconv.Atoi(strings.Fields(after)[0])
	return kib << 10, err
}

func peakMemory() (int, error) { return status("VmHWM") }

func memoryNow(t *testing.T) int {
	t.Helper()
	n, err := status("VmRSS")
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A scratch directory exists only for a call that needs it, and is removed with the call. A held call keeps it,
// even over cut connections.
func TestScratch(t *testing.T) {
	n := startNode(t)
	dir := t.TempDir()
	c := dial(t, n, Hello{Node: NodeFacts{Scratch: dir}})
	place := Place{TaskID: "t1", Attempt: 2}
	want := filepath.Join(dir, "t1-a2")
	exists := func() bool { _, err := os.Stat(want); return err == nil }
	gone := func() {
		t.Helper()
		until(t, "the end of the scratch directory", func() bool { return !exists() })
	}
	if _, err := c.Call(t.Context(), Request{Function: "echo", Place: place}); err != nil || exists() {
		t.Error("made for one that did not ask", err)
	}
	got, err := c.Call(t.Context(), Request{Function: "scratch", Place: place})
	if err != nil || string(got.Head) != want {
		t.Errorf("%s, %v", got.Head, err)
	}
	gone()
	_, release, err := c.Hold(t.Context(), Request{Function: "echo", Place: place, Scratch: true})
	if err != nil || !exists() {
		t.Error("not made", err)
	}
	n.last().cmd.Process.Kill()
	for range 2 {
		if err := c.Ping(t.Context()); err != nil || !exists() {
			t.Error("it went before it was let go", err)
		}
	}
	release()
	gone()
	_, release, err = c.Hold(t.Context(), Request{Function: "fail", Place: place, Scratch: true})
	release()
	if err == nil {
		t.Error("no error")
	}
	gone()
	if newScratch(NodeFacts{Scratch: dir}, Place{TaskID: "../up"}) != nil {
		t.Error("a task's name led out of the directory")
	}
}
