package fakecloud

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// A Contract is what is known of an API from its vendor: which operations it
// has, what their requests may hold, and what their answers may.
type Contract interface {
	// Find finds the operation that a call asks for, and sets Op and Vars.
	Find(c *Call) error
	// Has reports whether there is such an operation.
	Has(op string) bool
	// Check reports what is not allowed in the request of a call that Find has
	// found an operation for, and sets Input.
	Check(c *Call) error
	// Encode returns the answer as it is sent, its Body a []byte, or what is not
	// allowed in it.
	Encode(c *Call, a Answer) (Answer, error)
}

// A Call is one request to a fake.
type Call struct {
	N      int    // its place among the server's calls, from 1
	Op     string // the operation, as Handle was given it
	Method string
	Path   string // as it was sent, not unescaped
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

	undone, missing bool // by the call's fault
	obeys           bool // the handler has looked at these
}

// Undone reports that the handler is to answer as if it had done what the call asks for, and
// to change nothing.
func (c *Call) Undone() bool { c.obeys = true; return c.undone }

// Missing reports that the handler is to answer that what the call names does not exist.
func (c *Call) Missing() bool { c.obeys = true; return c.missing }

// Decode reads Input into v, which it has to fit: the request was checked.
func (c *Call) Decode(v any) {
	b, err := json.Marshal(c.Input)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		c.server.t.Errorf("fakecloud: %s: the handler cannot read the request that the contract allows: %v", c.Op, err)
	}
}

// An Answer is what a call is answered with.
type Answer struct {
	Status int // zero means 200
	Header http.Header
	// Body is the text, where it is a string or []byte. Other values are written
	// as the contract has it: as JSON or XML. Nil means no body.
	Body any
	// Undescribed sends what the contract does not know: for what services are
	// known to answer although their description lacks it, such as 429.
	Undescribed bool
}

// Reply is an Answer of a status and a body.
func Reply(status int, body any) Answer { return Answer{Status: status, Body: body} }

// Undescribed is an Answer that the contract does not know.
func Undescribed(status int, body any) Answer {
	return Answer{Status: status, Body: body, Undescribed: true}
}

// With returns the answer with one header more.
func (a Answer) With(name, value string) Answer {
	a.Header = a.Header.Clone()
	if a.Header == nil {
		a.Header = http.Header{}
	}
	a.Header.Set(name, value)
	return a
}

// encode returns the answer with its body as bytes, JSON unless it is text.
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
