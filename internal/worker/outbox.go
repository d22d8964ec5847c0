package worker

import (
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// An outbox is what is to be written to a stream. Adding to it never blocks;
// its size is bounded by the calls that are open, whose arguments and results
// it refers to. Small frames go out together and first, then a chunk of each
// source in turn.
//
// A goroutine of its own writes. Where nothing else is going on, whoever has
// added a frame writes it by itself, which saves the way through the
// scheduler.
type outbox struct {
	w      io.Writer
	wake   chan struct{} // holds a token when there is something to do
	trust  atomic.Int64  // bytes that may be written by others than run
	timely *time.Timer   // for what is lazy

	mu      sync.Mutex
	buf     []byte // small frames
	spare   []byte
	batch   uint64 // counts the bufs that were taken for writing
	lazy    int    // frames in buf that can wait for company
	bulk    []source
	current source // what is being written from
	dropped bool   // current is not wanted any more
	writing bool
	ending  bool // write what is there, then end
	err     error
}

// A source has more to write than goes out at once.
type source interface {
	// fill adds frames to b, and may return a chunk to be written after them.
	// more is whether there is more to write. One goroutine at a time calls it.
	fill(b []byte) (frames, chunk []byte, more bool)
}

const (
	// maxLazy is how many frames wait for company, and lazyWait for how long.
	maxLazy  = 64
	lazyWait = 50 * time.Millisecond
	// maxTrust is how much is written inline without a word from the other side.
	// So much fits into the buffers of every pipe and socket: such a write does
	// not block, also where the network is gone.
	maxTrust = 16 << 10
	// maxSpare bounds the buffers that are kept.
	maxSpare = 1 << 20
)

// newOutbox returns one to which nothing is written before run.
func newOutbox(w io.Writer) *outbox {
	o := &outbox{w: w, wake: make(chan struct{}, 1), writing: true}
	o.timely = time.AfterFunc(time.Hour, o.signal)
	o.timely.Stop()
	o.trust.Store(maxTrust)
	return o
}

// heard notes that the other side reads and answers.
func (o *outbox) heard() { o.trust.Store(maxTrust) }

// add adds a small frame, to be followed by kick. It returns the frame's
// batch: see took.
func (o *outbox) add(typ frameType, id uint64, p payload) (batch uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.ending {
		o.buf = appendFrame(o.buf, typ, id, p, 0)
	}
	return o.batch
}

// push adds a small frame and has it written.
func (o *outbox) push(typ frameType, id uint64, p payload) {
	o.add(typ, id, p)
	o.signal()
}

// pushLazy adds a small frame that is in no hurry: it goes out with the next
// one that is, or with others of its kind, or soon.
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

// kick has what was added written: by this goroutine, if that is wanted and
// nothing else goes on.
func (o *outbox) kick(inline bool) {
	o.mu.Lock()
	n := len(o.buf)
	switch {
	case o.writing || n == 0 || o.err != nil: // who writes looks again
		o.mu.Unlock()
		return
	case !inline || len(o.bulk) > 0 || o.ending || o.trust.Add(int64(-n)) < 0:
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

// drop takes out what is left of a transfer and reports whether any of it may
// have been written.
func (o *outbox) drop(t *transfer) (started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.bulk = slices.DeleteFunc(o.bulk, func(s source) bool { return s == source(t) })
	if o.current == source(t) {
		o.dropped = true
	}
	return t.started
}

// end makes a frame the last one, or nothing if typ is 0: what waits is
// dropped, and run returns once it is written.
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

// run writes the preamble, and then what is added until the outbox ends or
// writing fails.
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
		return false, nil // it will wake run if there is more
	}
	o.writing = true
	defer func() { o.writing = false }()
	for waited := false; o.err == nil; {
		switch {
		case len(o.buf) == 0 && len(o.bulk) == 0:
			return o.ending, nil
		case !waited && len(o.bulk) == 0 && len(o.buf) < maxSmall:
			// Others may be about to add what could go out in the same write.
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

// writeLocked writes the small frames that are there and what the first source
// has, which goes to the back of the line until it is done. It lets go of o.mu
// meanwhile.
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
