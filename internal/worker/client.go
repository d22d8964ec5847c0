package worker

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
)

// An OpenFunc opens a stream to an attach process on the node. Closing the stream must end a Read and a Write in
// progress.
type OpenFunc func(ctx context.Context) (io.ReadWriteCloser, error)

// Hello describes a client and what it expects of the worker.
type Hello struct {
	// Digest is the SHA-256 of the program that the node must run, in hexadecimal. Empty means any program.
	Digest string
	// Generation orders the clients of a worker: a higher one takes over from
	// a lower one.
	Generation uint64
	// Adopt takes over the calls of earlier clients: [Client.Held] lists them. Otherwise they are cancelled and
	// forgotten.
	Adopt bool
	// Grace is how long a function may go on after its context has ended.
	// Zero means [DefaultGrace].
	Grace time.Duration
	// Node holds the facts about the node that functions can read.
	Node NodeFacts
	// ResultBytes bounds each encoded result, and each item that a function sends. Zero means no bound.
	ResultBytes int64
	// Reachable reports whether the node can be reached now. Nil means that it can whenever the client has a link.
	Reachable func() bool
}

// After its context has ended, a function may go on for DefaultGrace, unless [Hello.Grace] says otherwise.
const DefaultGrace = 10 * time.Second

// A Client calls the functions of one worker. Its methods can be called concurrently. When its stream breaks it opens
// another one, and retries without limit.
type Client struct {
	open   OpenFunc
	hello  Hello
	name   string // random, distinguishes clients of one generation
	stop   context.CancelFunc
	done   chan struct{} // closed when the goroutine that owns the link has ended
	idBase uint64

	mu      sync.Mutex
	err     error // the reason why there are no further calls
	link    *link // nil while there is no link
	attempt uint64
	node    welcome
	has     map[string]bool // the node's functions
	calls   map[uint64]*call
	earlier map[uint64]*call // adopted calls that were neither collected nor dropped; they are in calls too, unless they are lost
	held    map[uint64]bool  // ended calls that the daemon keeps; whether the answer is large
	gone    forgotten        // calls that the daemon may still answer
	pings   pings
	lastID  uint64
}

// Dial connects to a worker. The context bounds the dialing, not the client's life. The error is [ErrProtocol],
// [ErrBinary] or [ErrFenced] if the two sides do not match, and [ErrWorkerLost] if no worker serves.
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
		calls:  map[uint64]*call{}, earlier: map[uint64]*call{}, held: map[uint64]bool{}, pings: pings{waiting: map[uint64]*ping{}},
	}
	if c.hello.Reachable == nil {
		c.hello.Reachable = func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.link != nil
		}
	}
	l, err := c.firstConnect(ctx)
	if err != nil {
		return nil, err
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	c.stop = stop
	go c.run(life, l) // ended by Close, which waits for it
	return c, nil
}

// Close ends the client. Open calls fail with [ErrClosed]; their functions go on until another client takes over.
func (c *Client) Close() error {
	c.end(ErrClosed)
	<-c.done
	return nil
}

// Fail ends the client of a worker that its owner knows to be dead. Open calls fail with [ErrWorkerLost] and the
// reason.
func (c *Client) Fail(reason error) {
	if !errors.Is(reason, ErrWorkerLost) {
		reason = fmt.Errorf("%w: %w", ErrWorkerLost, reason)
	}
	c.end(reason)
	<-c.done
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
