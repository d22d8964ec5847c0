package worker

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/steps"
)

// A HeldCall is a call that an earlier client made and that this one has adopted.
type HeldCall struct {
	// ID identifies the call to Collect and Drop.
	ID uint64
	// Function and Place are as the earlier client gave them.
	Function string
	Place    Place
	// Finished is true if the function had returned, or failed, when the client connected.
	Finished bool
	// Stream is true if the call has a stream: it cannot be collected.
	Stream bool
	// Ran is how long the function had run when the client connected.
	Ran time.Duration
	// Alone is true if no other call has run beside it. From and To are the process's output counts when it began and
	// when it ended.
	Alone    bool
	From, To Printed
}

// takeOver adopts the calls that the first welcome lists, with c.mu held.
func (c *Client) takeOver(held []heldCall) error {
	if len(held) > 0 && !c.hello.Adopt || len(held) > mostHeld {
		return fmt.Errorf("%w: it lists %d calls to be adopted", ErrProtocol, len(held))
	}
	for _, w := range held {
		if c.earlier[w.ID] != nil {
			return fmt.Errorf("%w: it lists the call %d twice", ErrProtocol, w.ID)
		}
		p := parser{b: w.Header}
		var h callHeader
		h.parse(&p)
		if p.bad {
			return fmt.Errorf("%w: a held call without a header", ErrProtocol)
		}
		info := &HeldCall{ID: w.ID, Function: h.Function, Place: h.Place, Finished: w.Finished, Stream: h.Flags&flagStream != 0,
			Ran: time.Duration(max(w.Ran, 0)), Alone: w.Alone, From: w.From.sane(), To: w.To.sane()}
		call := &call{
			Request: Request{ID: w.ID, Function: h.Function, Place: h.Place},
			adopted: info, quiet: true, done: make(chan struct{}),
		}
		c.calls[w.ID], c.earlier[w.ID] = call, call
	}
	return nil
}

// A node that lists more than mostHeld calls to be adopted breaks the protocol. It lists those that run and those whose
// results were not released.
const mostHeld = 1 << 16

// Held returns the calls that [Hello.Adopt] took over and that were neither collected nor dropped, by ID. The node
// keeps each until then, and their results count towards [MaxWaiting].
func (c *Client) Held() []HeldCall {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := make([]HeldCall, 0, len(c.earlier))
	for _, call := range c.earlier {
		held = append(held, *call.adopted)
	}
	slices.SortFunc(held, func(a, b HeldCall) int { return cmp.Compare(a.ID, b.ID) })
	return held
}

// Collect waits for an adopted call, as [Client.Call] waits. Each can be collected once. The error is [ErrUnknownCall]
// for any other call, and [ErrStream] for one with a stream.
func (c *Client) Collect(ctx context.Context, id uint64) (codec.Body, error) {
	return c.collect(ctx, id, Collection{}, false)
}

// A Collection is a request for the rest of an adopted call. The fields are as in [Request].
type Collection struct {
	Timeout time.Duration
	Stats   *Stats
	Step    func(steps.Step)
}

// CollectHold is to Collect what [Client.Hold] is to Call.
func (c *Client) CollectHold(ctx context.Context, id uint64, want Collection) (result codec.Body, release func(), err error) {
	result, err = c.collect(ctx, id, want, true)
	return result, func() { c.release(id) }, err
}

func (c *Client) collect(ctx context.Context, id uint64, want Collection, hold bool) (codec.Body, error) {
	c.mu.Lock()
	call := c.earlier[id]
	switch {
	case call == nil:
		c.mu.Unlock()
		return codec.Body{}, fmt.Errorf("%w: %d", ErrUnknownCall, id)
	case call.adopted.Stream:
		c.mu.Unlock()
		return codec.Body{}, fmt.Errorf("function %s: %w", call.Function, ErrStream)
	}
	delete(c.earlier, id)
	call.quiet, call.hold, call.clock, call.Stats, call.Step = false, hold, c.hello.clock(want.Timeout), want.Stats, want.Step
	if c.link != nil && c.calls[id] == call {
		c.link.out.push(frameCollect, id, nil)
	}
	c.mu.Unlock()
	return c.wait(ctx, call)
}

// Drop cancels an adopted call and makes the node forget it. It does nothing for any other call.
func (c *Client) Drop(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.earlier[id]
	if call == nil {
		return
	}
	delete(c.earlier, id)
	if c.calls[id] != call {
		return // lost already
	}
	delete(c.calls, id)
	c.gone.add(id)
	if c.link != nil {
		c.link.out.push(frameAck, id, nil)
	}
}
