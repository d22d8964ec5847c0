package rest

import (
	"net/http"
	"net/url"
	"time"
)

// An Option modifies one call.
type Option func(*options)

type options struct {
	query       url.Values
	header      http.Header
	limit       *Limiter
	timeout     time.Duration
	safe        bool // the call has no effect
	idempotent  bool // has the same effect however often it is made
	once        bool
	emptyAnswer bool
	answered    *http.Header
}

// Query adds values to the URL.
func Query(values url.Values) Option { return func(o *options) { o.query = values } }

// Header sets a header of the request.
func Header(name, value string) Option { return func(o *options) { o.header.Set(name, value) } }

// Limit spaces this call, besides Config.Limit, with the others of the same limiter: launches, or an endpoint with a
// limit of its own.
func Limit(l *Limiter) Option { return func(o *options) { o.limit = l } }

// Timeout bounds one attempt at this call, in place of Config.Timeout.
func Timeout(d time.Duration) Option { return func(o *options) { o.timeout = d } }

// AnswerHeader sets h to the header of the answer.
func AnswerHeader(h *http.Header) Option { return func(o *options) { o.answered = h } }

// Safe marks a call that changes nothing, whatever its method: a search by POST, a GraphQL query. It is repeated as GET
// and HEAD are.
func Safe(o *options) { o.safe, o.idempotent = true, true }

// Idempotent marks a call that has the same effect however often it is made: a create with an idempotency token, an
// update to a given state. It is repeated even if it may have had its effect. DELETE is idempotent without it.
func Idempotent(o *options) { o.idempotent = true }

// Once marks a call that is never repeated, not even if it certainly had no effect. It counts as having one: a GET may
// change something.
func Once(o *options) { o.once, o.safe, o.idempotent = true, false, false }

// EmptyAnswer marks a call whose answer may be empty; out is then unchanged. Without it an empty answer is an error if
// out is not nil.
func EmptyAnswer(o *options) { o.emptyAnswer = true }

func newOptions(method string, opts []Option) options {
	o := options{header: http.Header{}}
	switch method {
	case http.MethodGet, http.MethodHead:
		Safe(&o)
	case http.MethodDelete:
		Idempotent(&o)
	}
	for _, opt := range opts {
		opt(&o)
	}
	return o
}
