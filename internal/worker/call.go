package worker

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// A Request is one call of a function.
type Request struct {
	// ID identifies the call for as long as the worker may know of it. Zero
	// means an id of the client's choice.
	ID uint64
	// Function is the function's name.
	Function string
	// Meta is what the function finds in its context.
	Meta Meta
	// Arg is the encoded argument. It is not copied, may be shared by calls,
	// and must not be changed again, also not after the call.
	Arg []byte
	// Timeout is how long the function may run, counted from its start on the
	// node. Zero means that there is no limit.
	Timeout time.Duration
}

// Call runs a function on the node and returns its result.
//
// A function that failed is a [*RemoteError]. [ErrWorkerLost] means that the
// worker's process ended while the function may have run; nothing else leaves
// that open. A broken stream is no error: the call goes on.
//
// When ctx ends, the function's context is cancelled and Call waits for it to
// return, for the client's grace at most. A result that it returns in spite
// of that is Call's result. Otherwise the error is that of ctx; it is
// [ErrAbandoned] too where the function had not returned: it may run on, and
// what it returns is dropped.
//
// After Timeout the function's context ends on the node, with the same grace.
// The error is what the function returns then, with TimedOut set; for a
// function that returns the context's error it is context.DeadlineExceeded.
func (c *Client) Call(ctx context.Context, r Request) ([]byte, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("function %s was not called: %w", r.Function, err)
	}
	call, err := c.start(r)
	if err != nil {
		return nil, err
	}
	return c.wait(ctx, call)
}

// Collect waits for a call that an earlier client made and that [Hello] named,
// as [Client.Call] waits. Each can be collected once; it is [ErrUnknownCall] if
// the worker did not have it.
func (c *Client) Collect(ctx context.Context, id uint64) ([]byte, error) {
	c.mu.Lock()
	call, ok := c.earlier[id]
	delete(c.earlier, id)
	c.mu.Unlock()
	if !ok {
		return nil, fmt.Errorf("%w: %d", ErrUnknownCall, id)
	}
	return c.wait(ctx, call)
}

// A call is one that the client waits for.
type call struct {
	id       uint64
	function string
	header   []byte // nil for one of an earlier client
	arg      []byte

	done   chan struct{}
	result []byte
	err    error

	// Guarded by the client.
	cancelled bool
	sentTo    *outbox
	message   *message
}

// finish sets how the call ended, once, with the client's lock held. Whoever
// finishes a call takes it out of the client's.
func (c *call) finish(result []byte, err error) {
	c.result, c.err = result, err
	close(c.done)
}

// send puts the call on a link.
func (c *call) send(l *link) {
	c.message = &message{typ: frameCall, id: c.id, opening: c.header, body: c.arg}
	c.sentTo = l.out
	l.out.push(c.message)
}

// mayRun reports whether a worker may have begun the call. One that it may not
// have begun is taken off its way.
func (c *call) mayRun() bool {
	return c.header == nil || c.message != nil && c.sentTo.drop(c.message)
}

func (c *Client) start(r Request) (*call, error) {
	call := &call{
		id: r.ID, function: r.Function, arg: r.Arg, done: make(chan struct{}),
		header: opening(callHeader{Function: r.Function, Size: uint64(len(r.Arg)), Timeout: r.Timeout, Grace: c.hello.Grace, Meta: r.Meta}),
	}
	if len(call.header) > maxPayload-chunkSize {
		return nil, fmt.Errorf("worker: the facts about the pool that go with a call are %d bytes, more than %d", len(call.header), maxPayload-chunkSize)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	if !c.has[r.Function] {
		return nil, fmt.Errorf("%w: %q; %s", ErrUnknownFunction, r.Function, list(c.node.Functions))
	}
	if call.id == 0 {
		c.lastID++
		call.id = c.idBase + c.lastID
	}
	if c.calls[call.id] != nil {
		return nil, fmt.Errorf("worker: the call %d is open already", call.id)
	}
	c.calls[call.id] = call
	if c.link != nil {
		call.send(c.link)
	}
	return call, nil
}

func (c *Client) wait(ctx context.Context, call *call) ([]byte, error) {
	select {
	case <-call.done:
		return call.outcome()
	case <-ctx.Done():
	}
	c.cancel(call)
	grace := time.NewTimer(c.hello.Grace)
	defer grace.Stop()
	select {
	case <-call.done:
	case <-grace.C:
		c.abandon(call)
	}
	result, err := call.outcome()
	if err == nil || errors.Is(err, ctx.Err()) {
		return result, err
	}
	if errors.Is(err, context.Canceled) {
		// That is how the end of a deadline here looks there.
		return nil, fmt.Errorf("function %s: %w", call.function, ctx.Err())
	}
	return nil, fmt.Errorf("function %s: %w: %w", call.function, ctx.Err(), err)
}

func (c *call) outcome() ([]byte, error) { return c.result, c.err }

// cancel ends the function's context, or keeps the call from being sent.
func (c *Client) cancel(call *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.id] != call || call.cancelled {
		return
	}
	call.cancelled = true
	if !call.mayRun() {
		call.finish(nil, fmt.Errorf("function %s was not called: %w", call.function, context.Canceled))
		delete(c.calls, call.id)
	} else if c.link != nil {
		c.link.out.push(&message{typ: frameCancel, id: call.id})
	}
}

// abandon stops waiting for a call. The daemon forgets it at once, or at the
// next hello, which does not name it.
func (c *Client) abandon(call *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.id] != call {
		return // it ended just now
	}
	call.finish(nil, ErrAbandoned)
	delete(c.calls, call.id)
	if c.link != nil {
		c.link.out.push(&message{typ: frameAck, id: call.id})
	}
}
