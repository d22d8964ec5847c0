package runpod

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

const (
	addFunds  = "add funds in RunPod's console under Billing: a pod needs an hour's worth at least"
	checkKey  = "check in RunPod's console under Settings, API Keys, that the key exists and may do this"
	otherKind = "this kind of pod is closed to the account, or the key may not create pods: " + checkKey
)

// Classify returns the kind of a failure, by the API's text before its status, and a hint.
func (*api) Classify(op string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return "", nil
	}
	return kindOf(e, op == "launch" && e.Method == http.MethodPost)
}

// kindOf maps the API's refusals to kinds. The text counts before the status, which is 400 for
// everything that v2 refuses, and 200 for everything that GraphQL refuses.
//
// After a refused create the next candidate may succeed.
func kindOf(e *rest.Error, creates bool) (hint string, kind error) {
	switch kind := kindOfText(words(e)); kind {
	case nil:
	case driver.ErrBalance:
		return addFunds, kind
	default:
		return "", kind
	}
	switch e.Status {
	case http.StatusBadRequest:
		if creates {
			return "RunPod refuses such a pod; if it refuses all, Config has a combination that RunPod does not support", driver.ErrUnsupported
		}
		return "", driver.ErrInvalid
	case http.StatusUnauthorized:
		return checkKey, driver.ErrAuth
	case http.StatusPaymentRequired:
		return addFunds, driver.ErrBalance
	case http.StatusForbidden:
		if creates {
			return otherKind, driver.ErrQuota
		}
		return checkKey, driver.ErrAuth
	case http.StatusNotFound:
		if !isGone(e) {
			return "the answer is not from RunPod: check that Config.Endpoint leads there", driver.ErrUnavailable
		}
		return "", driver.ErrNotFound
	case http.StatusConflict:
		return "the pod's state does not allow this now, or it is a cluster's", driver.ErrUnavailable
	case http.StatusGone:
		return "RunPod has ended this API; use a newer gputrain", driver.ErrUnsupported
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return "RunPod does not understand the request; please report it", driver.ErrInvalid
	case http.StatusTooManyRequests:
		return "", driver.ErrRateLimited
	}
	if e.Status == 0 || e.Status >= 300 && e.Status < 400 || e.Status >= 500 || errors.Is(e, rest.ErrAnswer) {
		return "", driver.ErrUnavailable
	}
	return "", nil
}

// words returns the API's own text in an answer.
func words(e *rest.Error) string { return e.Code + " " + e.Message + " " + e.Body }

// kindOfText finds the refusals that only the API's text identifies.
func kindOfText(said string) error {
	for _, s := range symptoms {
		if strings.Contains(strings.ToLower(said), s.text) {
			return s.kind
		}
	}
	return nil
}

// symptoms are the API's texts, in lower case.
var symptoms = []struct {
	text string
	kind error
}{
	{"no longer any instances available", driver.ErrNoCapacity},
	{"not enough free gpus on the host", driver.ErrNoCapacity},
	{"does not have the resources to deploy this pod", driver.ErrNoCapacity},
	{"insufficient resources", driver.ErrNoCapacity},
	{"supply_constraint", driver.ErrNoCapacity},
	{"balance is too low", driver.ErrBalance},
	{"insufficient_balance", driver.ErrBalance},
	{"pod not found", driver.ErrNotFound},
	{"cluster not found", driver.ErrNotFound},
}

// isOpaque reports whether a text is that of a failure of RunPod's own, which may have had an
// effect, whatever its status.
func isOpaque(f *rest.Fault) bool {
	said := f.Code + " " + f.Message
	return (strings.Contains(said, "Something went wrong") || strings.Contains(said, "INTERNAL_SERVER_ERROR")) && kindOfText(said) == nil
}

// isGone reports whether an answer means that the thing does not exist. A gateway answers 404
// too, without the API's text.
func isGone(err error) bool {
	e := (*rest.Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusNotFound && e.Code+e.Message != ""
}

// isConflict reports whether an answer means that a pod cannot be ended alone.
func isConflict(err error) bool {
	e := (*rest.Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusConflict
}

// isAmbiguous reports whether a failed create may have made something: the API has not refused
// it.
func isAmbiguous(err error) bool {
	if e := (*rest.Error)(nil); errors.As(err, &e) {
		return e.Ambiguous() && kindOfText(words(e)) == nil
	}
	return err != nil
}
