package worker

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gputrain/gputrain/internal/codec"
)

// How far who sends the items of a stream may be ahead of who takes them. One
// item may always be on its way, however large it is.
const (
	StreamItems = 64
	StreamBytes = 4 << 20
)

// A Stream is one end of the items that go with a call, in both directions.
// Items are numbered, and kept until the other end has taken them: what a
// broken connection lost is sent again over the next one, and nothing twice.
//
// One goroutine at a time may send, and one receive.
type Stream struct {
	space chan struct{} // holds a token when there may be room to send
	came  chan struct{} // holds a token when there may be something to receive

	mu  sync.Mutex
	id  uint64
	out *outbox    // nil while there is no connection
	way *streamWay // to out

	// To the other end.
	items  []codec.Body // not taken there yet
	base   uint64       // the number of items[0]
	bytes  int          // in items
	closed bool         // there will be no more
	next   uint64       // the number of the next to write on this connection; the end has one too
	large  *transfer    // the one that is being written

	// From the other end.
	queue    []codec.Body // not taken yet
	queued   int          // bytes in queue
	received uint64
	taken    uint64
	told     uint64 // how many the other end knows to be taken
	untold   int    // bytes of those that it does not know of
	ended    bool
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

// Send adds an item. It waits while the other end is behind by more than the
// window, and reports false if stop ends that. The item's memory may not be
// changed afterwards.
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

// CloseSend says that there are no more items.
func (s *Stream) CloseSend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.write()
}

// write has what was added written, with s.mu held.
func (s *Stream) write() {
	if s.out != nil {
		s.out.enqueue(s.way)
	}
}

// Receive returns the next item. It is false after the last one, and when stop
// has ended while there was none.
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
			s.untold += size
			s.tell(s.taken-s.told >= StreamItems/4 || s.untold >= StreamBytes/4)
			s.mu.Unlock()
			return item, true
		}
		s.tell(s.told < s.taken) // or the other end might wait for this one, and this for it
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

// tell lets the other end know what was taken, with s.mu held.
func (s *Stream) tell(now bool) {
	if !now || s.out == nil {
		return
	}
	s.told, s.untold = s.taken, 0
	s.out.push(frameCredit, s.id, number(s.taken))
}

// Rewind prepares the stream for another attempt at its call, once the last
// one is over. It reports false, and does nothing, where items were taken at
// either end: then there can be no other attempt.
func (s *Stream) Rewind() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.base > 0 || s.taken > 0 {
		return false
	}
	s.out, s.way, s.next, s.large = nil, nil, 0, nil
	s.queue, s.queued, s.received, s.told, s.untold, s.ended = nil, 0, 0, 0, 0, false
	return true
}

// attach gives the stream a connection, on which the other end has received
// and taken so many items.
func (s *Stream) attach(id uint64, out *outbox, received, taken uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.id, s.out, s.way = id, out, &streamWay{s}
	s.large = nil
	s.next = min(max(received, s.base), s.base+uint64(len(s.items)))
	if taken > s.base {
		_ = s.creditLocked(taken) // what is wrong with it shows with the next one
	}
	// What hello or welcome has said of that may be old by now, and the other end
	// would wait for ever for what it does not know to be taken.
	s.tell(s.taken > 0)
	out.enqueue(s.way)
}

// state is for hello and welcome.
func (s *Stream) state(id uint64) streamState {
	s.mu.Lock()
	defer s.mu.Unlock()
	return streamState{ID: id, Received: s.received, Taken: s.taken}
}

// sent returns how many items there were.
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

// A streamWay is what a stream is for one outbox. The writer of a connection
// that is over may still come to ask: it gets nothing.
type streamWay struct{ s *Stream }

// fill writes what there is to write: small items together, a large one in
// chunks.
func (w *streamWay) fill(b []byte) (frames, chunk []byte, more bool) {
	s := w.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.way != w {
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

// credit notes that the other end has taken items.
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

// admits reports an item that is larger than the other end may send now, before memory
// is used for it.
func (s *Stream) admits(item *arrivingItem) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := item.header; h.Number != s.received || h.End {
		return nil // passed over, or a mistake that deliver tells
	}
	if len(s.queue) >= StreamItems || len(s.queue) > 0 && s.queued+item.size() > StreamBytes {
		return fmt.Errorf("%w: %w", ErrProtocol, errOverrun)
	}
	return nil
}

// deliver takes an item from the other end. One that was received over an
// earlier connection is passed over.
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

// An arrivingItem is one that is not whole yet.
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
