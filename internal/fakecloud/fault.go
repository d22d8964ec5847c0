package fakecloud

import (
	"context"
	"strings"
	"sync"
)

// A Fault is what goes wrong with some calls. Its parts come in the order that
// they have here.
type Fault struct {
	// Op is the operation that it hits, as Handle was given it. One that ends in
	// * stands for all that begin so; empty means every operation.
	Op string
	// Skip lets so many calls pass first.
	Skip int
	// Times is how many calls it hits: zero means one, and less than zero all.
	Times int

	// Lag is how far behind the state is that the handler sees.
	Lag Lag
	// Undone has the handler answer as if it had done what the call asks for, and change
	// nothing. Missing has it answer that what the call names does not exist. Only handlers
	// that look at [Call.Undone] and [Call.Missing] can do so: others fail the test.
	Undone, Missing bool
	// After has what follows come after the handler's effect, whose answer is
	// thrown away then, not before it.
	After bool
	// Hold delays the call until it is closed. A client that gives up first
	// leaves the call where it stands: a handler to come does not run.
	Hold <-chan struct{}
	// Cut cuts the connection. As it does for any server that hangs up, Go's
	// HTTP client may repeat a GET by itself.
	Cut bool
	// Answer is sent, whatever the contract says, unless its Status is zero.
	Answer Answer
}

// Garbage, HTML and Empty are answers with a status of success and a body that
// is none of the API's; Huge is n bytes of JSON.
func Garbage() Answer { return asJSON("{\"data\":[{\"id\":\x00\xff") }
func HTML() Answer {
	return Reply(200, "<!DOCTYPE html><html><body><h1>Please stand by</h1></body></html>").With("Content-Type", "text/html")
}
func Empty() Answer     { return asJSON("") }
func Huge(n int) Answer { return asJSON(`"` + strings.Repeat("x", max(n, 2)-2) + `"`) }

func asJSON(text string) Answer { return Reply(200, text).With("Content-Type", "application/json") }

// Failure is an answer of a status and a body. A retryAfter that is not empty
// becomes the header: a number of seconds, or a date.
func Failure(status int, body any, retryAfter string) Answer {
	a := Reply(status, body)
	if retryAfter != "" {
		a = a.With("Retry-After", retryAfter)
	}
	return a
}

// Injected is a fault that a server has.
type Injected struct {
	Fault
	server  *Server
	seen    int // calls that it could have hit
	hits    int
	reached chan struct{}
	once    sync.Once
}

// Inject adds a fault. Of several for one call the first counts that is not
// used up.
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

// Hits returns how many calls the fault has hit.
func (in *Injected) Hits() int {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	return in.hits
}

// Reached is closed when the fault hits its first call: where After is set, once
// the handler has done its effect.
func (in *Injected) Reached() <-chan struct{} { return in.reached }

// Remove ends the fault. A call that it holds goes on being held.
func (in *Injected) Remove() {
	in.server.mu.Lock()
	defer in.server.mu.Unlock()
	in.Times = in.hits
}

// take returns the fault that hits a call, if any.
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

// strike does what a fault does to a call. It reports whether that ends it.
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
