package output

import (
	"context"
	"sync"
)

// Events passes events to a function, one at a time and in order. Emitting one never blocks: if the function is too
// slow, events wait, within the bounds of a [Backlog].
type Events[E any] struct {
	deliver func(E)

	mu     sync.Mutex
	queue  *eventQueue[E]
	closed bool
	busy   bool            // an event waits, or is being delivered
	quiet  []chan struct{} // closed once that is not so
	wake   chan struct{}   // has a value, or is closed, if the queue may have an event
	done   chan struct{}   // closed after the last delivery
}

// NewEvents starts the delivery, which goes on until Close. No lock is held while deliver is called.
func NewEvents[E any](b Backlog[E], deliver func(E)) *Events[E] {
	e := &Events[E]{deliver: deliver, queue: newEventQueue(b), wake: make(chan struct{}, 1), done: make(chan struct{})}
	go e.run()
	return e
}

// Emit queues an event. After Close it does nothing.
func (e *Events[E]) Emit(ev E) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.queue.push(ev)
	e.busy = true
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Sync returns once every event was delivered that was emitted before, or when ctx ends. The function itself must not wait for it.
func (e *Events[E]) Sync(ctx context.Context) error {
	e.mu.Lock()
	if !e.busy {
		e.mu.Unlock()
		return nil
	}
	quiet := make(chan struct{})
	e.quiet = append(e.quiet, quiet)
	e.mu.Unlock()
	select {
	case <-quiet:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Close returns when every event was delivered. It may be called again.
func (e *Events[E]) Close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.wake)
	}
	e.mu.Unlock()
	<-e.done
}

func (e *Events[E]) run() {
	defer close(e.done)
	for range e.wake {
		e.drain()
	}
	e.drain()
}

func (e *Events[E]) drain() {
	for {
		e.mu.Lock()
		ev, ok := e.queue.pop()
		if !ok {
			e.busy = false
			for _, c := range e.quiet {
				close(c)
			}
			e.quiet = nil
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		e.deliver(ev)
	}
}
