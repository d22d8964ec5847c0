package gcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/api/googleapi"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// errAnswer means that the status was good and the body was not what is due.
var errAnswer = errors.New("the answer is not understood")

// fail gives a failure the form that callers see.
func fail(op string, err error) error {
	if err == nil {
		return nil
	}
	e := &gputrain.Error{Provider: providerName, Op: op, Err: err}
	if known, ok := errors.AsType[*gputrain.Error](err); ok {
		if known.Provider != "" {
			return err // it has its form
		}
		e.Kind, e.Hint = known.Kind, known.Hint
		if err == error(known) {
			e.Err = known.Err
		}
	} else {
		e.Kind = kindOf(err)
	}
	if o, ok := errors.AsType[*operationError](err); ok {
		e.RequestID = o.name
	}
	if e.Hint == "" {
		e.Hint = hintOf(e.Kind, err)
	}
	return e
}

func hintOf(kind error, err error) string {
	said := strings.ToLower(strings.Join(words(err), " "))
	has := func(text string) bool { return strings.Contains(said, text) }
	switch {
	case has("accessnotconfigured"), has("service_disabled"):
		return "enable the API: gcloud services enable compute.googleapis.com cloudbilling.googleapis.com"
	case has("billing_disabled"):
		return "the project has no billing account: https://console.cloud.google.com/billing/projects"
	case has("gpus_all_regions"):
		return "a new project may have no GPU at all: ask for the quota GPUS_ALL_REGIONS at https://console.cloud.google.com/iam-admin/quotas"
	case has("conditionnotmet"):
		return "a policy of the organisation forbids it; see what it says"
	}
	switch kind {
	case gputrain.ErrAuth:
		return "see that the credentials are right, and have the permissions that the package's documentation lists: roles/compute.admin does"
	case gputrain.ErrQuota:
		return "ask for more at https://console.cloud.google.com/iam-admin/quotas, or use another region"
	case gputrain.ErrRateLimited:
		return "other programs use this project at the same time: try again in a minute"
	}
	return ""
}

// symptoms are what the API calls a failure: reasons of calls, codes of operations, and
// where those say little their text. All is in lower case; the first that is found counts.
var symptoms = []struct {
	text string
	kind error
}{
	{"resource_pool_exhausted", gputrain.ErrNoCapacity},
	{"vm_min_count_not_reached", gputrain.ErrNoCapacity},
	{"stockout", gputrain.ErrNoCapacity},
	{"resource_availability", gputrain.ErrNoCapacity},
	{"does not have enough resources", gputrain.ErrNoCapacity},
	{"currently unavailable in the", gputrain.ErrNoCapacity},
	{"concurrent_operations_quota_exceeded", gputrain.ErrRateLimited},
	{"rate_limit_exceeded", gputrain.ErrRateLimited},
	{"ratelimitexceeded", gputrain.ErrRateLimited},
	{"operation_rate_exceeded", gputrain.ErrRateLimited},
	{"quota_exceeded", gputrain.ErrQuota},
	{"quotaexceeded", gputrain.ErrQuota},
	{"accessnotconfigured", gputrain.ErrAuth},
	{"service_disabled", gputrain.ErrAuth},
	{"billing_disabled", gputrain.ErrAuth},
	{"permission_denied", gputrain.ErrAuth},
	{"permissions_error", gputrain.ErrAuth},
	{"forbidden", gputrain.ErrAuth},
	{"resource_not_ready", gputrain.ErrUnavailable},
	{"resourcenotready", gputrain.ErrUnavailable},
	{"unsupported_operation", gputrain.ErrUnsupported},
	{"conditionnotmet", gputrain.ErrUnsupported},
	{"condition_not_met", gputrain.ErrUnsupported},
	{"resource_not_found", gputrain.ErrNotFound},
	{"invalid_field_value", gputrain.ErrInvalid},
}

// placeless are kinds of things that a zone may lack and another one have.
var placeless = []string{"/machinetypes/", "/acceleratortypes/", "/disktypes/"}

// words are what the API says of a failure.
func words(err error) []string {
	var said []string
	if o, ok := errors.AsType[*operationError](err); ok {
		for _, e := range o.errors {
			said = append(said, e.code)
			said = append(said, e.reasons...)
			said = append(said, e.message)
		}
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		for _, item := range e.Errors {
			said = append(said, item.Reason)
		}
		for _, detail := range e.Details { // google.rpc.ErrorInfo
			if fields, ok := detail.(map[string]any); ok && fields["reason"] != nil {
				said = append(said, fmt.Sprint(fields["reason"]))
			}
		}
		said = append(said, e.Message)
	}
	return said
}

