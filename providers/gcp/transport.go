package gcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/googleapis/gax-go/v2/callctx"
	"github.com/hashicorp/go-cleanhttp"
)

// maxAnswer is how many bytes an answer may have.
const maxAnswer = 64 << 20

var errTooLarge = fmt.Errorf("%w: it is larger than %d bytes", errAnswer, maxAnswer)

// callHeader tells the transport which call a request is part of. It is not sent.
const callHeader = "X-Gputrain-Call"

// A transport is what stands between Google's client and the network: it signs, bounds
// how long and how large an answer is, and has requests end with their calls, which
// those of the client's lists do not do by themselves.
type transport struct {
	base    http.RoundTripper
	id      *identity // nil where calls are not signed
	hide    func(...string)
	timeout time.Duration

	last  atomic.Int64
	calls sync.Map // contexts, by the value of callHeader
}

// transport returns what makes the calls, and what gives up its connections where they
// are nobody else's.
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

// listing returns a context by which a list's requests end with ctx, until done.
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
	ctx, cancel := context.WithTimeout(ctx, t.timeout)
	own := req.Clone(ctx)
	own.Header.Del(callHeader)
	if t.id != nil {
		if err := t.id.sign(own, t.hide); err != nil {
			cancel()
			if req.Body != nil {
				req.Body.Close()
			}
			return nil, err
		}
	}
	resp, err := t.base.RoundTrip(own)
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &answer{body: resp.Body, cancel: cancel}
	return resp, nil
}

// An answer is a body that is not read too far, and whose failure is told from that of
// what was read.
type answer struct {
	body   io.ReadCloser
	cancel func()
	read   int64
}

// A brokenError is an answer that broke off.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

func (a *answer) Read(p []byte) (int, error) {
	n, err := a.body.Read(p)
	switch a.read += int64(n); {
	case a.read > maxAnswer:
		return n, errTooLarge
	case err != nil && !errors.Is(err, io.EOF):
		return n, &brokenError{err}
	}
	return n, err
}

func (a *answer) Close() error {
	defer a.cancel()
	return a.body.Close()
}
