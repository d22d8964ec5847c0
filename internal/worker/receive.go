package worker

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/gputrain/gputrain/internal/codec"
)

// An arrivingResult is a result that is incomplete, or whose stream is.
type arrivingResult struct {
	incoming
	header resultHeader
}

// A receiver handles the frames of one link, and passes complete results and items to the client's calls.
type receiver struct {
	client  *Client
	link    *link
	results map[uint64]*arrivingResult // incomplete results, by call
	items   map[uint64]*arrivingItem
}

func newReceiver(c *Client, l *link) *receiver {
	return &receiver{client: c, link: l, results: map[uint64]*arrivingResult{}, items: map[uint64]*arrivingItem{}}
}

// run handles the daemon's frames until the link breaks.
func (r *receiver) run() error {
	for {
		h, err := r.link.next()
		if err != nil {
			return err
		}
		switch h.typ {
		case frameResult:
			err = r.resultOpens(h)
		case frameData:
			err = r.resultGoesOn(h)
		case frameItem:
			err = r.itemOpens(h)
		case frameItemData:
			err = r.itemGoesOn(h)
		case frameCredit:
			err = r.credit(h)
		case frameStep:
			err = r.stepped(h)
		case framePong:
			err = r.pong(h)
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

// awaited returns the call that a frame is about, or nil if the client has given it up or is done with it. A frame
// about any other call breaks the protocol.
func (r *receiver) awaited(h frameHead) (*call, error) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	call := r.client.calls[h.id]
	switch {
	case call != nil && call.quiet:
		return nil, fmt.Errorf("%w: a frame of type %d about the call %d, which was not collected", ErrProtocol, h.typ, h.id)
	case call != nil || r.client.err != nil || r.client.gone.has(h.id):
		return call, nil
	}
	return nil, fmt.Errorf("%w: a frame of type %d about the call %d, which is not open", ErrProtocol, h.typ, h.id)
}

// tooLarge fails a call whose result or item is too large, and skips the rest of it. Any other mistake breaks the
// protocol.
func (r *receiver) tooLarge(call *call, err error) error {
	if !errors.Is(err, ErrTooLarge) {
		return err
	}
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	if r.client.calls[call.ID] == call {
		r.client.giveUp(call, fmt.Errorf("function %s: %w", call.Function, err))
	}
	return nil
}

func (r *receiver) resultOpens(h frameHead) error {
	call, err := r.awaited(h)
	if call == nil {
		return cmp.Or(err, r.link.skip(h))
	}
	if r.results[h.id] != nil || call.pending != nil {
		return fmt.Errorf("%w: a second result of the call %d", ErrProtocol, h.id)
	}
	payload, err := r.link.payload(h)
	if err != nil {
		return err
	}
	p, result := parser{b: payload}, &arrivingResult{}
	if err := result.header.parse(&p); err != nil {
		return err
	}
	if err := result.open(&p, r.client.hello.ResultBytes); err != nil {
		return r.tooLarge(call, err)
	}
	if !result.complete() {
		r.results[h.id] = result
		return nil
	}
	r.finish(h.id, result)
	return nil
}

func (r *receiver) resultGoesOn(h frameHead) error {
	call, err := r.awaited(h)
	if call == nil {
		delete(r.results, h.id)
		return cmp.Or(err, r.link.skip(h))
	}
	result := r.results[h.id]
	if result == nil {
		return fmt.Errorf("%w: a result goes on that has not begun", ErrProtocol)
	}
	if err := result.more(r.link.frameReader, h); err != nil {
		return err
	}
	if result.complete() {
		delete(r.results, h.id)
		r.finish(h.id, result)
	}
	return nil
}

// finish passes a result to its call, if that still waits, and makes the daemon forget the call, unless it is held. The
// result of a call with a stream waits for the last item.
func (r *receiver) finish(id uint64, result *arrivingResult) {
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	call := r.client.calls[id]
	switch {
	case call != nil && call.Stream != nil && !call.Stream.has(result.header.Items):
		call.pending = result
		return
	case call != nil:
		delete(r.client.calls, id)
		if call.Stats != nil {
			*call.Stats = Stats{Answered: true, Elapsed: result.header.Elapsed, Printed: result.header.Printed}
		}
		if call.Stream != nil {
			r.client.gone.add(id) // the end of the items and a credit may still come
		}
		if failure := result.header.Error; failure != nil {
			call.finish(codec.Body{}, failure.remote(call))
		} else {
			call.finish(result.body, nil)
		}
		if call.hold {
			r.client.held[id] = !isSmall(result.body)
			return
		}
	}
	r.link.acknowledge(id, !isSmall(result.body))
}

func (r *receiver) itemOpens(h frameHead) error {
	call, err := r.awaited(h)
	switch {
	case call == nil:
		return cmp.Or(err, r.link.skip(h))
	case call.Stream == nil:
		return fmt.Errorf("%w: an item for a call without a stream", ErrProtocol)
	case r.items[h.id] != nil:
		return fmt.Errorf("%w: an item begins before the last one is whole", ErrProtocol)
	}
	payload, err := r.link.payload(h)
	if err != nil {
		return err
	}
	item, err := parseItem(payload, r.client.hello.ResultBytes)
	if err != nil {
		return r.tooLarge(call, err)
	}
	if err := call.Stream.admits(item); err != nil {
		return err
	}
	if !item.complete() {
		r.items[h.id] = item
		return nil
	}
	return r.itemArrived(h.id, item)
}

func (r *receiver) itemGoesOn(h frameHead) error {
	call, err := r.awaited(h)
	if call == nil {
		delete(r.items, h.id)
		return cmp.Or(err, r.link.skip(h))
	}
	item := r.items[h.id]
	if item == nil {
		return fmt.Errorf("%w: an item goes on that has not begun", ErrProtocol)
	}
	if err := item.more(r.link.frameReader, h); err != nil {
		return err
	}
	if item.complete() {
		delete(r.items, h.id)
		return r.itemArrived(h.id, item)
	}
	return nil
}

func (r *receiver) itemArrived(id uint64, item *arrivingItem) error {
	r.client.mu.Lock()
	call := r.client.calls[id]
	if call == nil {
		r.client.mu.Unlock()
		return nil // abandoned
	}
	err := call.Stream.deliver(item.header, item.body)
	pending := call.pending
	r.client.mu.Unlock()
	if err == nil && pending != nil {
		r.finish(id, pending)
	}
	return err
}

func (r *receiver) credit(h frameHead) error {
	if h.size > binary.MaxVarintLen64 {
		return fmt.Errorf("%w: a credit of %d bytes", ErrProtocol, h.size)
	}
	if call, err := r.awaited(h); call == nil {
		return cmp.Or(err, r.link.skip(h))
	}
	payload, err := r.link.payload(h)
	if err != nil {
		return err
	}
	p := parser{b: payload}
	taken := p.uint()
	r.client.mu.Lock()
	defer r.client.mu.Unlock()
	call := r.client.calls[h.id]
	switch {
	case p.bad || call != nil && call.Stream == nil:
		return fmt.Errorf("%w: a credit for nothing", ErrProtocol)
	case call == nil:
		return nil
	}
	return call.Stream.credit(taken)
}
