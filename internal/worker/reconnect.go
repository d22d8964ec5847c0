package worker

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
)

const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 5 * time.Second
)

// run keeps the client linked, with one link after another.
func (c *Client) run(ctx context.Context, l *link) {
	defer close(c.done)
	for {
		err := newReceiver(c, l).run()
		c.mu.Lock()
		c.link = nil
		c.mu.Unlock()
		l.close()
		if isFinal(err) {
			c.end(err)
			return
		}
		if l, err = c.reconnect(ctx); err != nil {
			c.end(err)
			return
		}
	}
}

// Dial makes at most dialAttempts attempts if the connection may have been cut.
const dialAttempts = 6

// firstConnect makes the client's first connection. A program that does not speak the protocol looks like a cut
// connection: it gets a few attempts.
func (c *Client) firstConnect(ctx context.Context) (*link, error) {
	for attempt, pause := 1, firstBackoff; ; attempt, pause = attempt+1, 2*pause {
		l, err := c.connect(ctx)
		if err == nil || attempt == dialAttempts || ctx.Err() != nil || isFinal(err) || errors.Is(err, ErrProtocol) || errors.Is(err, ErrWorkerLost) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(pause):
		}
	}
}

// errSilent means that the node's side never began to speak the protocol. A cut connection can look like that: so it
// does not end a client that had been connected, and Dial only after some attempts.
var errSilent = errors.New("no worker spoke")

// isFinal reports whether another stream would fail in the same way.
func isFinal(err error) bool {
	if errors.Is(err, errSilent) {
		return false
	}
	return errors.Is(err, ErrProtocol) || errors.Is(err, ErrBinary) || errors.Is(err, ErrFenced)
}

// reconnect tries until it has a link, until ctx ends, or until an error is final.
func (c *Client) reconnect(ctx context.Context) (*link, error) {
	for pause := firstBackoff; ; pause = min(2*pause, lastBackoff) {
		l, err := c.connect(ctx)
		switch {
		case err == nil:
			return l, nil
		case isFinal(err):
			return nil, err
		case ctx.Err() != nil:
			return nil, ErrClosed
		case errors.Is(err, ErrWorkerLost):
			c.loseCalls(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + rand.N(pause/2)):
		}
	}
}

// loseCalls fails the calls that a dead worker may have started. The others wait for the next worker.
func (c *Client) loseCalls(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, call := range c.calls {
		if call.mayRun() {
			call.finish(codec.Body{}, err)
			delete(c.calls, id)
		}
	}
}

// connect opens a stream, sends the hello and matches the client's calls with the daemon's. Its errors are final,
// ErrWorkerLost, or worth another attempt.
func (c *Client) connect(ctx context.Context) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	conn, err := c.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open a stream to the worker: %w", err)
	}
	l := newLink(conn, "")
	unwatch := context.AfterFunc(ctx, l.cut)
	c.mu.Lock()
	c.attempt++
	c.gone.clear()
	h := hello{
		Digest: c.hello.Digest, Generation: c.hello.Generation, Client: c.name, Attempt: c.attempt,
		Adopt: c.hello.Adopt && c.node.Instance == "", // later hellos list the calls
		Kept:  slices.Collect(maps.Keys(c.held)),
		Grace: c.hello.Grace, Node: c.hello.Node,
	}
	for id, call := range c.calls {
		if call.quiet {
			h.Kept = append(h.Kept, id)
		} else {
			h.Open = append(h.Open, id)
		}
		if call.Stream != nil {
			h.Streams = append(h.Streams, call.Stream.state(id))
		}
	}
	c.mu.Unlock()
	w, err := greet(l, h)
	if err == nil {
		err = w.check(h)
	}
	if err == nil && !unwatch() {
		err = ctx.Err()
	}
	if err == nil {
		err = c.adopt(l, w)
	}
	if err != nil {
		unwatch()
		l.close()
		if cause := ctx.Err(); cause != nil && !isFinal(err) {
			err = fmt.Errorf("wait for the worker's answer: %w", cause)
		}
		return nil, err
	}
	return l, nil
}

