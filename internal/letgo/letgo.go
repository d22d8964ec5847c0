// Package letgo lets callers go that have given up, while what they have begun goes on to its end.
package letgo

import (
	"context"
	"time"
)

// Patience is how long after the end of its context a caller waits for what ends at once, as it does on nodes that answer.
const Patience = 500 * time.Millisecond

// A Caller waits for others, until its context has ended for Patience. The zero value waits until they are over. One goroutine at a
// time uses it.
type Caller struct {
	ctx  context.Context
	over <-chan time.Time // fires Patience after the end of ctx; nil before
	gone bool
	had  map[int]bool // what was received, by index
}

// New returns a caller with a context of its own.
func New(ctx context.Context) Caller { return Caller{ctx: ctx} }

// Stay has the caller wait until all is over.
func (c *Caller) Stay() { c.ctx = nil }

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
			c.over = time.After(Patience)
		case <-c.over:
			c.gone = true
		}
	}
	return v, false
}
