package worker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gputrain/gputrain/internal/codec"
)

// A sender blocks while this many items, or bytes, were not taken by the other end. One item is always allowed, however
// large.
const (
	StreamItems = 64
	StreamBytes = 4 << 20
)

// A Stream is one end of a call's items, which go in both directions. Items are numbered, and kept until the other end
// has taken them: what a broken connection lost is sent again over the next one, and nothing arrives twice.
//
// One goroutine at a time may send, and one receive.
type Stream struct {
	space chan struct{} // holds a token when there may be room to send
	came  chan struct{} // holds a token when there may be something to receive

	mu     sync.Mutex
	id     uint64
	out    *outbox       // nil if there is no connection
	source *streamSource // the stream's source in out

	// Items for the other end.
	items  []codec.Body // not yet taken by the other end
	base   uint64       // the number of items[0]
	bytes  int          // in items
	closed bool         // no more items follow
	next   uint64       // the number of the next item to write on this connection; the end has one too
	large  *transfer    // the item that is being written

	// Items from the other end.
	queue      []codec.Body // not yet taken by the reader
	queued     int          // bytes in queue
	received   uint64
	taken      uint64
	credited   uint64 // how many the other end was told are taken
	uncredited int    // bytes of the taken items that it was not told of
	ended      bool
}

// NewStream returns a stream for a [Request].
func NewStream() *Stream {
	return &Stream{space: make(chan struct{}, 1), came: make(chan struct{}, 1)}
}

func wakeUp(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Send adds an item. It blocks while the other end is behind by more than the window, and reports false if stop ends
// that. The item's memory must not be changed afterwards.
func (s *Stream) Send(stop <-chan struct{}, item codec.Body) bool {
	size := item.Size()
	for {
		select {
		case <-stop:
			return false
		default:
		}
		s.mu.Lock()
		if len(s.items) == 0 || len(s.items) < StreamItems && s.bytes+size <= StreamBytes {
			s.items = append(s.items, item)
			s.bytes += size
			s.write()
			s.mu.Unlock()
			return true
		}
		s.mu.Unlock()
		select {
		case <-s.space:
		case <-stop:
			return false
		}
	}
}

// CloseSend sends the end of the items.
func (s *Stream) CloseSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.write()
}

// write makes the outbox write what was added, with s.mu held.
func (s *Stream) write() {
	if s.out != nil {
		s.out.enqueue(s.source)
	}
}

// Receive returns the next item. It reports false after the last one, and if stop ended while it waited.
func (s *Stream) Receive(stop <-chan struct{}) (codec.Body, bool) {
	for stopped := false; ; {
		s.mu.Lock()
		if len(s.queue) > 0 {
			item := s.queue[0]
			s.queue[0] = codec.Body{}
			s.queue = s.queue[1:]
			size := item.Size()
			s.queued -= size
			s.taken++
			s.uncredited += size
			s.sendCredit(s.taken-s.credited >= StreamItems/4 || s.uncredited >= StreamBytes/4)
			s.mu.Unlock()
			return item, true
		}
		s.sendCredit(s.credited < s.taken) // otherwise both ends might wait for each other
		ended := s.ended
		s.mu.Unlock()
		if ended || stopped {
			return codec.Body{}, false
		}
		select {
		case <-s.came:
		case <-stop:
			stopped = true
		}
	}
}

// sendCredit tells the other end how many items were taken, with s.mu held.
func (s *Stream) sendCredit(now bool) {
	if !now || s.out == nil {
		return
	}
	s.credited, s.uncredited = s.taken, 0
	s.out.push(frameCredit, s.id, number(s.taken))
}

// Rewind prepares the stream for another attempt at its call, once the last attempt is over. If either end has taken
// items there can be no other attempt: Rewind then does nothing and reports false.
func (s *Stream) Rewind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base > 0 || s.taken > 0 {
		return false
	}
	s.out, s.source, s.next, s.large = nil, nil, 0, nil
	s.queue, s.queued, s.received, s.credited, s.uncredited, s.ended = nil, 0, 0, 0, 0, false
	return true
}