// greet sends the hello and returns the answer.
func greet(l *link, h hello) (w welcome, err error) {
	payload := encodeHello(h)
	if len(payload) > maxPayload {
		return w, fmt.Errorf("%w: %d open calls are too many for one client", ErrProtocol, len(h.Open)+len(h.Kept))
	}
	l.out.push(frameHello, 0, raw(payload))
	if err := skipToPreamble(l.r); err != nil {
		return w, err
	}
	head, err := l.next()
	if err != nil {
		return w, fmt.Errorf("wait for the worker's answer: %w", err)
	}
	if payload, err = l.payload(head); err != nil {
		return w, fmt.Errorf("wait for the worker's answer: %w", err)
	}
	switch head.typ {
	case frameWelcome:
		return w, decodeWire(payload, &w)
	case frameReject:
		var no rejection
		if err := decodeWire(payload, &no); err != nil {
			return w, err
		}
		return w, no.err()
	case frameFenced:
		return w, ErrFenced
	}
	return w, fmt.Errorf("%w: found a frame of type %d instead of a welcome", ErrProtocol, head.typ)
}

// skipToPreamble skips what was printed before the protocol began.
func skipToPreamble(r *bufio.Reader) error {
	const most = 64 << 10
	var seen []byte
	for !bytes.HasSuffix(seen, []byte(nodePreamble)) {
		b, err := r.ReadByte()
		if err == nil && len(seen) == most {
			err = errors.New("there is more")
		}
		if err == nil {
			seen = append(seen, b)
			continue
		}
		if len(seen) == 0 || strings.HasPrefix(nodePreamble, string(seen)) {
			return fmt.Errorf("%w: the stream ended at once (%w): does main call gputrain.Init before anything else?", errSilent, err)
		}
		return fmt.Errorf("%w: %w; the node printed %.300q (%w): does main call gputrain.Init before anything else?", ErrProtocol, errSilent, seen, err)
	}
	return nil
}

// adopt makes l the client's link. Calls that the daemon has are awaited. The others are sent, unless an earlier daemon
// may have started them.
func (c *Client) adopt(l *link, w welcome) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	known := make(map[uint64]bool, len(w.Known))
	for _, id := range w.Known {
		known[id] = true
	}
	streams := make(map[uint64]streamState, len(w.Streams))
	for _, s := range w.Streams {
		streams[s.ID] = s
	}
	restarted := c.node.Instance != "" && c.node.Instance != w.Instance
	if c.node.Instance == "" {
		if err := c.takeOver(w.Held); err != nil {
			return err
		}
	}
	c.node, c.link = w, l
	c.has = make(map[string]bool, len(w.Functions))
	for _, name := range w.Functions {
		c.has[name] = true
	}
	for id := range known {
		if _, held := c.held[id]; !held && c.calls[id] == nil {
			l.acknowledge(id, true) // released while the hello was under way
		}
	}
	for id, call := range c.calls {
		switch {
		case known[id]:
			if call.adopted != nil && !call.quiet {
				l.out.push(frameCollect, id, nil) // again, if the hello had it
			}
			call.pending = nil // it comes again, as the daemon has no acknowledgement of it
			if call.Stream != nil {
				call.Stream.attach(id, l.out, streams[id].Received, streams[id].Taken)
			}
			if call.cancelled {
				l.out.push(frameCancel, id, markOf(call.why))
			}
		case restarted && call.mayRun():
			call.finish(codec.Body{}, fmt.Errorf("%w: another process has taken its place", ErrWorkerLost))
			delete(c.calls, id)
		case call.adopted != nil:
			call.finish(codec.Body{}, fmt.Errorf("%w: %d", ErrUnknownCall, id))
			delete(c.calls, id)
		case call.cancelled:
			call.finish(codec.Body{}, context.Canceled)
			delete(c.calls, id)
		default:
			call.send(l)
		}
	}
	c.pings.send(l)
	l.out.kick(false)
	return nil
}
