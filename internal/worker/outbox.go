package worker

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An outbox holds what is to be written to a stream. Adding to it never blocks. The open calls, to whose arguments and
// results it refers, bound its size. Small frames are written together and first, then a chunk of each source in turn.
//
// A goroutine writes. If it is idle, the goroutine that adds a frame writes it directly, which saves a switch of
// goroutines.
type outbox struct {
	w          io.Writer
	wake       chan struct{} // holds a token when there is something to do
	inlineLeft atomic.Int64  // bytes that may still be written by goroutines other than run's
	timely     *time.Timer   // flushes lazy frames

	mu      sync.Mutex
	buf     []byte // small frames
	spare   []byte
	batch   uint64 // counts the bufs that were taken for writing
	lazy    int    // frames in buf that can wait for others
	bulk    []source
	current source // the source that is being written
	dropped bool   // current was dropped
	writing bool
	ending  bool // write what is buffered, then end
	err     error
}

// A source has more data than fits into one write.
type source interface {
	// fill adds frames to b, and may return a chunk to be written after them. more reports whether the source has more
	// to write. One goroutine at a time calls it.
	fill(b []byte) (frames, chunk []byte, more bool)
}

const (
	// Up to maxLazy lazy frames wait, for lazyWait at most, to be written with others.
	maxLazy  = 64
	lazyWait = 50 * time.Millisecond
	// Goroutines other than run's write maxInline bytes at most before the other side answers. This much fits into the
	// buffers of every pipe and socket, so such a write does not block, even on a dead network.
	maxInline = 16 << 10
	// maxSpare bounds the buffers that are kept.
	maxSpare = 1 << 20
)

// newOutbox returns an outbox that writes nothing before run.
func newOutbox(w io.Writer) *outbox {
	o := &outbox{w: w, wake: make(chan struct{}, 1), writing: true}
	o.timely = time.AfterFunc(time.Hour, o.signal)
	o.timely.Stop()
	o.inlineLeft.Store(maxInline)
	return o
}

// heard records that the other side reads and answers.
func (o *outbox) heard() { o.inlineLeft.Store(maxInline) }

// add adds a small frame, to be followed by kick. It returns the frame's batch, for took.
func (o *outbox) add(typ frameType, id uint64, p payload) (batch uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ending {
		o.buf = appendFrame(o.buf, typ, id, p, 0)
	}
	return o.batch
}

// push adds a small frame and makes the outbox write it.
func (o *outbox) push(typ frameType, id uint64, p payload) {
	o.add(typ, id, p)
	o.signal()
}

// pushLazy adds a small frame that is not urgent: it is written with the next urgent frame, with maxLazy of its kind,
// or after lazyWait.
func (o *outbox) pushLazy(typ frameType, id uint64, p payload) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ending {
		return
	}
	o.buf = appendFrame(o.buf, typ, id, p, 0)
	if o.lazy++; o.lazy == 1 {
		o.timely.Reset(lazyWait)
	} else if o.lazy == maxLazy {
		o.signal()
	}
}

// enqueue adds a source, unless it is there.
func (o *outbox) enqueue(s source) {
	o.mu.Lock()
	if !o.ending && !slices.Contains(o.bulk, s) {
		o.bulk = append(o.bulk, s)
	}
	o.mu.Unlock()
	o.signal()
}

// kick makes the outbox write what was added: in this goroutine, if inline is set and the outbox is idle.
func (o *outbox) kick(inline bool) {
	o.mu.Lock()
	n := len(o.buf)
	switch {
	case o.writing || n == 0 || o.err != nil: // the writing goroutine looks again
		o.mu.Unlock()
		return
	case !inline || len(o.bulk) > 0 || o.ending || o.inlineLeft.Add(int64(-n)) < 0:
		o.mu.Unlock()
		o.signal()
		return
	}
	o.writing = true
	o.writeLocked()
	o.writing = false
	more := len(o.buf) > 0 || len(o.bulk) > 0 || o.ending || o.err != nil
	o.mu.Unlock()
	if more {
		o.signal()
	}
}

// took reports whether any frame of a batch may have been written.
func (o *outbox) took(batch uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return batch < o.batch
}

// drop removes what is left of a transfer and reports whether any of it may have been written.
func (o *outbox) drop(t *transfer) (started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bulk = slices.DeleteFunc(o.bulk, func(s source) bool { return s == source(t) })
	if o.current == source(t) {
		o.dropped = true
	}
	return t.started
}

// end makes a frame the last one, or ends without one if typ is 0: what waits is dropped, and run returns once the
// frame is written.
func (o *outbox) end(typ frameType, p payload) {
	o.mu.Lock()
	o.buf, o.bulk, o.dropped, o.ending = nil, nil, true, true
	if typ != 0 {
		o.buf = appendFrame(nil, typ, 0, p, 0)
	}
	o.timely.Stop()
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// run writes the preamble, and then everything that is added, until the outbox ends or writing fails.
func (o *outbox) run(preamble string) error {
	if preamble != "" {
		if _, err := io.WriteString(o.w, preamble); err != nil {
			return err
		}
	}
	o.mu.Lock()
	o.writing = false
	o.mu.Unlock()
	o.signal()
	for range o.wake {
		if over, err := o.drain(); over || err != nil {
			return err
		}
	}
	return nil
}

// drain writes until there is nothing more to write.
func (o *outbox) drain() (over bool, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.writing {
		return false, nil // that goroutine wakes run if there is more
	}
	o.writing = true
	defer func() { o.writing = false }()
	for waited := false; o.err == nil; {
		switch {
		case len(o.buf) == 0 && len(o.bulk) == 0:
			return o.ending, nil
		case !waited && len(o.bulk) == 0 && len(o.buf) < maxSmall:
			// Other goroutines may be about to add frames that fit into the same write.
			o.mu.Unlock()
			runtime.Gosched()
			o.mu.Lock()
			waited = true
		default:
			o.writeLocked()
			waited = false
		}
	}
	return true, o.err
}

// writeLocked writes the buffered small frames and data of the first source, which then moves to the end of the queue.
// It unlocks o.mu while it writes.
func (o *outbox) writeLocked() {
	buf := o.buf
	o.buf, o.spare, o.lazy = o.spare[:0], nil, 0
	o.batch++
	var from source
	if len(o.bulk) > 0 {
		from = o.bulk[0]
		o.bulk = slices.Delete(o.bulk, 0, 1)
		if t, ok := from.(*transfer); ok {
			t.started = true
		}
	}
	o.current, o.dropped = from, false
	o.mu.Unlock()

	var chunk []byte
	more := false
	if from != nil {
		buf, chunk, more = from.fill(buf)
	}
	var err error
	if len(buf) > 0 {
		_, err = o.w.Write(buf)
	}
	if err == nil && len(chunk) > 0 {
		_, err = o.w.Write(chunk)
	}
	if t, ok := from.(*transfer); ok && err == nil && !more && t.done != nil {
		t.done()
	}

	o.mu.Lock()
	o.current = nil
	if cap(buf) <= maxSpare {
		o.spare = buf
	}
	if err != nil {
		o.err = err
	} else if more && !o.dropped && !o.ending && !slices.Contains(o.bulk, from) {
		o.bulk = append(o.bulk, from)
	}
}
