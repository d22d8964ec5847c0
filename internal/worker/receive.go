package worker

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/internal/codec"
)

// An arrivingResult is one that is not whole yet, or whose stream is not.
type arrivingResult struct {
	incoming
	header resultHeader
}

// What arrives over one link and is not whole yet, by call.
type arrivals struct {
	results map[uint64]*arrivingResult
	items   map[uint64]*arrivingItem
}

// receive handles what the daemon sends, until the link breaks.
func (c *Client) receive(l *link) error {
	a := arrivals{map[uint64]*arrivingResult{}, map[uint64]*arrivingItem{}}
	for {
		h, err := l.next()
		if err != nil {
			return err
		}
		switch h.typ {
		case frameResult:
			err = c.resultOpens(l, h, a)
		case frameData:
			err = c.resultGoesOn(l, h, a)
		case frameItem:
			err = c.itemOpens(l, h, a)
		case frameItemData:
			err = c.itemGoesOn(l, h, a)
		case frameCredit:
			err = c.credit(l, h)
		case framePong:
			c.pong(h.id)
			err = l.skip(h)
		case frameFenced:
			err = ErrFenced
		default:
			err = fmt.Errorf("%w: found a frame of type %d", ErrProtocol, h.typ)
		}
		if err != nil {
			return err
		}
	}
}

// awaited returns the call that a frame is about, or nil, if the client has given it up
// or is done with it. What it never asked for, or was told already, breaks the protocol.
func (c *Client) awaited(h frameHead) (*call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[h.id]
	switch {
	case call != nil && call.quiet:
		return nil, fmt.Errorf("%w: a frame of type %d about the call %d, which was not collected", ErrProtocol, h.typ, h.id)
	case call != nil || c.err != nil || c.gone.has(h.id):
		return call, nil
	}
	return nil, fmt.Errorf("%w: a frame of type %d about the call %d, which is not open", ErrProtocol, h.typ, h.id)
}

// tooLarge fails a call whose result, or whose item, is larger than it may be, and
// passes over the rest of it. Any other mistake breaks the protocol.
func (c *Client) tooLarge(call *call, err error) error {
	if !errors.Is(err, ErrTooLarge) {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls[call.ID] == call {
		c.giveUp(call, fmt.Errorf("function %s: %w", call.Function, err))
	}
	return nil
}

func (c *Client) resultOpens(l *link, h frameHead, a arrivals) error {
	call, err := c.awaited(h)
	if call == nil {
		return cmp.Or(err, l.skip(h))
	}
	if a.results[h.id] != nil || call.pending != nil {
		return fmt.Errorf("%w: a second result of the call %d", ErrProtocol, h.id)
	}
	payload, err := l.payload(h)
	if err != nil {
		return err
	}
	p, r := parser{b: payload}, &arrivingResult{}
	if err := r.header.parse(&p); err != nil {
		return err
	}
	if err := r.open(&p, c.hello.ResultBytes); err != nil {
		return c.tooLarge(call, err)
	}
	if !r.complete() {
		a.results[h.id] = r
		return nil
	}
	c.finish(l, h.id, r)
	return nil
}

func (c *Client) resultGoesOn(l *link, h frameHead, a arrivals) error {
	call, err := c.awaited(h)
	if call == nil {
		delete(a.results, h.id)
		return cmp.Or(err, l.skip(h))
	}
	r := a.results[h.id]
	if r == nil {
		return fmt.Errorf("%w: a result goes on that has not begun", ErrProtocol)
	}
	if err := r.more(l.frameReader, h); err != nil {
		return err
	}
	if r.complete() {
		delete(a.results, h.id)
		c.finish(l, h.id, r)
	}
	return nil
}

// finish hands a result to its call, if that still waits, and lets the daemon
// forget it, unless it is to be held. The result of a call with a stream waits
// for the last item.
func (c *Client) finish(l *link, id uint64, r *arrivingResult) {
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[id]
	switch {
	case call != nil && call.Stream != nil && !call.Stream.has(r.header.Items):
		call.pending = r
		return
	case call != nil:
		delete(c.calls, id)
		if call.Stats != nil {
			*call.Stats = Stats{Answered: true, Elapsed: r.header.Elapsed, Printed: r.header.Printed}
		}
		if call.Stream != nil {
			c.gone.add(id) // the end of the items may follow, and what was taken
		}
		if failure := r.header.Error; failure != nil {
			call.finish(codec.Body{}, failure.remote(call))
		} else {
			call.finish(r.body, nil)
		}
		if call.hold {
			c.held[id] = !isSmall(r.body)
			return
		}
	}
	l.acknowledge(id, !isSmall(r.body))
}

func (c *Client) itemOpens(l *link, h frameHead, a arrivals) error {
	call, err := c.awaited(h)
	switch {
	case call == nil:
		return cmp.Or(err, l.skip(h))
	case call.Stream == nil:
		return fmt.Errorf("%w: an item for a call without a stream", ErrProtocol)
	case a.items[h.id] != nil:
		return fmt.Errorf("%w: an item begins before the last one is whole", ErrProtocol)
	}
	payload, err := l.payload(h)
	if err != nil {
		return err
	}
	item, err := parseItem(payload, c.hello.ResultBytes)
	if err != nil {
		return c.tooLarge(call, err)
	}
	if err := call.Stream.admits(item); err != nil {
		return err
	}
	if !item.complete() {
		a.items[h.id] = item
		return nil
	}
	return c.itemArrived(l, h.id, item)
}

func (c *Client) itemGoesOn(l *link, h frameHead, a arrivals) error {
	call, err := c.awaited(h)
	if call == nil {
		delete(a.items, h.id)
		return cmp.Or(err, l.skip(h))
	}
	item := a.items[h.id]
	if item == nil {
		return fmt.Errorf("%w: an item goes on that has not begun", ErrProtocol)
	}
	if err := item.more(l.frameReader, h); err != nil {
		return err
	}
	if item.complete() {
		delete(a.items, h.id)
		return c.itemArrived(l, h.id, item)
	}
	return nil
}

func (c *Client) itemArrived(l *link, id uint64, item *arrivingItem) error {
	c.mu.Lock()
	call := c.calls[id]
	if call == nil {
		c.mu.Unlock()
		return nil // abandoned
	}
	err := call.Stream.deliver(item.header, item.body)
	pending := call.pending
	c.mu.Unlock()
	if err == nil && pending != nil {
		c.finish(l, id, pending)
	}
	return err
}

func (c *Client) credit(l *link, h frameHead) error {
	if h.size > binary.MaxVarintLen64 {
		return fmt.Errorf("%w: a credit of %d bytes", ErrProtocol, h.size)
	}
	if call, err := c.awaited(h); call == nil {
		return cmp.Or(err, l.skip(h))
	}
	payload, err := l.payload(h)
	if err != nil {
		return err
	}
	p := parser{b: payload}
	taken := p.uint()
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[h.id]
	switch {
	case p.bad || call != nil && call.Stream == nil:
		return fmt.Errorf("%w: a credit for nothing", ErrProtocol)
	case call == nil:
		return nil
	}
	return call.Stream.credit(taken)
}

func (c *Client) pong(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered, ok := c.pings[id]; ok {
		close(answered)
		delete(c.pings, id)
	}
}
