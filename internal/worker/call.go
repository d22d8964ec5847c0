package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/overdue"
)

// A Request is one call of a function.
type Request struct {
	// ID identifies the call for as long as the worker may know of it. Zero
	// means an id of the client's choice.
	ID uint64
	// Function is the function's name.
	Function string
	// Members are the nodes of the call, and Place the call's among them.
	Members *Members
	Place   Place
	// Arg is the encoded argument. It is not copied, may be shared by calls,
	// and must not be changed before the call is over.
	Arg codec.Body
	// Stream carries items both ways while the call goes on. Nil means none.
	Stream *Stream
	// Scratch has the call's scratch directory made before the function runs,
	// also where that does not ask for it.
	Scratch bool
	// Timeout is how long the function may run, counted from its start on the
	// node. Zero means that there is no limit.
	Timeout time.Duration
	// Stats, unless nil, is set before Call returns if the node has answered.
	Stats *Stats
}

// Stats are what the node says of a call that has ended. Nothing else is known of it:
// the node may say anything that is not negative.
type Stats struct {
	// Answered is false if the call ended otherwise, and the rest is zero then.
	Answered bool
	// Elapsed is how long the function ran.
	Elapsed time.Duration
	// Printed is how much the process had printed when the function ended. What
	// the function itself has printed is among it.
	Printed Printed
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
// A node that has not answered overdue.Grace after that does not keep the limit:
// the error is then [ErrOverdue]. A result or an item of more than Hello.ResultBytes
// is [ErrTooLarge].
func (c *Client) Call(ctx context.Context, r Request) (codec.Body, error) {
	call, err := c.begin(ctx, r, false)
	if err != nil {
		return codec.Body{}, err
	}
	return c.wait(ctx, call)
}

// Hold is Call, but the node keeps the call after its end, with its result or
// failure and its scratch directory, until release is called: should this client
// be killed before, one with [Hello.Adopt] finds it there. release is never nil.
// It costs what the acknowledgement of Call costs.
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

// release lets the daemon forget a call that was held.
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

// A call is one that the client waits for.
type call struct {
	Request
	adopted *HeldCall // nil where it is this client's own
	hold    bool      // the daemon is to keep it

	done   chan struct{}
	result codec.Body
	err    error

	// Guarded by the client.
	cancelled bool
	quiet     bool            // adopted and not collected: the daemon keeps what it has
	pending   *arrivingResult // a result whose stream's items are not all there
	members   uint64          // what the link that it is sent to knows Members by
	sentTo    *outbox         // nil where it was not sent
	batch     uint64          // there
	large     *transfer       // where the argument is large
	sends     int             // how often it was sent

	clock *overdue.Clock // nil without a Timeout
}

// finish sets how the call ended, once, with the client's lock held. Whoever
// finishes a call takes it out of the client's.
func (c *call) finish(result codec.Body, err error) {
	c.result, c.err = result, err
	close(c.done)
}

// send puts the call on a link. The caller has it written by kick.
func (c *call) send(l *link) {
	c.members = l.tellMembers(c.Members)
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
		case <-c.done: // the stream may be another attempt's by now
		default:
			c.attach(l.out)
		}
	}}
	l.out.enqueue(c.large)
}

// mostSends bounds how often a call's time may begin again, for a connection that is cut
// each time before the call was received.
const mostSends = 8

// attach gives the stream its connection, once the call is on its way there.
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

// mayRun reports whether a worker may have begun the call.
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

// tellMembers returns what the other side knows a membership by, and tells it
// where it does not.
func (l *link) tellMembers(m *Members) uint64 {
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

// fewCalls is up to how many calls at once each is written as soon as it is
// made. Where there are more, they go out together.
const fewCalls = 2

func (c *Client) start(r Request, hold bool) (*call, error) {
	if err := checkLayout(r.Arg); err != nil {
		return nil, err
	}
	call := &call{Request: r, hold: hold, done: make(chan struct{}), clock: c.clock(r.Timeout)}
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

// clock returns what keeps a call's Timeout on this side.
func (c *Client) clock(timeout time.Duration) *overdue.Clock {
	if timeout <= 0 {
		return nil
	}
	return overdue.New(timeout+c.hello.Grace, overdue.Grace, c.hello.Reachable)
}

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
	c.cancel(call)
	grace := time.NewTimer(c.hello.Grace)
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
		// That is how the end of a deadline here looks there.
		return codec.Body{}, fmt.Errorf("function %s: %w", call.Function, ctx.Err())
	}
	return codec.Body{}, fmt.Errorf("function %s: %w: %w", call.Function, ctx.Err(), err)
}

func (c *call) outcome() (codec.Body, error) { return c.result, c.err }

// cancel ends the function's context, or keeps the call from being sent.
func (c *Client) cancel(call *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.ID] != call || call.cancelled {
		return
	}
	call.cancelled = true
	switch {
	case (c.link == nil || call.large != nil) && !call.mayRun():
		call.finish(codec.Body{}, fmt.Errorf("function %s was not called: %w", call.Function, context.Canceled))
		delete(c.calls, call.ID)
	case c.link != nil:
		if call.large != nil {
			call.sentTo.drop(call.large) // the daemon answers for what it has
		}
		c.link.out.push(frameCancel, call.ID, nil)
	}
}

// abandon stops waiting for a call. The daemon forgets it at once, or at the
// next hello, which does not name it.
func (c *Client) abandon(call *call, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.ID] != call {
		return // it ended just now
	}
	c.giveUp(call, why)
}

// giveUp ends a call that the daemon may still answer, and has it forgotten there. c.mu
// is held.
func (c *Client) giveUp(call *call, why error) {
	call.finish(codec.Body{}, why)
	delete(c.calls, call.ID)
	c.gone.add(call.ID)
	if c.link != nil {
		c.link.out.push(frameAck, call.ID, nil)
	}
}
