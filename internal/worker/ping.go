package worker

import (
	"context"
	"runtime"
)

// pings are the unanswered pings. The client's lock guards them.
type pings struct {
	last    uint64
	waiting map[uint64]*ping
}

// A ping is a question that the daemon answers at once.
type ping struct {
	stacks bool        // it asks for stacks
	answer chan string // has room for the answer
}

// send sends the ping over a link.
func (p *ping) send(l *link, id uint64) {
	var ask payload
	if p.stacks {
		ask = raw("stacks")
	}
	l.out.push(framePing, id, ask)
}

// add adds a ping, and returns its id.
func (p *pings) add(one *ping) (id uint64) {
	p.last++
	p.waiting[p.last] = one
	return p.last
}

// send repeats all unanswered pings over a new link.
func (p *pings) send(l *link) {
	for id, one := range p.waiting {
		one.send(l, id)
	}
}

// Ping waits for an answer from the daemon. While the stream is broken it waits for the next one.
func (c *Client) Ping(ctx context.Context) error {
	_, err := c.ask(ctx, false)
	return err
}

// Stacks returns the stacks of all goroutines of the worker, as far as they are not too long. It waits like Ping.
func (c *Client) Stacks(ctx context.Context) (string, error) { return c.ask(ctx, true) }

func (c *Client) ask(ctx context.Context, stacks bool) (answer string, err error) {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return "", c.err
	}
	one := &ping{stacks, make(chan string, 1)}
	id := c.pings.add(one)
	if c.link != nil {
		one.send(c.link, id)
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pings.waiting, id)
	}()
	select {
	case answer := <-one.answer:
		return answer, nil
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return "", c.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// pong passes an answer to its ping.
func (r *receiver) pong(h frameHead) error {
	r.client.mu.Lock()
	one := r.client.pings.waiting[h.id]
	delete(r.client.pings.waiting, h.id)
	r.client.mu.Unlock()
	if one == nil {
		return r.link.skip(h) // it is not waited for any more
	}
	payload, err := r.link.payload(h)
	if err != nil {
		return err
	}
	one.answer <- clip(string(payload))
	return nil
}

// allStacks returns the stacks of all goroutines, as far as they are not too long.
func allStacks() []byte {
	b := make([]byte, maxErrorText)
	return b[:runtime.Stack(b, true)]
}
