package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// Form puts a failure into the form that callers see. told returns the Kind, Hint and RequestID
// of an error. Form does not call it for an error that has a kind already; if that one is
// wrapped, its hint is in the text.
func Form(provider, op string, err error, told func(err error) driver.Error) error {
	if err == nil {
		return nil
	}
	var e driver.Error
	known, ok := errors.AsType[*driver.Error](err)
	switch {
	case !ok:
		e = told(err)
		e.Err = err
	case known.Provider != "":
		return err // it has its form
	case err == error(known):
		e = driver.Error{Kind: known.Kind, Hint: known.Hint, Err: known.Err}
	default:
		e = driver.Error{Kind: known.Kind, Err: err}
	}
	e.Provider, e.Op = provider, op
	return &e
}

// Fail is [Form] for clouds that speak HTTP. classify returns the kind of a failure by the
// cloud's text, and a hint about it.
func Fail(provider, op string, err error, classify func(op string, err error) (hint string, kind error)) error {
	formed := Form(provider, op, err, func(err error) (e driver.Error) {
		e.Hint, e.Kind = kindOf(op, err, classify)
		return e
	})
	e, ok := formed.(*driver.Error)
	if !ok || formed == err {
		return formed
	}
	if known, ok := errors.AsType[*driver.Error](err); ok {
		e.Hint = known.Hint
	}
	e.RequestID = RequestID(err)
	return e
}

// RequestID returns the cloud's ID of the request that failed, or "".
func RequestID(err error) string {
	if answer, ok := errors.AsType[*rest.Error](err); ok {
		return answer.RequestID
	}
	return ""
}

// about adds the subject of a failure to its text. A hint in the error stays where Fail finds
// it, so that it appears once.
func about(what string, err error) error {
	known, ok := err.(*driver.Error)
	if !ok || known.Provider != "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	e := *known
	e.Err = fmt.Errorf("%s: %w", what, known.Err)
	return &e
}

func kindOf(op string, err error, classify func(op string, err error) (hint string, kind error)) (hint string, kind error) {
	if known, ok := errors.AsType[*driver.Error](err); ok {
		return known.Hint, known.Kind
	}
	if hint, kind = classify(op, err); kind != nil {
		return hint, kind
	}
	return hint, StatusKind(err)
}

// StatusKind returns the kind of a failure by HTTP alone, or nil if HTTP does not decide it.
func StatusKind(err error) error {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		switch {
		case errors.Is(err, driver.ErrInvalid):
			return driver.ErrInvalid
		case errors.Is(err, rest.ErrAnswer), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return driver.ErrUnavailable
		}
		return nil
	}
	switch {
	case e.Ambiguous():
		return driver.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return driver.ErrAuth
	case e.Status == http.StatusPaymentRequired:
		return driver.ErrBalance
	case e.Status == http.StatusNotFound, e.Status == http.StatusGone:
		return driver.ErrNotFound
	case e.Status == http.StatusTooManyRequests:
		return driver.ErrRateLimited
	case e.Status == http.StatusBadRequest, e.Status == http.StatusUnprocessableEntity, e.Status == http.StatusMethodNotAllowed:
		return driver.ErrInvalid
	case e.Status == 0, e.Status >= 300 && e.Status < 400, e.Status == http.StatusRequestTimeout, e.Status == http.StatusConflict, e.Status >= 500, e.Err != nil:
		return driver.ErrUnavailable
	}
	return nil
}

// An AnsweredError is the failure of a call that the cloud has answered, for clouds whose
// client does not report that. It is a gputrain.CallError.
type AnsweredError struct{ Err error }

func (e *AnsweredError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *AnsweredError) Unwrap() error { return e.Err }

// Answered returns true.
func (e *AnsweredError) Answered() bool { return true }

// lastOf returns the failure of a call's last attempt. A call to end a machine that is repeated
// because its first answer was lost finds nothing to end.
func lastOf(err error) error {
	if _, known := errors.AsType[*driver.Error](err); known {
		return err
	}
	if e, ok := errors.AsType[*rest.Error](err); ok {
		return e.Last()
	}
	return err
}

// Answered returns an error's status, code and message if the cloud itself has refused the
// call. A good status with an unreadable body is no refusal.
func Answered(err error) (e *rest.Error, ok bool) {
	e, ok = errors.AsType[*rest.Error](err)
	return e, ok && e.Status != 0 && !e.Ambiguous() && !errors.Is(e.Err, rest.ErrAnswer)
}