// kindOf says what kind of failure an error is: by the API's words before its status.
func kindOf(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*gputrain.Error](err); ok {
		return known.Kind
	}
	if t, ok := errors.AsType[*tokenError](err); ok {
		if t.refused {
			return gputrain.ErrAuth
		}
		return gputrain.ErrUnavailable
	}
	said := strings.ToLower(strings.Join(words(err), "\n"))
	e, answered := errors.AsType[*googleapi.Error](err)
	notFound := answered && e.Code == http.StatusNotFound || strings.Contains(said, "not_found") || strings.Contains(said, "does not exist")
	if (notFound || answered && e.Code == http.StatusBadRequest) && slices.ContainsFunc(placeless, func(p string) bool { return strings.Contains(said, p) }) {
		return gputrain.ErrNoCapacity // there, not everywhere
	}
	for _, s := range symptoms {
		if strings.Contains(said, s.text) {
			return s.kind
		}
	}
	if !answered {
		switch o, failed := errors.AsType[*operationError](err); {
		case failed && o.status == 0, failed && o.status >= 500:
			return gputrain.ErrUnavailable
		case failed:
			e = &googleapi.Error{Code: o.status}
		case errors.Is(err, gputrain.ErrInvalid):
			return gputrain.ErrInvalid
		case isNetwork(err), errors.Is(err, errAnswer), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			return gputrain.ErrUnavailable
		default:
			return nil
		}
	}
	switch {
	case e.Code == http.StatusBadRequest:
		return gputrain.ErrInvalid
	case e.Code == http.StatusUnauthorized, e.Code == http.StatusForbidden:
		return gputrain.ErrAuth
	case e.Code == http.StatusNotFound:
		return gputrain.ErrNotFound
	case e.Code == http.StatusPreconditionFailed:
		return gputrain.ErrUnsupported
	case e.Code == http.StatusTooManyRequests:
		return gputrain.ErrRateLimited
	case e.Code >= 300 && e.Code < 400, e.Code == http.StatusRequestTimeout, e.Code == http.StatusConflict, e.Code >= 500:
		return gputrain.ErrUnavailable
	}
	return nil
}

// isNetwork is whether a call got no answer, or not all of it.
func isNetwork(err error) bool {
	_, noAnswer := errors.AsType[*url.Error](err)
	_, broken := errors.AsType[*brokenError](err)
	_, billing := errors.AsType[*rest.Error](err)
	return noAnswer || broken || billing
}

// ofProject is in what the API says of a project that it does not know.
var ofProject = regexp.MustCompile(`(?i)project '|find project|'projects/[^/']+'`)

// isGone is whether the API says that what was named does not exist. A 404 that is not
// its own does not say so, nor does one of a project.
func isGone(err error) bool {
	e, ok := errors.AsType[*googleapi.Error](err)
	return ok && e.Code == http.StatusNotFound && !ofProject.MatchString(e.Message) &&
		slices.ContainsFunc(e.Errors, func(item googleapi.ErrorItem) bool { return item.Reason == "notFound" })
}

// exists is whether the API refuses to make what is there already.
func exists(err error) bool {
	e, ok := errors.AsType[*googleapi.Error](err)
	return ok && e.Code == http.StatusConflict || slices.Contains(words(err), "RESOURCE_ALREADY_EXISTS")
}

// An unansweredError is the failure of a call's last attempt, where an earlier one has left
// open what it made: that the last was refused says nothing of that.
type unansweredError struct {
	error
	lost bool // that one was not answered, either
}

func (e *unansweredError) Unwrap() error { return e.error }

// isOpen is whether a failed call leaves open what it has made: the API has not said no.
func isOpen(err error) bool {
	if _, ok := errors.AsType[*unansweredError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*operationError](err); ok {
		return false
	}
	if _, ok := errors.AsType[*tokenError](err); ok {
		return false
	}
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		return e.Code >= 500 || e.Code == http.StatusRequestTimeout || e.Code < 300
	}
	return isNetwork(err) || errors.Is(err, errAnswer) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// isAnswered is whether the API itself has answered every attempt of a failed call, and not a
// gateway that has heard nothing from it.
func isAnswered(err error) bool {
	if u, ok := errors.AsType[*unansweredError](err); ok && u.lost {
		return false
	}
	e, ok := errors.AsType[*googleapi.Error](err)
	return ok && (e.Code <= http.StatusNotImplemented && e.Code != http.StatusRequestTimeout || e.Code == http.StatusServiceUnavailable && len(e.Errors) > 0)
}

// clean returns a failure of Google's client without secrets and without the request's
// query.
func clean(err error, redact func(string) string) error {
	if e, ok := errors.AsType[*googleapi.Error](err); ok {
		own := &googleapi.Error{Code: e.Code, Message: head(redact(e.Message)), Body: head(redact(e.Body))}
		if details, err := json.Marshal(e.Details); err == nil {
			_ = json.Unmarshal([]byte(redact(string(details))), &own.Details) // or there are none
		}
		for _, item := range e.Errors {
			own.Errors = append(own.Errors, googleapi.ErrorItem{Reason: item.Reason, Message: head(redact(item.Message))})
		}
		return own
	}
	if t, ok := errors.AsType[*tokenError](err); ok {
		return &tokenError{redact(t.text), t.refused, t.odd, t.ended}
	}
	if e, ok := errors.AsType[*url.Error](err); ok {
		at := "the API"
		if u, parseErr := url.Parse(e.URL); parseErr == nil {
			at = u.Host + u.Path
		}
		return &url.Error{Op: e.Op, URL: at, Err: e.Err}
	}
	if errors.Is(err, errAnswer) || isNetwork(err) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %s", errAnswer, redact(err.Error())) // it could not be decoded
}

// head is the beginning of a text.
func head(s string) string {
	const most = 4 << 10
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
