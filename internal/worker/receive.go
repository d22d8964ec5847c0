package worker

import "fmt"

// An arrivingResult is one that is not whole yet.
type arrivingResult struct {
	incoming
	failure *wireError
}

// receive handles what the daemon sends, until the link breaks.
func (c *Client) receive(l *link) error {
	arriving := map[uint64]*arrivingResult{}
	for {
		h, err := l.next()
		if err != nil {
			return err
		}
		switch h.typ {
		case frameResult:
			err = c.resultOpens(l, h, arriving)
		case frameData:
			err = c.resultGoesOn(l, h, arriving)
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

func (c *Client) resultOpens(l *link, h frameHead, arriving map[uint64]*arrivingResult) error {
	payload, err := l.payload(h)
	if err != nil {
		return err
	}
	var header resultHeader
	first, err := splitOpening(payload, &header)
	if err != nil {
		return err
	}
	r := &arrivingResult{failure: header.Error}
	if err := r.open(header.Size, first); err != nil {
		return err
	}
	if !r.complete() {
		arriving[h.id] = r
		return nil
	}
	c.finish(l, h.id, r)
	return nil
}

func (c *Client) resultGoesOn(l *link, h frameHead, arriving map[uint64]*arrivingResult) error {
	r := arriving[h.id]
	if r == nil {
		return fmt.Errorf("%w: a result goes on that has not begun", ErrProtocol)
	}
	if err := r.more(l.frameReader, h); err != nil {
		return err
	}
	if r.complete() {
		delete(arriving, h.id)
		c.finish(l, h.id, r)
	}
	return nil
}

// finish hands a result to its call, if that still waits, and lets the daemon
// forget it: at once where that frees much memory.
func (c *Client) finish(l *link, id uint64, r *arrivingResult) {
	ack := &message{typ: frameAck, id: id}
	if r.size > chunkSize {
		l.out.push(ack)
	} else {
		l.out.pushLazy(ack)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	call := c.calls[id]
	if call == nil {
		return // abandoned
	}
	delete(c.calls, id)
	if r.failure != nil {
		call.finish(nil, r.failure.remote())
	} else {
		call.finish(r.body, nil)
	}
}

func (c *Client) pong(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if answered, ok := c.pings[id]; ok {
		close(answered)
		delete(c.pings, id)
	}
}
