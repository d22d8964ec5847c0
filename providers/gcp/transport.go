package gcp

import (
	"context"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/googleapis/gax-go/v2/callctx"
	"github.com/hashicorp/go-cleanhttp"
)

// maxAnswer bounds the bytes of an answer.
const maxAnswer = 64 << 20

// callHeader identifies a request's call to the transport. It is not sent.
const callHeader = "X-Gputrain-Call"

// A transport does what no option of Google's client does over a user's own transport: it signs
// requests with tokens and removes those from errors, bounds the size of an answer, and ends
// the requests of lists with their calls, which Google's client makes without a context.
type transport struct {
	base http.RoundTripper
	id   *identity // nil if calls are not signed
	hide func(...string)

	last  atomic.Int64
	calls sync.Map // contexts, by the value of callHeader
}

// transport returns the transport that makes the calls, and a func that closes its connections
// unless they are another program's.
func (c Config) transport() (http.RoundTripper, func()) {
	if c.HTTPClient == nil {
		own := cleanhttp.DefaultPooledTransport()
		return own, own.CloseIdleConnections
	}
	if c.HTTPClient.Transport == nil {
		return http.DefaultTransport, func() {}
	}
	return c.HTTPClient.Transport, func() {}
}

// listing returns a context that ends a list's requests with ctx, until done is called.
func (t *transport) listing(ctx context.Context) (_ context.Context, done func()) {
	id := strconv.FormatInt(t.last.Add(1), 10)
	t.calls.Store(id, ctx)
	return callctx.SetHeaders(ctx, callHeader, id), func() { t.calls.Delete(id) }
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx := req.Context()
	if listing, ok := t.calls.Load(req.Header.Get(callHeader)); ok {
		ctx = listing.(context.Context)
	}
	own := req.Clone(ctx)
	own.Header.Del(callHeader)
	if t.id != nil {
		if err := t.id.sign(own, t.hide); err != nil {
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := t.base.RoundTrip(own)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, maxAnswer)
	}
	return resp, err
}
