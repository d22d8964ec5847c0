package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/cutoff"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/steps"
)

// A Request is one call of a function.
type Request struct {
	// ID identifies the call for as long as the worker may know it. Zero makes the client choose one.
	ID uint64
	// Function is the function's name.
	Function string
	// Members are the nodes of the call, and Place is the call's place among them.
	Members *Members
	Place   Place
	// Arg is the encoded argument. It is not copied, calls may share it, and it must not be changed before the call is
	// over.
	Arg codec.Body
	// Stream carries items both ways during the call. Nil means none.
	Stream *Stream
	// Scratch makes the worker create the call's scratch directory before the function runs, even if the function does
	// not ask for it.
	Scratch bool
	// Timeout bounds how long the function runs, counted from its start on the node. Zero means no limit.
	Timeout time.Duration
	// Stats, unless nil, is set before Call returns if the node has answered.
	Stats *Stats
	// Step, unless nil, is called with the steps that the function reports, the last one before Call returns. It must not
	// block.
	Step func(steps.Step)
}

// Stats are the node's report of an ended call. They are not checked, except that no number is negative.
type Stats struct {
	// Answered is false if the call ended without an answer; the other fields are then zero.
	Answered bool
	// Elapsed is how long the function ran.
	Elapsed time.Duration
	// Printed is the process's output count when the function ended. It includes what the function itself printed.
	Printed Printed
}

// Call runs a function on the node and returns its result.
//
// A function that failed is a [*RemoteError]. [ErrWorkerLost] means that the worker's process ended while the function
// may have run; no other error leaves that open. A broken stream is no error: the call goes on.
//
// When ctx ends, the function's context is cancelled and Call waits for the function to return, for the client's grace
// at most, or for what the cause of that end says: see cutoff.Grace. If the function then returns a result, that is
// Call's result. Otherwise the error is that of ctx, and also [ErrAbandoned] if the function had not returned: it may
// run on, and its result is dropped.
//
// After Timeout the function's context ends on the node, with the same grace. The error is then what the function
// returns, with TimedOut set; if the function returns the context's error, or a result, which is dropped, it is
// context.DeadlineExceeded. A node that
// has not answered overdue.Grace after that does not keep the limit: the error is then [ErrOverdue]. A result or an
// item of more than Hello.ResultBytes is [ErrTooLarge].
func (c *Client) Call(ctx context.Context, r Request) (codec.Body, error) {
	call, err := c.begin(ctx, r, false)
	if err != nil {
		return codec.Body{}, err
	}
	return c.wait(ctx, call)
}

// Hold is Call, but the node keeps the ended call, with its result or failure and its scratch directory, until release
// is called: if this client is killed before that, a client with [Hello.Adopt] finds the call there. release is never
// nil. It costs no more than the acknowledgement of Call.
func (c *Client) Hold(ctx context.Context, r Request) (result codec.Body, release func(), err error) {
	call, err := c.begin(ctx, r, true)
	if err != nil {
		return codec.Body{}, func() {}, err
	}
	result, err = c.wait(ctx, call)
	return result, func() { c.release(call.ID) }, err
}

func (c *Client) begin(ctx context.Context, r Request, hold bool) (*call, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("function %s was not called: %w", r.Function, err)
	}
	return c.start(r, hold)
}

// release makes the daemon forget a held call.
func (c *Client) release(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	large, held := c.held[id]
	if !held {
		return
	}
	delete(c.held, id)
	if c.link != nil {
		c.link.acknowledge(id, large)
	}
}

// A call is a call that the client waits for.
type call struct {
	Request
	adopted *HeldCall // nil if this client made it
	hold    bool      // the daemon keeps it after its end

	done   chan struct{}
	result codec.Body
	err    error

	// The fields below are guarded by the client.
	cancelled bool
	why       error           // it was cancelled
	quiet     bool            // adopted and not collected: the daemon does not send the result
	pending   *arrivingResult // a result whose stream has items missing
	members   uint64          // the id of Members on the link that the call is sent to
	sentTo    *outbox         // nil if it was not sent
	batch     uint64          // the batch in sentTo
	large     *transfer       // if the argument is large
	sends     int             // how often the call was sent

	clock *overdue.Clock // nil without a Timeout
}

// finish records how the call ended, once, with the client's lock held. The caller removes the call from the client's.
func (c *call) finish(result codec.Body, err error) {
	c.result, c.err = result, err
	close(c.done)
}

// send puts the call on a link. The caller then calls kick to write it.
func (c *call) send(l *link) {
	c.members = l.sendMembers(c.Members)
	c.sentTo, c.large = l.out, nil
	var moved func()
	if c.sends++; c.clock != nil && c.sends < mostSends {
		c.clock.Restart()
		moved = c.clock.Restart
	}
	body := opening{c, c.Arg}
	if isSmall(c.Arg) {
		c.batch = l.out.add(frameCall, c.ID, body)
		c.attach(l.out)
		return
	}
	c.large = &transfer{typ: frameCall, more: frameData, id: c.ID, opening: body, moved: moved, done: func() {
		select {
		case <-c.done: // the stream may belong to another attempt by now
		default:
			c.attach(l.out)
		}
	}}
	l.out.enqueue(c.large)
}

// mostSends bounds how often a call's time limit restarts, for a connection that is cut each time before the call was
// received.
const mostSends = 8

