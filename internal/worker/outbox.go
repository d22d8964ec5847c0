package worker

import (
	"bufio"
	"io"
	"runtime"
	"slices"
	"sync"
)

// An outbox is what is to be written to a stream. Adding to it never blocks;
// its size is bounded by the calls that are open, whose arguments and results
// it refers to. One goroutine writes: small messages first, then a chunk of
// each large one in turn, and flushes when there is nothing more to write.
type outbox struct {
	mu     sync.Mutex
	small  []*message
	bulk   []*message
	lazy   int  // messages in small that can wait for company
	ending bool // write what is there, then end

	wake chan struct{} // holds a token when there is something to do
}

// maxLazy is how many messages wait for company.
const maxLazy = 64

func newOutbox() *outbox { return &outbox{wake: make(chan struct{}, 1)} }

// push adds a message.
func (o *outbox) push(m *message) {
	o.mu.Lock()
	switch {
	case o.ending:
	case m.bulk():
		o.bulk = append(o.bulk, m)
	default:
		o.small = append(o.small, m)
	}
	o.mu.Unlock()
	o.signal()
}

// pushLazy adds a small message that is in no hurry: it goes out with the
// next one that is, or with others of its kind.
func (o *outbox) pushLazy(m *message) {
	o.mu.Lock()
	if !o.ending {
		o.small = append(o.small, m)
		o.lazy++
	}
	now := o.lazy >= maxLazy
	o.mu.Unlock()
	if now {
		o.signal()
	}
}

// drop takes out what is left of a message and reports whether any of it may
// have been written.
func (o *outbox) drop(m *message) (started bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	is := func(other *message) bool { return other == m }
	o.small = slices.DeleteFunc(o.small, is)
	o.bulk = slices.DeleteFunc(o.bulk, is)
	return m.started
}

// end makes m the last message: what waits is dropped, and run returns once m
// is written.
func (o *outbox) end(m *message) {
	o.mu.Lock()
	o.small, o.bulk, o.ending = nil, nil, true
	if m != nil {
		o.small = []*message{m}
	}
	o.mu.Unlock()
	o.signal()
}

func (o *outbox) signal() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take returns all small messages and one large one, which goes to the back
// of the line until it is done.
func (o *outbox) take(spare []*message) (small []*message, large *message, ending bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	small, o.small, o.lazy = o.small, spare[:0], 0
	for _, m := range small {
		m.started = true
	}
	if len(o.bulk) > 0 {
		large = o.bulk[0]
		large.started = true
		copy(o.bulk, o.bulk[1:])
		o.bulk[len(o.bulk)-1] = large
	}
	return small, large, o.ending
}

// run writes until the outbox ends or writing fails.
func (o *outbox) run(w io.Writer) error {
	bw := bufio.NewWriterSize(w, 64<<10)
	var spare []*message
	yielded := false
	for {
		small, large, ending := o.take(spare)
		for _, m := range small {
			if _, err := m.writeNext(bw); err != nil {
				return err
			}
		}
		if large != nil {
			done, err := large.writeNext(bw)
			if err != nil {
				return err
			}
			if done {
				o.drop(large)
			}
		}
		idle := len(small) == 0 && large == nil
		clear(small) // or it would keep arguments and results
		spare = small
		switch {
		case !idle:
			yielded = false
		case ending:
			return bw.Flush()
		case !yielded && bw.Buffered() > 0:
			// Others may be about to add what could go out in the same write.
			runtime.Gosched()
			yielded = true
		default:
			if err := bw.Flush(); err != nil {
				return err
			}
			<-o.wake
			yielded = false
		}
	}
}