// attach gives the stream a connection over which the other end has received and taken so many items.
func (s *Stream) attach(id uint64, out *outbox, received, taken uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.out, s.source = id, out, &streamSource{s}
	s.large = nil
	s.next = min(max(received, s.base), s.base+uint64(len(s.items)))
	if taken > s.base {
		_ = s.creditLocked(taken) // a mistake in it appears with the next credit
	}
	// The count in the hello or welcome may be old by now, and the other end would wait for ever for a credit that it
	// does not have.
	s.sendCredit(s.taken > 0)
	out.enqueue(s.source)
}

// state returns the state for hello and welcome.
func (s *Stream) state(id uint64) streamState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return streamState{ID: id, Received: s.received, Taken: s.taken}
}

// sent returns how many items were sent.
func (s *Stream) sent() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.base + uint64(len(s.items))
}

// has reports whether so many items have arrived.
func (s *Stream) has(n uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received >= n
}

// A streamSource is a stream as a source of one outbox. Once the outbox's connection is over the source is empty.
type streamSource struct{ s *Stream }

// fill writes small items together, and a large one in chunks.
func (w *streamSource) fill(b []byte) (frames, chunk []byte, more bool) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source != w {
		return b, nil, false
	}
	for {
		end := s.base + uint64(len(s.items))
		switch {
		case s.large != nil:
			b, chunk, more = s.large.fill(b)
			if !more {
				s.large = nil
				s.next++
			}
			return b, chunk, more || s.unwritten()
		case s.next < end:
			item := s.items[s.next-s.base]
			o := opening{&itemHeader{Number: s.next}, item}
			if !isSmall(item) {
				s.large = &transfer{typ: frameItem, more: frameItemData, id: s.id, opening: o}
				continue
			}
			b = appendFrame(b, frameItem, s.id, o, 0)
			s.next++
		case s.next == end && s.closed:
			b = appendFrame(b, frameItem, s.id, opening{&itemHeader{Number: s.next, End: true}, codec.Body{}}, 0)
			s.next++
		default:
			return b, nil, false
		}
		if len(b) >= maxSmall {
			return b, nil, s.unwritten()
		}
	}
}

func (s *Stream) unwritten() bool {
	end := s.base + uint64(len(s.items))
	return s.next < end || s.next == end && s.closed
}

// credit records that the other end has taken items.
func (s *Stream) credit(taken uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.creditLocked(taken)
}

func (s *Stream) creditLocked(taken uint64) error {
	if taken < s.base {
		return nil // of an earlier connection
	}
	if taken > s.base+uint64(len(s.items)) {
		return fmt.Errorf("%w: %d items were taken and %d sent", ErrProtocol, taken, s.base+uint64(len(s.items)))
	}
	for ; s.base < taken; s.base++ {
		s.bytes -= s.items[0].Size()
		s.items[0] = codec.Body{}
		s.items = s.items[1:]
	}
	s.next = max(s.next, s.base)
	wakeUp(s.space)
	return nil
}

var errOverrun = errors.New("more items than the window allows")

// admits reports an item that is larger than the other end may send now, before memory is used for it.
func (s *Stream) admits(item *arrivingItem) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := item.header; h.Number != s.received || h.End {
		return nil // deliver skips it, or reports the mistake
	}
	if len(s.queue) >= StreamItems || len(s.queue) > 0 && s.queued+item.size() > StreamBytes {
		return fmt.Errorf("%w: %w", ErrProtocol, errOverrun)
	}
	return nil
}

// deliver accepts an item from the other end. It skips one that was received over an earlier connection.
func (s *Stream) deliver(h itemHeader, item codec.Body) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := item.Size()
	switch {
	case h.Number < s.received || s.ended && h.End && h.Number == s.received:
		return nil
	case h.Number > s.received || s.ended:
		return fmt.Errorf("%w: item %d follows item %d", ErrProtocol, h.Number, s.received)
	case h.End:
		s.ended = true
	case len(s.queue) >= StreamItems || len(s.queue) > 0 && s.queued+size > StreamBytes:
		return fmt.Errorf("%w: %w", ErrProtocol, errOverrun)
	default:
		s.queue = append(s.queue, item)
		s.queued += size
		s.received++
	}
	wakeUp(s.came)
	return nil
}

// An arrivingItem is an item that is incomplete.
type arrivingItem struct {
	incoming
	header itemHeader
}

// parseItem reads the start of an item.
func parseItem(payload []byte, most int64) (*arrivingItem, error) {
	p := parser{b: payload}
	a := &arrivingItem{}
	a.header.parse(&p)
	return a, a.open(&p, most)
}
