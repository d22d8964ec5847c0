package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/stack"
)

// While more than MaxWaiting bytes of results wait for the client, no further call is started.
const MaxWaiting = 1 << 30

// A daemon serves the functions of this process to one client at a time.
type daemon struct {
	functions *registry
	digest    func() (string, error)
	instance  string
	limit     int64          // of waiting results
	printed   func() Printed // by this process so far

	mu      sync.Mutex
	current *session // the client's connection, or nil if there is none
	owner   hello    // the last hello that was accepted
	calls   map[uint64]*served
	waiting int64         // bytes of results in calls
	running int           // functions
	known   Printed       // the output count when a call last ended
	sole    *served       // the only function that has run since it began, or nil
	taken   chan struct{} // closed, and replaced, when waiting goes down
}

func newDaemon(functions *registry, digest func() (string, error)) *daemon {
	return &daemon{
		functions: functions, digest: digest, instance: rand.Text(), limit: MaxWaiting, printed: func() Printed { return Printed{} },
		calls: map[uint64]*served{}, taken: make(chan struct{}),
	}
}

// A served call has its whole argument: it waits to start, runs, or has a result that waits for the client.
type served struct {
	id      uint64
	header  callHeader
	grace   time.Duration
	cancel  context.CancelCauseFunc
	stream  *Stream // nil if the call has none
	scratch *scratch
	steps   reporter

	// The fields below are guarded by the daemon.
	running  bool // its function has not returned
	finished bool
	quiet    bool // the client has the result, or has not asked for it
	result   codec.Body
	items    uint64 // that the function sent on the stream
	failure  *wireError
	begun    time.Time     // zero before the function is called
	elapsed  time.Duration // set with finished
	alone    bool          // no other function has run since it began
	from, to Printed
}

// ran returns how long the function has run, or did.
func (c *served) ran() time.Duration {
	if c.finished || c.begun.IsZero() {
		return c.elapsed
	}
	return time.Since(c.begun)
}

// check compares the client's expectations with this process.
func (d *daemon) check(h hello) *rejection {
	if h.Digest != "" {
		have, err := d.digest()
		if err != nil {
			return &rejection{rejectBinary, err.Error()}
		}
		if have != h.Digest {
			return &rejection{rejectBinary, fmt.Sprintf("it runs the one with SHA-256 %s, the client expects %s; ship the program again and restart the worker", have, h.Digest)}
		}
	}
	return nil
}

// list describes which functions a program has.
func list(names []string) string {
	switch {
	case len(names) == 0:
		return "the node's program has none"
	case len(names) > 20:
		return fmt.Sprintf("the node's program has %s and %d more", strings.Join(names[:20], ", "), len(names)-20)
	}
	return "the node's program has " + strings.Join(names, ", ")
}

// admit makes s the connection of the daemon's client, unless a newer client is known. Frames of older connections then
// have no effect. The welcome and the waiting results are in the outbox when it returns.
func (d *daemon) admit(s *session, h hello) *rejection {
	d.mu.Lock()
	defer d.mu.Unlock()
	same := h.Client == d.owner.Client
	switch {
	case d.owner.Client == "":
	case h.Generation < d.owner.Generation:
		return &rejection{rejectFenced, fmt.Sprintf("it serves generation %d, this client is of %d", d.owner.Generation, h.Generation)}
	case h.Generation == d.owner.Generation && !same:
		return &rejection{rejectFenced, fmt.Sprintf("another client is of generation %d too; a client that takes over needs a higher one", h.Generation)}
	case same && h.Attempt <= d.owner.Attempt:
		return &rejection{rejectFenced, "this connection was overtaken by a later one of the same client"}
	}
	if old := d.current; old != nil {
		if same {
			old.cut()
		} else {
			old.expel()
		}
	}
	d.current, d.owner = s, h

	quiet := make(map[uint64]bool, len(h.Open)+len(h.Kept)) // those that are not forgotten
	for _, id := range h.Open {
		quiet[id] = false
	}
	for _, id := range h.Kept {
		quiet[id] = true
	}
	theirs := make(map[uint64]streamState, len(h.Streams))
	for _, state := range h.Streams {
		theirs[state.ID] = state
	}
	w := welcome{Instance: d.instance, Functions: d.functions.names()}
	for id, c := range d.calls {
		q, named := quiet[id]
		if !named && !h.Adopt {
			d.forget(c)
			continue
		}
		c.quiet = q || !named
		w.Known = append(w.Known, id)
		if h.Adopt {
			w.Held = append(w.Held, heldCall{
				ID: id, Finished: c.finished, Header: c.header.appendTo(nil), Ran: int64(c.ran()), Alone: c.alone, From: c.from, To: c.to,
			})
		}
		if c.stream != nil {
			w.Streams = append(w.Streams, c.stream.state(id))
		}
	}
	s.out.add(frameWelcome, 0, raw(encodeWire(w)))
	for id, c := range d.calls {
		if state, ok := theirs[id]; ok && c.stream != nil {
			c.stream.attach(id, s.out, state.Received, state.Taken)
		}
		if c.quiet {
			continue
		}
		c.steps.addTo(s, true)
		if c.finished {
			s.sendResult(c)
		}
	}
	s.out.kick(false)
	return nil
}

