package runpod

import (
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

const (
	addFunds  = "add funds in RunPod's console under Billing: a pod needs an hour's worth at least"
	checkKey  = "see in RunPod's console under Settings, API Keys, that the key is there and may do this"
	otherKind = "this kind of pod is closed to the account, or the key may not create pods: " + checkKey
)

// fail gives a failure the form that callers see.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &gputrain.Error{Err: err}
	if inner, ok := err.(*gputrain.Error); ok { // as it is made further down
		copied := *inner
		e = &copied
	} else if errors.As(err, &inner) { // whose hint is in the text already
		e.Kind, e.RequestID = inner.Kind, inner.RequestID
	}
	e.Provider, e.Op = providerName, op
	if answered := (*rest.Error)(nil); e.Kind == nil && errors.As(err, &answered) {
		e.RequestID = answered.RequestID
		e.Hint, e.Kind = kindOf(answered, op == "launch" && answered.Method == http.MethodPost)
	}
	switch {
	case e.Kind != nil:
	case errors.Is(err, rest.ErrAnswer):
		e.Kind = gputrain.ErrUnavailable
	case errors.Is(err, gputrain.ErrInvalid):
		e.Kind = gputrain.ErrInvalid
	}
	return e
}

// kindOf is the table of the API's refusals. The words count before the status, which
// is 400 for whatever v2 does not like, and 200 for whatever GraphQL does not.
//
// A create that is refused may be taken with the next candidate.
func kindOf(e *rest.Error, creates bool) (hint string, kind error) {
	switch kind := kindOfText(words(e)); kind {
	case nil:
	case gputrain.ErrQuota:
		return addFunds, kind
	default:
		return "", kind
	}
	switch e.Status {
	case http.StatusBadRequest:
		if creates {
			return "RunPod takes no such pod; if that is so for all, Config asks for what does not go together", gputrain.ErrUnsupported
		}
		return "", gputrain.ErrInvalid
	case http.StatusUnauthorized:
		return checkKey, gputrain.ErrAuth
	case http.StatusPaymentRequired:
		return addFunds, gputrain.ErrQuota
	case http.StatusForbidden:
		if creates {
			return otherKind, gputrain.ErrQuota
		}
		return checkKey, gputrain.ErrAuth
	case http.StatusNotFound:
		if !isGone(e) {
			return "this is no answer of RunPod's: see whether Config.Endpoint leads there", gputrain.ErrUnavailable
		}
		return "", gputrain.ErrNotFound
	case http.StatusConflict:
		return "the pod's state does not allow this now, or it is a cluster's", gputrain.ErrUnavailable
	case http.StatusGone:
		return "RunPod has ended this API; use a newer gputrain", gputrain.ErrUnsupported
	case http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity:
		return "RunPod does not understand the request; please report it", gputrain.ErrInvalid
	case http.StatusTooManyRequests:
		return "", gputrain.ErrRateLimited
	}
	if e.Status == 0 || e.Status >= 300 && e.Status < 400 || e.Status >= 500 || errors.Is(e, rest.ErrAnswer) {
		return "", gputrain.ErrUnavailable
	}
	return "", nil
}

// words are what an answer says, as far as it is the API's own.
func words(e *rest.Error) string { return e.Code + " " + e.Message + " " + e.Body }

// isOpen is whether a failed launch leaves open what it has made: the API has not said no.
func isOpen(err error) bool {
	e := (*gputrain.Error)(nil)
	return !errors.As(err, &e) || e.Kind == nil || e.Kind == gputrain.ErrUnavailable
}

// kindOfText finds the refusals that the API tells apart by words alone.
func kindOfText(said string) error {
	for _, s := range symptoms {
		if strings.Contains(strings.ToLower(said), s.text) {
			return s.kind
		}
	}
	return nil
}

// symptoms are the API's words, in lower case.
var symptoms = []struct {
	text string
	kind error
}{
	{"no longer any instances available", gputrain.ErrNoCapacity},
	{"not enough free gpus on the host", gputrain.ErrNoCapacity},
	{"does not have the resources to deploy this pod", gputrain.ErrNoCapacity},
	{"insufficient resources", gputrain.ErrNoCapacity},
	{"supply_constraint", gputrain.ErrNoCapacity},
	{"balance is too low", gputrain.ErrQuota},
	{"insufficient_balance", gputrain.ErrQuota},
	{"pod not found", gputrain.ErrNotFound},
	{"cluster not found", gputrain.ErrNotFound},
}

// isOpaque is whether words are those of a failure of RunPod's own, of which it is not
// known whether it had an effect, whatever the status says.
func isOpaque(f *rest.Fault) bool {
	said := f.Code + " " + f.Message
	return (strings.Contains(said, "Something went wrong") || strings.Contains(said, "INTERNAL_SERVER_ERROR")) && kindOfText(said) == nil
}

// isGone is whether an answer means that what was named does not exist. What stands in
// front of the API answers 404 too, without its words.
func isGone(err error) bool {
	e := (*rest.Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusNotFound && e.Code+e.Message != ""
}

// isConflict is whether an answer means that a pod cannot be ended by itself.
func isConflict(err error) bool {
	e := (*rest.Error)(nil)
	return errors.As(err, &e) && e.Status == http.StatusConflict
}

// isAmbiguous is whether a create that failed so may have made something: all but
// what the API has refused.
func isAmbiguous(err error) bool {
	if e := (*rest.Error)(nil); errors.As(err, &e) {
		return e.Ambiguous() && kindOfText(words(e)) == nil
	}
	return err != nil
}
