package cloud

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// Form gives a failure the form that callers see. told is what an error tells beside its text:
// its Kind, its Hint and its RequestID. It is not asked about what has a kind already, whose
// hint, where it is wrapped, the text has.
func Form(provider, op string, err error, told func(err error) gputrain.Error) error {
	if err == nil {
		return nil
	}
	var e gputrain.Error
	known, ok := errors.AsType[*gputrain.Error](err)
	switch {
	case !ok:
		e = told(err)
		e.Err = err
	case known.Provider != "":
		return err // it has its form
	case err == error(known):
		e = gputrain.Error{Kind: known.Kind, Hint: known.Hint, Err: known.Err}
	default:
		e = gputrain.Error{Kind: known.Kind, Err: err}
	}
	e.Provider, e.Op = provider, op
	return &e
}

// Fail is [Form] for what is said by a cloud's words and by HTTP. classify says what kind of
// failure it is, by the words, and what to do about it.
func Fail(provider, op string, err error, classify func(op string, err error) (hint string, kind error)) error {
	formed := Form(provider, op, err, func(err error) (e gputrain.Error) {
		e.Hint, e.Kind = kindOf(op, err, classify)
		return e
	})
	e, ok := formed.(*gputrain.Error)
	if !ok || formed == err {
		return formed
	}
	if known, ok := errors.AsType[*gputrain.Error](err); ok {
		e.Hint = known.Hint
	}
	e.RequestID = RequestID(err)
	return e
}

// RequestID is what the cloud calls the request that an error tells of, or empty.
func RequestID(err error) string {
	if answer, ok := errors.AsType[*rest.Error](err); ok {
		return answer.RequestID
	}
	return ""
}

// about says what a failure is about. A hint that it has stays where Fail finds it, and is
// told once.
func about(what string, err error) error {
	known, ok := err.(*gputrain.Error)
	if !ok || known.Provider != "" {
		return fmt.Errorf("%s: %w", what, err)
	}
	e := *known
	e.Err = fmt.Errorf("%s: %w", what, known.Err)
	return &e
}

func kindOf(op string, err error, classify func(op string, err error) (hint string, kind error)) (hint string, kind error) {
	if known, ok := errors.AsType[*gputrain.Error](err); ok {
		return known.Hint, known.Kind
	}
	if hint, kind = classify(op, err); kind != nil {
		return hint, kind
	}
	return hint, StatusKind(err)
}

// StatusKind says what kind of failure an error is by what HTTP says of it alone: nil for
// what HTTP says nothing about.
func StatusKind(err error) error {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		switch {
		case errors.Is(err, gputrain.ErrInvalid):
			return gputrain.ErrInvalid
		case errors.Is(err, rest.ErrAnswer), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return gputrain.ErrUnavailable
		}
		return nil
	}
	switch {
	case e.Ambiguous():
		return gputrain.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return gputrain.ErrAuth
	case e.Status == http.StatusPaymentRequired:
		return gputrain.ErrQuota
	case e.Status == http.StatusNotFound, e.Status == http.StatusGone:
		return gputrain.ErrNotFound
	case e.Status == http.StatusTooManyRequests:
		return gputrain.ErrRateLimited
	case e.Status == http.StatusBadRequest, e.Status == http.StatusUnprocessableEntity, e.Status == http.StatusMethodNotAllowed:
		return gputrain.ErrInvalid
	case e.Status == 0, e.Status >= 300 && e.Status < 400, e.Status == http.StatusRequestTimeout, e.Status == http.StatusConflict, e.Status >= 500, e.Err != nil:
		return gputrain.ErrUnavailable
	}
	return nil
}

// An AnsweredError is the failure of a call that the cloud has answered, for clouds whose
// client does not say so itself: it is a gputrain.CallError.
type AnsweredError struct{ Err error }

func (e *AnsweredError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *AnsweredError) Unwrap() error { return e.Err }

// Answered returns true.
func (e *AnsweredError) Answered() bool { return true }

// lastOf is what the last attempt of a call said. An end that is repeated, as its first
// answer was lost, finds nothing to end.
func lastOf(err error) error {
	if _, known := errors.AsType[*gputrain.Error](err); known {
		return err
	}
	if e, ok := errors.AsType[*rest.Error](err); ok {
		return e.Last()
	}
	return err
}

// Answered is whether an error is an answer of the cloud's own that refuses: its status,
// its code and its message. A good status with a body that is not understood is none.
func Answered(err error) (e *rest.Error, ok bool) {
	e, ok = errors.AsType[*rest.Error](err)
	return e, ok && e.Status != 0 && !e.Ambiguous() && !errors.Is(e.Err, rest.ErrAnswer)
}
