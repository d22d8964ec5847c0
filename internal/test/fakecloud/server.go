package fakecloud

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Config configures the server of a fake. Only Contracts is required.
type Config struct {
	// Contracts describe the API. The first one that has a request's operation applies. The fake must handle all their
	// operations, so that the descriptions have no others.
	Contracts []Contract
	// Authorized reports whether a call has the right key. Nil accepts all calls.
	Authorized func(*Call) bool
	// Public are operations that need no key.
	Public []string
	// Unauthorized is the vendor's answer to a call without the right key. Zero means 401 without a body.
	Unauthorized Answer
	// Refused returns the vendor's answer to a request that the contract does not allow: 404 for an unknown operation,
	// 400 otherwise. Nil means {"error": complaint}.
	Refused func(status int, complaint string) Answer
}

// A Handler applies an operation to the fake's state and answers. Handlers run one at a time, so the state needs no
// lock.
type Handler func(c *Call) Answer

// A Server answers like a cloud's API. A request or a handler's answer that the contract does not allow fails the test.
// A call without the right key does not fail the test: the server refuses it, as the vendor does.
type Server struct {
	// URL is http://127.0.0.1:port, without a contract's base path.
	URL string

	t    testing.TB
	cfg  Config
	done chan struct{} // closed when the test is over: then no call is held any more

	state sync.Mutex // held by Do, and while a handler runs
	after []func()   // called after each of them, while it is held

	mu       sync.Mutex // guards the fields below
	handlers map[string]Handler
	records  []*Record
	faults   []*Injected
}

// Start starts a server that ends with the test.
func Start(t testing.TB, cfg Config) *Server {
	t.Helper()
	s := &Server{t: t, cfg: cfg, done: make(chan struct{}), handlers: map[string]Handler{}}
	if s.cfg.Unauthorized.Status == 0 {
		s.cfg.Unauthorized.Status = http.StatusUnauthorized
	}
	if s.cfg.Refused == nil {
		s.cfg.Refused = func(status int, complaint string) Answer {
			return Reply(status, map[string]string{"error": complaint})
		}
	}
	hs := httptest.NewServer(http.HandlerFunc(s.serve))
	s.URL = hs.URL
	host := strings.TrimPrefix(s.URL, "http://")
	servers.Store(host, s)
	t.Cleanup(func() {
		servers.Delete(host)
		close(s.done)
		hs.CloseClientConnections()
		hs.Close()
		s.unhandled()
	})
	return s
}

// unhandled fails the test for every operation of the contracts that the fake does not handle.
func (s *Server) unhandled() {
	if s.t.Failed() || s.t.Skipped() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.cfg.Contracts {
		for _, op := range c.Operations() {
			if s.handlers[op] == nil {
				s.t.Errorf("fakecloud: the description has %s, and the fake does not handle it: remove it, unless the driver makes this call", op)
			}
		}
	}
}

// Handle makes h answer an operation. The name is the contract's name for it.
func (s *Server) Handle(op string, h Handler) {
	s.t.Helper()
	if !slices.ContainsFunc(s.cfg.Contracts, func(c Contract) bool { return slices.Contains(c.Operations(), op) }) {
		s.t.Fatalf("fakecloud: no contract has an operation %q", op)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[op] = h
}

// Do runs f while no handler runs. In f, a test reads and changes the fake's state. f must not call the server.
func (s *Server) Do(f func()) {
	s.state.Lock()
	defer s.state.Unlock()
	defer s.look()
	f()
}

// look calls what looks at the fake's state after each change.
func (s *Server) look() {
	for _, f := range s.after {
		f()
	}
}

// errCut means that the server must cut the connection instead of answering.
var errCut = errors.New("cut")

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has disconnected
	}
	header := r.Header.Clone()
	header.Set("Host", r.Host)
	c := &Call{Method: r.Method, Path: r.URL.EscapedPath(), Query: r.URL.Query(), Header: header, Body: body, server: s}
	record := s.enter(c)
	a, err := s.answer(r.Context(), c, record)
	if err != nil {
		panic(http.ErrAbortHandler) // cuts the connection without a log line
	}
	s.mu.Lock()
	record.Status = a.Status
	s.mu.Unlock()
	for name, values := range a.Header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.Status)
	w.Write(a.Body.([]byte))
}

// answer handles a recorded call and returns its answer. The only error is errCut.
func (s *Server) answer(ctx context.Context, c *Call, record *Record) (Answer, error) {
	if err := s.find(c); err != nil {
		return s.refuse(c, http.StatusNotFound, err), nil
	}
	s.mu.Lock()
	record.Op = c.Op
	handler := s.handlers[c.Op]
	s.mu.Unlock()
	if s.cfg.Authorized != nil && !slices.Contains(s.cfg.Public, c.Op) && !s.cfg.Authorized(c) {
		return s.plain(s.cfg.Unauthorized), nil
	}
	if err := c.contract.Check(c); err != nil {
		return s.refuse(c, http.StatusBadRequest, err), nil
	}
	if handler == nil {
		return s.refuse(c, http.StatusNotFound, errors.New("the fake has no handler for it")), nil
	}

	fault := s.take(c)
	if fault != nil && !fault.After {
		if a, done, err := s.strike(ctx, fault); done {
			return a, err
		}
	}
	a, err := s.handle(c, handler)
	if (c.undone || c.missing) && !c.obeys {
		s.t.Errorf("fakecloud: %s: a fault is Undone or Missing, and the handler looks at neither", c.Op)
	}
	if err != nil {
		s.t.Errorf("fakecloud: %s: the contract does not allow the fake's answer: %v", c.Op, err)
		a = s.plain(Reply(http.StatusInternalServerError, "the contract does not allow the fake's answer: "+err.Error()))
	}
	if fault != nil && fault.After {
		if a, done, err := s.strike(ctx, fault); done {
			return a, err
		}
	}
	return a, nil
}

// find finds the contract that has the operation, or returns why none has.
func (s *Server) find(c *Call) error {
	var errs []error
	for _, contract := range s.cfg.Contracts {
		err := contract.Find(c)
		if err == nil {
			c.contract = contract
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// handle runs a handler, and encodes its answer.
func (s *Server) handle(c *Call, h Handler) (Answer, error) {
	a, ok := s.run(c, h)
	if !ok {
		return a, errors.New("there is none: the handler panicked")
	}
	return c.contract.Encode(c, a)
}

// run runs a handler alone. A panic fails the test.
func (s *Server) run(c *Call, h Handler) (a Answer, ok bool) {
	s.state.Lock()
	defer s.state.Unlock() // even if the handler ends its goroutine by Fatal
	defer s.look()
	defer func() {
		if p := recover(); p != nil {
			s.t.Errorf("fakecloud: %s: %v\n%s", c.Op, p, debug.Stack())
		}
	}()
	return h(c), true
}

// refuse fails the test, and returns the vendor's answer to a bad request.
func (s *Server) refuse(c *Call, status int, err error) Answer {
	what := c.Method + " " + c.Path
	if c.Op != "" && c.Op != what {
		what += " (" + c.Op + ")"
	}
	s.t.Errorf("fakecloud: %s: the contract does not allow the request: %v", what, err)
	return s.plain(s.cfg.Refused(status, err.Error()))
}

// plain encodes an answer without a contract's checks.
func (s *Server) plain(a Answer) Answer {
	a, err := a.encode()
	if err != nil {
		panic(fmt.Sprintf("fakecloud: %v", err)) // the test's own value cannot be encoded as JSON
	}
	return a
}
