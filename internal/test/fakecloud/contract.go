package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// A Contract is a vendor's description of an API: its operations, their requests and their answers.
type Contract interface {
	// Find finds the operation of a call, and sets Op and Vars.
	Find(c *Call) error
	// Operations returns the names of the API's operations.
	Operations() []string
	// Check reports what the contract does not allow in a request, and sets Input. Find must have succeeded before.
	Check(c *Call) error
	// Encode returns the answer to send, with its Body as []byte, or reports what the contract does not allow in it.
	Encode(c *Call, a Answer) (Answer, error)
}

// A Call is one request to a fake.
type Call struct {
	N      int    // the call's number on this server, from 1
	Op     string // the operation's name in Handle
	Method string
	Path   string // as sent, not unescaped
	Vars   map[string]string
	Query  url.Values
	Header http.Header
	Body   []byte
	// Input is the body as JSON values or, in a GraphQL or EC2 call, the
	// arguments by name.
	Input any

	contract Contract
	server   *Server
	lag      Lag

	undone, missing bool // set by the call's fault
	obeys           bool // the handler has called Undone or Missing
}

// Undone reports whether the handler must change nothing, but answer as if it had done the call.
func (c *Call) Undone() bool { c.obeys = true; return c.undone }

// Missing reports whether the handler must answer that the call's object does not exist.
func (c *Call) Missing() bool { c.obeys = true; return c.missing }

// Decode decodes Input into v. A mismatch is a bug of the fake, since the contract allows the request.
func (c *Call) Decode(v any) {
	b, err := json.Marshal(c.Input)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		c.server.t.Errorf("fakecloud: %s: the handler cannot read the request that the contract allows: %v", c.Op, err)
	}
}

// An Answer answers a call.
type Answer struct {
	Status int // zero means 200
	Header http.Header
	// Body is sent as text if it is a string or []byte. The contract encodes other values as JSON or XML. Nil means no
	// body.
	Body any
	// Undescribed skips the contract's checks. It is for answers that a service gives although its description lacks
	// them, such as 429.
	Undescribed bool
}

// Reply returns an Answer with a status and a body.
func Reply(status int, body any) Answer { return Answer{Status: status, Body: body} }

// Undescribed returns an Answer that the contract does not check.
func Undescribed(status int, body any) Answer {
	return Answer{Status: status, Body: body, Undescribed: true}
}

// With returns the answer with one more header.
func (a Answer) With(name, value string) Answer {
	a.Header = a.Header.Clone()
	if a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set(name, value)
	return a
}

// encode returns the answer with its body as bytes: JSON unless the body is text.
func (a Answer) encode() (Answer, error) {
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	var kind string
	switch body := a.Body.(type) {
	case nil:
		a.Body = []byte(nil)
	case []byte:
	case string:
		a.Body, kind = []byte(body), "text/plain; charset=utf-8"
	default:
		b, err := json.Marshal(body)
		if err != nil {
			return a, fmt.Errorf("the answer cannot be written as JSON: %w", err)
		}
		a.Body, kind = b, "application/json"
	}
	if kind != "" && a.Header.Get("Content-Type") == "" {
		a = a.With("Content-Type", kind)
	}
	return a, nil
}