// collect sends the result of an adopted call, as soon as there is one.
func (d *daemon) collect(s *session, id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	c := d.calls[id]
	if c == nil || d.current != s || !c.quiet {
		return
	}
	c.quiet = false
	c.steps.addTo(s, true)
	if c.finished {
		s.sendResult(c)
	}
	s.out.kick(false)
}

// leave records that a connection is over.
func (d *daemon) leave(s *session) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == s {
		d.current = nil
	}
}

// start begins a call whose argument is complete. It ignores a call that is known already.
func (d *daemon) start(s *session, id uint64, header callHeader, arg codec.Body) {
	meta := &Meta{Place: header.Place, Addrs: s.members[header.Members]}
	printed := d.printedBefore()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current != s || d.calls[id] != nil {
		return
	}
	meta.Node = d.owner.Node
	meta.scratch = newScratch(meta.Node, header.Place)
	c := &served{id: id, header: header, grace: d.owner.Grace, scratch: meta.scratch, running: true, from: printed}
	c.steps.d, c.steps.call = d, c
	meta.reporter = &c.steps
	ctx, cancel := context.WithCancelCause(ContextWithMeta(context.Background(), meta))
	c.cancel = cancel
	if header.Flags&flagStream != 0 {
		c.stream = NewStream()
		c.stream.attach(id, s.out, 0, 0)
	}
	d.calls[id] = c
	d.begins(c)
	go func() { // ends with the function; the process outlives it
		stack.Reserve()
		d.run(ctx, c, arg)
	}()
}

// printedBefore returns the output count at the start of a call. While other calls run it is the last known count:
// their output cannot be separated from that of the new call.
func (d *daemon) printedBefore() Printed {
	d.mu.Lock()
	alone, known := d.running == 0, d.known
	d.mu.Unlock()
	if alone {
		return d.printed()
	}
	return known
}

// begins counts a function that runs, with d.mu held.
func (d *daemon) begins(c *served) {
	if d.sole != nil {
		d.sole.alone, d.sole = false, nil
	}
	if d.running++; d.running == 1 {
		c.alone, d.sole = true, c
	}
}

// run waits until there is room for results, and then calls the function.
func (d *daemon) run(ctx context.Context, c *served, arg codec.Body) {
	defer d.returned(c)
	h, ok := d.functions.handler(c.header.Function)
	if !ok {
		d.finish(c, codec.Body{}, &wireError{Kind: NotRun, Message: fmt.Sprintf("unknown function %q: %s", c.header.Function, list(d.functions.names())), Known: []string{"worker.ErrUnknown"}})
		return
	}
	if err := d.room(ctx); err != nil {
		d.finish(c, codec.Body{}, notRun(err))
		return
	}
	if c.header.Flags&flagScratch != 0 && c.scratch != nil {
		if err := c.scratch.mark(); err != nil {
			d.finish(c, codec.Body{}, notRun(fmt.Errorf("make the scratch directory: %w", err)))
			return
		}
	}
	if c.header.Timeout > 0 {
		timed, cancel := context.WithTimeout(ctx, c.header.Timeout)
		defer cancel()
		ctx = timed
		overdue := time.AfterFunc(c.header.Timeout+c.grace, func() {
			d.finish(c, codec.Body{}, &wireError{
				Kind: NotRun, TimedOut: true, Known: []string{"context.DeadlineExceeded", "worker.ErrAbandoned"},
				Message: fmt.Sprintf("function %s ran for longer than its timeout of %v and ignored for %v that its context had ended", c.header.Function, c.header.Timeout, c.grace),
			})
		})
		defer overdue.Stop()
	}
	d.mu.Lock()
	c.begun = time.Now()
	d.mu.Unlock()
	invoke(ctx, h, arg, c.stream, func(result codec.Body, failure *wireError) {
		timedOut := c.header.Timeout > 0 && ctx.Err() == context.DeadlineExceeded
		if timedOut && failure == nil { // as a command that exits with 0 after TERM
			result, failure = codec.Body{}, &wireError{
				Kind: NotRun, Known: []string{"context.DeadlineExceeded"},
				Message: fmt.Sprintf("function %s returned after its timeout of %v, and its result is dropped", c.header.Function, c.header.Timeout),
			}
		}
		if failure != nil {
			failure.TimedOut = timedOut
		}
		d.finish(c, result, failure)
	})
}