// attach connects the stream once the call is being sent.
func (c *call) attach(out *outbox) {
	if c.Stream != nil {
		c.Stream.attach(c.ID, out, 0, 0)
	}
}

// appendTo writes the call's header.
func (c *call) appendTo(b []byte) []byte {
	h := callHeader{Function: c.Function, Timeout: c.Timeout, Members: c.members, Place: c.Place}
	if c.Stream != nil {
		h.Flags |= flagStream
	}
	if c.Scratch {
		h.Flags |= flagScratch
	}
	return h.appendTo(b)
}

// mayRun reports whether a worker may have started the call.
func (c *call) mayRun() bool {
	switch {
	case c.adopted != nil:
		return true
	case c.sentTo == nil:
		return false
	case c.large != nil:
		return c.sentTo.drop(c.large)
	}
	return c.sentTo.took(c.batch)
}

// sendMembers returns the id of a membership on this link, and sends the membership if the other side does not have it.
func (l *link) sendMembers(m *Members) uint64 {
	if m == nil {
		return 0
	}
	key, known := l.members[m.key]
	if !known {
		if l.members == nil {
			l.members = map[string]uint64{}
		}
		key = uint64(len(l.members) + 1)
		l.members[m.key] = key
		l.out.add(frameMembers, key, raw(encodeWire(m.addrs)))
	}
	return key
}

// With up to fewCalls open calls each is written as soon as it is made. With more, they are written together.
const fewCalls = 2

func (c *Client) start(r Request, hold bool) (*call, error) {
	if err := checkLayout(r.Arg); err != nil {
		return nil, err
	}
	call := &call{Request: r, hold: hold, done: make(chan struct{}), clock: c.hello.clock(r.Timeout)}
	c.mu.Lock()
	if err := c.startLocked(call); err != nil {
		c.mu.Unlock()
		call.clock.Stop()
		return nil, err
	}
	l, few := c.link, len(c.calls) <= fewCalls
	c.mu.Unlock()
	if l != nil {
		l.out.kick(few)
	}
	return call, nil
}

func (c *Client) startLocked(call *call) error {
	if c.err != nil {
		return c.err
	}
	if !c.has[call.Function] {
		return fmt.Errorf("%w: %q; %s", ErrUnknownFunction, call.Function, list(c.node.Functions))
	}
	if call.ID == 0 {
		c.lastID++
		call.ID = c.idBase + c.lastID
	}
	if _, held := c.held[call.ID]; held || c.calls[call.ID] != nil {
		return fmt.Errorf("the call %d is open already", call.ID)
	}
	c.calls[call.ID] = call
	if c.link != nil {
		call.send(c.link)
	}
	return nil
}

// clock returns the client's clock for a call's Timeout, or nil if the call has none.
func (h *Hello) clock(timeout time.Duration) *overdue.Clock {
	if timeout <= 0 {
		return nil
	}
	return overdue.New(timeout+h.Grace, overdue.Grace, h.Reachable)
}

// wait waits until a call has ended. When ctx ends it cancels the call.
func (c *Client) wait(ctx context.Context, call *call) (codec.Body, error) {
	defer call.clock.Stop()
	for waiting := true; waiting; {
		select {
		case <-call.done:
			return call.outcome()
		case <-call.clock.Due():
			if call.clock.Over() {
				c.abandon(call, fmt.Errorf("function %s: %w: it has not answered", call.Function, ErrOverdue))
				return call.outcome()
			}
		case <-ctx.Done():
			waiting = false
		}
	}
	c.cancel(call, context.Cause(ctx))
	grace := time.NewTimer(cutoff.Grace(ctx, c.hello.Grace))
	defer grace.Stop()
	select {
	case <-call.done:
	case <-grace.C:
		c.abandon(call, ErrAbandoned)
	}
	result, err := call.outcome()
	if err == nil || errors.Is(err, ctx.Err()) {
		return result, err
	}
	if errors.Is(err, context.Canceled) {
		// A deadline that ends here looks like this on the node.
		return codec.Body{}, fmt.Errorf("function %s: %w", call.Function, ctx.Err())
	}
	return codec.Body{}, fmt.Errorf("function %s: %w: %w", call.Function, ctx.Err(), err)
}

func (c *call) outcome() (codec.Body, error) { return c.result, c.err }

// cancel ends the function's context, or withholds the call if it was not sent.
func (c *Client) cancel(call *call, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.ID] != call || call.cancelled {
		return
	}
	call.cancelled, call.why = true, why
	switch {
	case (c.link == nil || call.large != nil) && !call.mayRun():
		call.finish(codec.Body{}, fmt.Errorf("function %s was not called: %w", call.Function, context.Canceled))
		delete(c.calls, call.ID)
	case c.link != nil:
		if call.large != nil {
			call.sentTo.drop(call.large) // the daemon answers for what it has received
		}
		c.link.out.push(frameCancel, call.ID, markOf(why))
	}
}

// abandon stops waiting for a call. The daemon forgets it at once, or at the next hello, which does not list it.
func (c *Client) abandon(call *call, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.ID] != call {
		return // it ended just now
	}
	c.giveUp(call, why)
}

// giveUp ends a call that the daemon may still answer, and makes the daemon forget it. c.mu is held.
func (c *Client) giveUp(call *call, why error) {
	call.finish(codec.Body{}, why)
	delete(c.calls, call.ID)
	c.gone.add(call.ID)
	if c.link != nil {
		c.link.out.push(frameAck, call.ID, nil)
	}
}
