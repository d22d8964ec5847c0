package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// A call is one use of Do: one request with all its attempts.
type call struct {
	options
	client  *Client
	path    string
	request *retryablehttp.Request
	out     any
	limits  []*Limiter

	attempt   int
	began     time.Time   // when this attempt began
	dialing   atomic.Bool // this attempt: the transport reports its connections, and looked for one
	connected atomic.Bool // this attempt: it had a connection
	waiting   bool        // between two attempts
	failure   *Error      // of the last attempt
	renewed   bool        // a refused credential was replaced
}

// newCall returns a call for run.
func (c *Client) newCall(ctx context.Context, method, path string, in, out any, opts []Option) (*call, error) {
	if !strings.HasPrefix(path, "/") || strings.ContainsAny(path, "?#") {
		return nil, errors.New("a path begins with a slash, and has neither query nor fragment")
	}
	body, contentType, err := encode(in)
	if err != nil {
		return nil, fmt.Errorf("encoding the request: %w", err)
	}
	k := &call{client: c, options: newOptions(method, opts), path: path, out: out}
	k.timeout = cmp.Or(k.timeout, c.http.Timeout)
	for _, l := range []*Limiter{k.limit, c.cfg.Limit} {
		if l != nil && !slices.Contains(k.limits, l) {
			k.limits = append(k.limits, l)
		}
	}
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn: func(string) { k.dialing.Store(true) },
		GotConn: func(httptrace.GotConnInfo) { k.connected.Store(true) },
	})
	k.request, err = retryablehttp.NewRequestWithContext(ctx, method, c.cfg.BaseURL+path, body)
	if err != nil {
		return nil, err
	}
	k.request.URL.RawQuery = k.query.Encode()
	k.request.SetResponseHandler(k.answer)
	h := k.request.Header
	h.Set("User-Agent", userAgent())
	h.Set("Accept", "application/json")
	if _, text := out.(*string); text {
		h.Set("Accept", "*/*")
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	for name, values := range k.header {
		h[name] = values
	}
	return k, nil
}

// run makes the call. The loop is retryablehttp's; check and backoff decide whether and when it repeats the request.
func (k *call) run() error {
	if err := k.prepare(k.request.Request); err != nil {
		return k.interrupted(err)
	}
	transport := *k.client.http
	transport.Timeout = k.timeout
	loop := retryablehttp.Client{
		HTTPClient:   &transport,
		RetryMax:     k.client.cfg.Attempts - 1,
		CheckRetry:   k.check,
		Backoff:      k.backoff,
		PrepareRetry: k.prepare,
		ErrorHandler: retryablehttp.PassthroughErrorHandler,
	}
	_, err := loop.Do(k.request) // answer closes the body
	switch {
	case err == nil:
		return nil
	case k.waiting:
		return k.interrupted(err)
	default:
		return k.failure
	}
}

// prepare waits until the limits allow the next attempt, and then signs it: a token might expire while the call waits.
func (k *call) prepare(req *http.Request) error {
	k.waiting = true
	if err := wait(req.Context(), k.limits...); err != nil {
		return err
	}
	// An abandoned attempt may still be reading these.
	u := *req.URL
	req.URL, req.Header = &u, req.Header.Clone()
	if sign := k.client.cfg.Auth.Sign; sign != nil {
		if err := sign(req, k.client.hide); err != nil {
			return err
		}
	}
	k.attempt++
	k.dialing.Store(false)
	k.connected.Store(false)
	k.waiting, k.began = false, time.Now()
	return nil
}
