package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/hashicorp/go-retryablehttp"
)

// answer handles the answer to one attempt. Its error is an *Error.
func (k *call) answer(resp *http.Response) error {
	defer resp.Body.Close()
	c, status := k.client, resp.StatusCode
	c.tell(resp.Header)
	limit := c.cfg.MaxBody + 1
	large := resp.ContentLength > c.cfg.MaxBody && k.request.Method != http.MethodHead
	if large {
		limit = min(limit, excerptFrom)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, limit))
	large = large || int64(len(body)) > c.cfg.MaxBody
	c.hide(secretsIn(body, c.secretFields)...)

	e := k.newError(resp)
	e.Body = c.excerpt(body, err != nil || large)
	var fault *Fault
	if c.cfg.Fault != nil && err == nil && !large {
		fault = c.cfg.Fault(status, body)
	}
	switch {
	case fault != nil:
		e.Code, e.Message = c.Redact(fault.Code), c.Redact(oneLine(fault.Message))
		e.Status = cmp.Or(fault.Status, status)
		e.RetryAfter = cmp.Or(e.RetryAfter, fault.RetryAfter)
		e.transient, e.effect = judge(e.Status)
	case status < 200 || status >= 300:
		e.transient, e.effect = judge(status)
		if to, err := resp.Location(); err == nil && status < 400 {
			e.Message = c.Redact("redirects to " + to.Scheme + "://" + to.Host + to.Path + ", which is not followed")
		}
	case err != nil:
		e.transient, e.effect = true, true
		e.Err = c.clean(fmt.Errorf("the answer broke off after %d bytes: %w", len(body), k.ended(err)))
	default:
		if large {
			err = fmt.Errorf("it is larger than %d bytes", c.cfg.MaxBody)
		} else {
			err = decode(body, k.out, k.emptyAnswer, func(why error) bool {
				return LeftOut(k.request.Context(), c.clean(fmt.Errorf("%s: row %w", k.path, why)))
			})
		}
		if err == nil {
			if k.answered != nil {
				*k.answered = resp.Header
			}
			k.log(status, nil)
			return nil
		}
		// It may come from a proxy or a gateway that is being restarted. An answer that is too large would be so again.
		e.transient, e.effect = !large, true
		kind := cmp.Or(resp.Header.Get("Content-Type"), "no content type")
		e.Err = c.clean(fmt.Errorf("%w (%s, %d bytes): %w", ErrAnswer, kind, max(int64(len(body)), resp.ContentLength), err))
	}
	return e
}

// noAnswer returns the error of an attempt without an answer.
func (k *call) noAnswer(err error) *Error {
	e := k.newError(nil)
	e.transient, _ = retryablehttp.DefaultRetryPolicy(context.Background(), nil, err)
	permanent := !e.transient // an invalid header or scheme, a certificate: all before anything is sent
	e.effect = k.connected.Load() || !(permanent || k.noConnection(err))
	e.Err = k.client.clean(k.ended(err))
	if k.request.Context().Err() == nil && time.Since(k.began) >= k.timeout {
		e.Err = fmt.Errorf("no answer within %v: %w", k.timeout, e.Err)
	}
	return e
}

// noConnection reports whether an attempt is known to have had no connection for its request: from a transport that
// reports connections, or from the error of a net.Dialer.
func (k *call) noConnection(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return k.dialing.Load() || ok && op.Op == "dial"
}

// interrupted returns the error of a call that ended between its attempts, or before the first. It has the error of the
// last attempt, if there was one.
func (k *call) interrupted(err error) error {
	err = k.ended(err)
	e := k.newError(nil)
	signing, unsigned := errors.AsType[*Error](err)
	switch {
	case k.failure != nil:
		*e = *k.failure
		if e.Err != nil {
			err = fmt.Errorf("%w; then, before it was tried again: %w", e.Err, err)
		} else {
			err = fmt.Errorf("before it was tried again: %w", err)
		}
	case unsigned: // a refused token makes a refused call
		e.Status, e.Code, e.RequestID, e.RetryAfter = signing.Status, signing.Code, signing.RequestID, signing.RetryAfter
	}
	e.Err = k.client.clean(err)
	return e
}

// ended returns err, or the cause if the call's context has ended.
func (k *call) ended(err error) error {
	ctx := k.request.Context()
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return fmt.Errorf("%w (%w)", cause, ctx.Err())
	}
	return ctx.Err()
}

// newError returns an Error of this call, with values from the answer's header.
func (k *call) newError(resp *http.Response) *Error {
	e := &Error{Method: k.request.Method, Path: k.client.Redact(k.path)}
	if resp != nil {
		e.Status = resp.StatusCode
		e.RequestID = k.client.Redact(requestID(resp.Header))
		e.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	return e
}
