package rest

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// ErrAnswer means that the status was good and the body was not the expected one: empty, too large, not JSON, or JSON
// of another shape.
var ErrAnswer = errors.New("the answer is not understood")

// A Fault is a failure as the API describes it.
type Fault struct {
	// Code identifies the failure for programs; Message is for people.
	Code, Message string
	// Status is for APIs that put a status of their own into the body of a 200. It replaces the answer's status. Zero
	// keeps that: a fault under a 200 is then a refusal, without effect.
	Status int
	// RetryAfter is for APIs that ask in the body, and not in a header, how long to wait.
	RetryAfter time.Duration
}

// An Error is a failed call. It holds no known secret.
type Error struct {
	// Method and Path are the call's, without the query.
	Method, Path string
	// Status is the answer's, or the Fault's. Zero means that no answer came.
	Status int
	// RequestID is the API's identifier of the answer, for its support desk.
	RequestID string
	// Code and Message are the Fault's.
	Code, Message string
	// Body is the beginning of the answer.
	Body string
	// RetryAfter is how long the API asks to wait. Zero means that it does not ask.
	RetryAfter time.Duration
	// Err is the cause, unless it is the answer itself: a network's error, context.Canceled, ErrAnswer.
	Err error

	transient bool // another attempt may succeed
	effect    bool // the last attempt may have had an effect
	ambiguous bool // any attempt may have had one
	pending   bool // any attempt may have one later: it was sent, and the API did not answer it
}

// Ambiguous reports whether the call may have had an effect: it was sent, it is not a read, and no trustworthy answer
// says that it had none. The caller must look for what it may have made.
func (e *Error) Ambiguous() bool { return e.ambiguous }

// Answered reports whether the API answered every attempt that was sent, so that no request is under way any more.
// gputrain.CallError asks for it.
func (e *Error) Answered() bool { return !e.pending }

// byAPI reports whether the API itself has answered an attempt, and not a gateway that got no answer from it, as far as
// the status and the text show.
func (e *Error) byAPI() bool {
	switch {
	case e.Status == http.StatusRequestTimeout, e.Status == 499, e.Status == http.StatusBadGateway, e.Status == http.StatusGatewayTimeout:
		return false
	case e.Status > http.StatusNotImplemented:
		return e.Code+e.Message != ""
	}
	return e.Status != 0
}

// Last returns the error of the last attempt alone: if a repeated delete ends with a 404, there is nothing left to
// delete.
func (e *Error) Last() *Error {
	last := *e
	last.ambiguous = e.ambiguous && e.effect
	return &last
}

// Error returns the call, the status, the API's message and the cause in one line.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Method + " " + e.Path)
	if e.Status != 0 {
		b.WriteString(": " + strings.TrimSpace(fmt.Sprintf("%d %s", e.Status, http.StatusText(e.Status))))
	}
	for _, s := range []string{e.Code, e.Message} {
		if s != "" {
			b.WriteString(": " + s)
		}
	}
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	if e.Body != "" && e.Code+e.Message == "" {
		fmt.Fprintf(&b, ": %q", head(e.Body, maxQuote))
	}
	if e.ambiguous {
		b.WriteString("; it may have taken effect")
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

const (
	maxExcerpt = 4 << 10
	maxQuote   = 256

	excerptFrom = 64 << 10 // bytes of an answer, which are more than remain of it
)

// excerpt returns the beginning of an answer for an Error. A truncated body may end within a secret.
func (c *Client) excerpt(body []byte, cut bool) string {
	if len(body) > excerptFrom {
		body, cut = body[:excerptFrom], true
	}
	return head(strings.ToValidUTF8(c.redact(string(body), cut), "\uFFFD"), maxExcerpt)
}

// head returns the first n bytes of s, without a part of a rune.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// clean returns a cause without secrets: without the URL that net/http adds, and as plain redacted text if the text
// still has one.
func (c *Client) clean(err error) error {
	if u, ok := err.(*url.Error); ok {
		err = u.Err
	}
	if text := err.Error(); c.Redact(text) != text {
		return &redacted{text: c.Redact(text), is: func(target error) bool { return errors.Is(err, target) }}
	}
	return err
}

// A redacted error can be compared, but not unwrapped.
type redacted struct {
	text string
	is   func(error) bool
}

func (e *redacted) Error() string        { return e.text }
func (e *redacted) Is(target error) bool { return e.is(target) }

// requestID returns the identifier of the answer from the usual headers.
func requestID(h http.Header) string {
	return cmp.Or(h.Get("X-Request-Id"), h.Get("Request-Id"), h.Get("X-Correlation-Id"), h.Get("X-Trace-Id"), h.Get("Cf-Ray"))
}
