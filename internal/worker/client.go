package worker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
)

// An OpenFunc opens a stream to an attach process on the node. Closing the
// stream must end a Read and a Write that are under way.
type OpenFunc func(ctx context.Context) (io.ReadWriteCloser, error)

// Hello is what a client is and expects.
type Hello struct {
	// Digest is the SHA-256 of the program that the node must run, in
	// hexadecimal. Empty means that any will do.
	Digest string
	// Generation orders the clients of a worker: a higher one takes over from
	// a lower one.
	Generation uint64
	// Adopt takes over the calls of the earlier clients: [Client.Held] lists
	// them. Without it they are cancelled and forgotten.
	Adopt bool
	// Grace is how long a function may go on after its context has ended.
	// Zero means [DefaultGrace].
	Grace time.Duration
	// Node is what functions are told of the node.
	Node NodeFacts
	// ResultBytes bounds each encoded result, and each item that a function sends.
	// Zero means that there is no bound.
	ResultBytes int64
	// Reachable reports whether the node can be reached now. Nil means that it can while
	// there is a link.
	Reachable func() bool
}

// DefaultGrace is how long a function may go on after its context has ended.
const DefaultGrace = 10 * time.Second

// A Client calls the functions of one worker. Its methods can be called at the
// same time. When its stream breaks it opens another one, for as long as it takes.
type Client struct {
	open   OpenFunc
	hello  Hello
	name   string // random, tells clients of a generation apart
	stop   context.CancelFunc
	done   chan struct{} // closed when the goroutine that owns the link has ended
	idBase uint64

	mu       sync.Mutex
	err      error // why there are no further calls
	link     *link // nil while there is none
	attempt  uint64
	node     welcome
	has      map[string]bool // the node's functions
	calls    map[uint64]*call
	earlier  map[uint64]*call // adopted calls that nobody has collected or dropped; they are in calls too, unless they are lost
	held     map[uint64]bool  // those that are over and that the daemon is to keep; whether the answer is large
	gone     forgotten        // calls that the daemon may still answer
	pings    map[uint64]chan struct{}
	lastID   uint64
	lastPing uint64
}

// Dial connects to a worker. The context bounds the dialing, not the client's
// life. What does not match is an [ErrProtocol], [ErrBinary] or [ErrFenced];
// if no worker serves, it is [ErrWorkerLost].
func Dial(ctx context.Context, open OpenFunc, h Hello) (*Client, error) {
	if h.Grace <= 0 {
		h.Grace = DefaultGrace
	}
	if h.ResultBytes <= 0 {
		h.ResultBytes = math.MaxInt64
	}
	var base [4]byte
	_, _ = rand.Read(base[:]) // never fails
	c := &Client{
		open: open, hello: h, name: rand.Text(), done: make(chan struct{}),
		// Ids of different clients must differ: one may adopt another's calls.
		idBase: uint64(binary.BigEndian.Uint32(base[:])) << 32,
		calls:  map[uint64]*call{}, earlier: map[uint64]*call{}, held: map[uint64]bool{}, pings: map[uint64]chan struct{}{},
	}
	if c.hello.Reachable == nil {
		c.hello.Reachable = c.linked
	}
	l, err := c.firstConnect(ctx)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	go c.run(life, l) // Close waits for it
	return c, nil
}

func (c *Client) linked() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.link != nil
}

// Functions returns the names of the functions that the node's program has.
func (c *Client) Functions() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.has))
}

// PID returns the daemon's process id on the node.
func (c *Client) PID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.node.PID
}

// Close ends the client. Calls that are open fail with [ErrClosed]; on the
// node their functions go on until another client takes over.
func (c *Client) Close() error {
	c.end(ErrClosed)
	<-c.done
	return nil
}

// Fail ends the client because its owner knows that the worker is dead. Open
// calls fail with [ErrWorkerLost] and the reason.
func (c *Client) Fail(reason error) {
	if !errors.Is(reason, ErrWorkerLost) {
		reason = fmt.Errorf("%w: %w", ErrWorkerLost, reason)
	}
	c.end(reason)
	<-c.done
}

// Ping waits for a sign of life from the daemon. While the stream is broken it
// waits for the next one.
func (c *Client) Ping(ctx context.Context) error {
	c.mu.Lock()
	if c.err != nil {
		defer c.mu.Unlock()
		return c.err
	}
	c.lastPing++
	id, answered := c.lastPing, make(chan struct{})
	c.pings[id] = answered
	if c.link != nil {
		c.link.out.push(framePing, id, nil)
	}
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.pings, id)
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

// end makes err the answer to all open and later calls. The first reason counts.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return
	}
	c.err = err
	for _, call := range c.calls {
		call.finish(codec.Body{}, err)
	}
	clear(c.calls)
	c.stop()
	if c.link != nil {
		c.link.cut()
	}
}