// returned records that the function of a call has ended.
func (d *daemon) returned(c *served) {
	c.cancel(nil)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.running--
	c.running = false
	if d.sole == c {
		d.sole = nil
	}
	if d.calls[c.id] != c {
		d.tidy(c)
	}
}

// room waits until the waiting results are within the limit.
func (d *daemon) room(ctx context.Context) error {
	for {
		d.mu.Lock()
		full, taken := d.waiting > d.limit, d.taken
		d.mu.Unlock()
		if !full {
			return ctx.Err()
		}
		select {
		case <-taken:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func notRun(err error) *wireError {
	return &wireError{Kind: NotRun, Message: err.Error(), Known: sentinels.matching(err)}
}

// finish records how a call ended until the client has the result, and sends it if the client is connected. Only the
// first end of a call counts.
func (d *daemon) finish(c *served, result codec.Body, failure *wireError) {
	if err := checkLayout(result); err != nil {
		result, failure = codec.Body{}, notRun(err)
	}
	printed := d.printed()
	d.mu.Lock()
	if c.finished || d.calls[c.id] != c {
		d.mu.Unlock()
		return // answered already, or forgotten
	}
	if failure != nil {
		failure.Function = c.header.Function
	}
	c.elapsed, c.to = c.ran(), printed
	d.known = printed
	c.finished, c.result, c.failure = true, result, failure
	if c.stream != nil {
		c.items = c.stream.sent()
	}
	d.waiting += int64(result.Size())
	s, few := d.current, d.running <= fewCalls
	if c.quiet {
		s = nil
	}
	if s != nil {
		c.steps.addTo(s, false)
		s.sendResult(c)
	}
	d.mu.Unlock()
	if s != nil {
		s.out.kick(few)
	}
}

// stream returns the stream of a call, or nil if it has none.
func (d *daemon) stream(s *session, id uint64) *Stream {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.calls[id]; c != nil && d.current == s {
		return c.stream
	}
	return nil
}

// cancel ends the context of a call. A cause of nil is the usual one.
func (d *daemon) cancel(s *session, id uint64, cause error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.calls[id]; c != nil && d.current == s {
		c.cancel(cause)
	}
}

// acknowledge forgets a call whose result the client has or does not want.
func (d *daemon) acknowledge(s *session, id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if c := d.calls[id]; c != nil && d.current == s {
		d.forget(c)
	}
}

// forget drops a call, with d.mu held. A function that still runs is cancelled, and its result is dropped.
func (d *daemon) forget(c *served) {
	c.cancel(nil)
	delete(d.calls, c.id)
	if !c.running {
		d.tidy(c)
	}
	full := d.waiting > d.limit
	d.waiting -= int64(c.result.Size())
	if full {
		close(d.taken)
		d.taken = make(chan struct{})
	}
}

// tidy removes the files of a call that is over and forgotten.
func (d *daemon) tidy(c *served) {
	if c.scratch.wasMade() {
		go c.scratch.remove() // may take long, and no caller depends on it
	}
}

// refuse answers a call that was cancelled before all of it had arrived.
func (d *daemon) refuse(s *session, id uint64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.current == s {
		s.sendResult(&served{id: id, failure: notRun(context.Canceled)})
		s.out.kick(false)
	}
}
