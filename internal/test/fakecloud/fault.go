package fakecloud

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/providers/driver/fault"
)

// A Fault makes some calls fail or see an old state. Its parts take effect in the order of its fields.
type Fault struct {
	// Op is the operation's name in Handle. A final * makes it match all operations with that prefix. Empty matches
	// every operation.
	Op string
	// Skip is the number of matching calls that are not affected first.
	Skip int
	// Times is the number of calls that are affected: zero means one, and a negative number means all.
	Times int

	// Lag is the age of the state that the handler sees.
	Lag Lag
	// Undone makes the handler change nothing, but answer as if it had done the call. Missing makes it answer that the
	// call's object does not exist. A handler must check [Call.Undone] and [Call.Missing] for that. If it checks
	// neither, the test fails.
	Undone, Missing bool
	// After makes the parts below apply after the handler ran, and discards the handler's answer.
	After bool
	// Hold delays the call until the channel is closed. If the client disconnects first, the call ends: a handler that
	// has not run by then never runs.
	Hold <-chan struct{}
	// Cut cuts the connection. Go's HTTP client may then repeat a GET, as it does if any server hangs up.
	Cut bool
	// Answer is sent without the contract's checks, unless its Status is zero.
	Answer Answer
}

// Garbage, HTML and Empty return answers with a success status and an invalid body. Huge returns n bytes of JSON, which its header announces.
func Garbage() Answer { return asJSON("{\"data\":[{\"id\":\x00\xff") }
func HTML() Answer {
	return Reply(200, "<!DOCTYPE html><html><body><h1>Please stand by</h1></body></html>").With("Content-Type", "text/html")
}
func Empty() Answer { return asJSON("") }
func Huge(n int) Answer {
	body := bytes.Repeat([]byte("x"), max(n, 2))
	body[0], body[len(body)-1] = '"', '"'
	return Reply(200, body).With("Content-Type", "application/json").With("Content-Length", strconv.Itoa(len(body)))
}

func asJSON(text string) Answer { return Reply(200, text).With("Content-Type", "application/json") }

// Failure returns an answer with a status and a body. A non-empty retryAfter becomes the Retry-After header: a number
// of seconds, or a date.
func Failure(status int, body any, retryAfter string) Answer {
	a := Reply(status, body)
	if retryAfter != "" {
		a = a.With("Retry-After", retryAfter)
	}
	return a
}

// Of converts a fault of package fault to a Fault of every operation. A call that hangs does so until free is closed.
func Of(f fault.Fault, free <-chan struct{}) Fault {
	in := Fault{Times: f.Times, After: f.After}
	switch f.Kind {
	case fault.Failed:
		in.Answer = Failure(http.StatusInternalServerError, "internal error", "")
	case fault.Unavailable:
		in.Answer = Failure(http.StatusServiceUnavailable, "try again later", "")
	case fault.RateLimited:
		after := ""
		if f.RetryAfter > 0 {
			after = strconv.Itoa(int(f.RetryAfter / time.Second))
		}
		in.Answer = Failure(http.StatusTooManyRequests, "too many requests", after)
	case fault.Cut:
		in.Cut = true
	case fault.Garbage:
		in.Answer = Garbage()
	case fault.HTML:
		in.Answer = HTML()
	case fault.Empty:
		in.Answer = Empty()
	case fault.Huge:
		in.Answer = Huge(100 << 20)
	case fault.Hang:
		in.Hold, in.Cut = free, true
	case fault.Astray:
		in.Answer = HTML()
		in.Answer.Status = http.StatusNotFound
	case fault.Redirected:
		in.Answer = Reply(f.Status, "").With("Location", f.To)
	case fault.Undone:
		in.Undone = true
	case fault.Missing:
		in.Missing = true
	}
	return in
}

// Injected is a fault that was injected into a server.
type Injected struct {
	Fault
	server  *Server
	seen    int // matching calls so far
	hits    int
	reached chan struct{}
	once    sync.Once
}

// Inject adds a fault. If several match a call, the first that is not used up applies.
func (s *Server) Inject(f Fault) *Injected {
	if f.Times == 0 {
		f.Times = 1
	}
	in := &Injected{Fault: f, server: s, reached: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, in)
	return in
}

// Hits returns the number of calls that the fault has affected.
func (in *Injected) Hits() int {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	return in.hits
}

// Reached is closed when the fault affects its first call: if After is set, after the handler ran.
func (in *Injected) Reached() <-chan struct{} { return in.reached }

// Remove ends the fault. A call that is held remains held.
func (in *Injected) Remove() {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	in.Times = in.hits
}

// take returns the fault that affects a call, if any.
func (s *Server) take(c *Call) *Injected {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, in := range s.faults {
		prefix, all := strings.CutSuffix(in.Op, "*")
		if in.Op != "" && in.Op != c.Op && !(all && strings.HasPrefix(c.Op, prefix)) {
			continue
		}
		if in.Times >= 0 && in.hits >= in.Times {
			continue
		}
		if in.seen++; in.seen <= in.Skip {
			continue
		}
		in.hits++
		c.lag, c.undone, c.missing = in.Lag, in.Undone, in.Missing
		return in
	}
	return nil
}

// strike applies a fault to a call. It reports whether that ends the call.
func (s *Server) strike(ctx context.Context, in *Injected) (a Answer, done bool, err error) {
	in.once.Do(func() { close(in.reached) })
	if in.Hold != nil {
		select {
		case <-in.Hold:
		case <-ctx.Done():
			return a, true, errCut
		case <-s.done:
			return a, true, errCut
		}
	}
	switch {
	case in.Cut:
		return a, true, errCut
	case in.Answer.Status != 0:
		return s.plain(in.Answer), true, nil
	}
	return a, false, nil
}
