// Package letgo lets callers go that have given up, while what they have begun goes on to its end.
package letgo

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// Patience is how long after the end of its context a caller waits for what ends at once, as it does on nodes that answer.
	Patience = 500 * time.Millisecond
	// Longest is how long it waits at most, for what ends soon, while all nodes answer.
	Longest = 3 * time.Second
)

// A Caller waits for others, until its context has ended for Patience. The zero value waits until they are over. One goroutine at a
// time uses it.
type Caller struct {
	ctx     context.Context
	answers func(context.Context) bool
	over    <-chan time.Time // fires Patience after the end of ctx, and again while nodes answer; nil before
	last    time.Time        // when it waits no longer, whatever answers
	heard   *atomic.Bool     // set once there is an answer, within this Patience
	gone    bool
	had     map[int]bool // what was received, by index
}

// New returns a caller with a context of its own. Without an end of that it never gives up.
func New(ctx context.Context) Caller {
	if ctx.Done() == nil {
		ctx = nil
	}
	return Caller{ctx: ctx}
}

// Stay has the caller wait until all is over.
func (c *Caller) Stay() { c.ctx = nil }

// While has the caller wait for Longest, as long as what it waits for answers: answers is called in each Patience, whose end is that of
// its context. It returns soon after that.
func (c *Caller) While(answers func(context.Context) bool) { c.answers = answers }

// Stays reports whether the caller waits until all is over, whatever happens.
func (c *Caller) Stays() bool { return c.ctx == nil }

// Gone reports whether the caller has given up.
func (c *Caller) Gone() bool { return c.gone }

// Next receives the next of several values, of which each has an index from 0 on. Once the caller has given up there is none, and
// missing is the first index of which there was none; otherwise it is -1.
func Next[T any](c *Caller, from <-chan T, index func(T) int) (v T, missing int) {
	if c.ctx == nil {
		return <-from, -1
	}
	if c.had == nil {
		c.had = map[int]bool{}
	}
	if v, ok := receive(c, from); ok {
		c.had[index(v)] = true
		return v, -1
	}
	for c.had[missing] {
		missing++
	}
	c.had[missing] = true
	return v, missing
}

// Do runs f by start, which is to run it in a goroutine, and returns what it returns. ok is false if the caller has given up before.
func Do[T any](c *Caller, start func(func()), f func() T) (v T, ok bool) {
	if c.ctx == nil {
		return f(), true
	}
	done := make(chan T, 1)
	start(func() { done <- f() })
	return receive(c, done)
}

// Over returns a channel that is closed once over is, or the caller has given up. It runs a goroutine by start, and until the channel
// is closed nothing else uses the caller.
func Over(c *Caller, start func(func()), over <-chan struct{}) <-chan struct{} {
	if c.ctx == nil {
		return over
	}
	either := make(chan struct{})
	start(func() {
		defer close(either)
		receive(c, over)
	})
	return either
}

func receive[T any](c *Caller, from <-chan T) (v T, ok bool) {
	for !c.gone {
		var ended <-chan struct{}
		if c.over == nil {
			ended = c.ctx.Done()
		}
		select {
		case v = <-from:
			return v, true
		case <-ended:
			c.last = time.Now().Add(Longest)
			c.listen()
		case <-c.over:
			if c.heard != nil && c.heard.Load() && time.Now().Before(c.last) {
				c.listen()
				continue
			}
			select {
			case v = <-from: // it came at the same moment
				return v, true
			default:
				c.gone = true
			}
		}
	}
	return v, false
}

// listen waits for an answer, for Patience.
func (c *Caller) listen() {
	c.over = time.After(Patience)
	if c.answers == nil {
		return
	}
	heard, answers := new(atomic.Bool), c.answers
	c.heard = heard
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.ctx), Patience)
	go func() { // it ends soon after its context
		defer cancel()
		heard.Store(answers(ctx))
	}()
}
