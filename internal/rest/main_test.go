package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secret = "sk-test/0123+abc"

// A step answers one attempt.
type step func(*http.Request) (*http.Response, error)

// replies answers with a status, a body and headers, as name and value in turn.
func replies(status int, body string, header ...string) step {
	return func(req *http.Request) (*http.Response, error) {
		r := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Request: req, ContentLength: -1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body))}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		return r, nil
	}
}

// breaksOff answers with a body that ends too early.
func breaksOff(body string) step {
	return func(req *http.Request) (*http.Response, error) {
		r, err := replies(http.StatusOK, "")(req)
		r.Body = io.NopCloser(io.MultiReader(strings.NewReader(body), failingReader{io.ErrUnexpectedEOF}))
		return r, err
	}
}

type failingReader struct{ err error }

func (r failingReader) Read([]byte) (int, error) { return 0, r.err }

// fails is an attempt without an answer.
func fails(err error) step {
	return func(*http.Request) (*http.Response, error) { return nil, err }
}

// hangs is an attempt that lasts until its context ends.
func hangs(req *http.Request) (*http.Response, error) {
	<-req.Context().Done()
	return nil, req.Context().Err()
}

var (
	refused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	reset   = &net.OpError{Op: "read", Net: "tcp", Err: syscall.ECONNRESET}
)

// A script is a transport in memory. Its steps answer in turn, and the last one repeats.
type script struct {
	steps []step

	mu   sync.Mutex
	seen []*http.Request
}

func (s *script) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	step := s.steps[min(len(s.seen), len(s.steps)-1)]
	s.seen = append(s.seen, req)
	s.mu.Unlock()
	if req.Body != nil {
		defer req.Body.Close()
	}
	return step(req)
}

func (s *script) attempts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.seen)
}

// scripted returns a client of an API that follows a script.
func scripted(t testing.TB, cfg Config, steps ...step) (*Client, *script) {
	t.Helper()
	s := &script{steps: steps}
	cfg.BaseURL = "https://api.acme.test/v1"
	cfg.HTTPClient = &http.Client{Transport: s}
	return newClient(t, cfg), s
}

// served returns a client of a real server.
func served(t testing.TB, cfg Config, handler http.HandlerFunc) *Client {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	cfg.BaseURL = server.URL + "/v1/"
	return newClient(t, cfg)
}

func newClient(t testing.TB, cfg Config) *Client {
	t.Helper()
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// readFault reads the error envelopes of the clouds' APIs.
func readFault(status int, body []byte) *Fault {
	var envelope struct {
		Success *bool
		Error   json.RawMessage
		Code    any
		Message any
		Detail  any
		Status  any
	}
	if json.NewDecoder(bytes.NewReader(body)).Decode(&envelope) != nil {
		return nil
	}
	f := &Fault{}
	for _, text := range []any{envelope.Message, envelope.Detail} {
		if s, ok := text.(string); ok && f.Message == "" {
			f.Message = s
		}
	}
	f.Code, _ = envelope.Code.(string)
	var inner struct{ Code, Message string }
	if json.Unmarshal(envelope.Error, &inner) == nil && inner.Code != "" {
		f.Code, f.Message = inner.Code, inner.Message
	} else if s := ""; json.Unmarshal(envelope.Error, &s) == nil && s != "" {
		f.Code = s
	}
	number, _ := envelope.Status.(float64)
	if status == http.StatusOK && number >= 400 && number < 600 {
		f.Status = int(number)
	}
	refused := envelope.Success != nil && !*envelope.Success
	if status < 300 && !refused && f.Status == 0 {
		return nil
	}
	return f
}

// failure returns the *Error of a call that must have failed.
func failure(t testing.TB, err error) *Error {
	t.Helper()
	e, ok := err.(*Error)
	if !ok {
		t.Fatalf("the error is %v (%T), not an *Error", err, err)
	}
	return e
}

func bounded(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	t.Cleanup(cancel)
	return ctx
}

var discard = log.New(io.Discard, "", 0)
