package worker

import "context"

// pings are the unanswered pings. The client's lock guards them.
type pings struct {
	last    uint64
	waiting map[uint64]chan struct{}
}

// add returns the id of a new ping and a channel that its answer closes.
func (p *pings) add() (id uint64, answered <-chan struct{}) {
	p.last++
	c := make(chan struct{})
	p.waiting[p.last] = c
	return p.last, c
}

// send repeats all unanswered pings over a new link.
func (p *pings) send(l *link) {
	for id := range p.waiting {
		l.out.push(framePing, id, nil)
	}
}

func (p *pings) answer(id uint64) {
	if answered, ok := p.waiting[id]; ok {
		close(answered)
		delete(p.waiting, id)
	}
}

// Ping waits for an answer from the daemon. While the stream is broken it waits for the next one.
func (c *Client) Ping(ctx context.Context) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	id, answered := c.pings.add()
	if c.link != nil {
		c.link.out.push(framePing, id, nil)
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pings.waiting, id)
	}()
	select {
	case <-answered:
		return nil
	case <-c.done:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (c *Client) pong(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pings.answer(id)
}
