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

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// errAnswer means that the status was good but the body was not the expected one.
var errAnswer = errors.New("unexpected answer")

// fail puts a failure into the form that callers see.
func fail(op string, err error) error {
	return cloud.Form(providerName, op, err, func(err error) driver.Error {
		e := driver.Error{Kind: kindOf(err)}
		e.Hint = hintOf(e.Kind, err)
		if o, ok := errors.AsType[*operationError](err); ok {
			e.RequestID = o.name
		}
		return e
	})
}

func hintOf(kind error, err error) string {
	said := words(err)
	has := func(text string) bool { return strings.Contains(said, text) }
	switch {
	case has("accessnotconfigured"), has("service_disabled"):
		return "enable the API: gcloud services enable compute.googleapis.com cloudbilling.googleapis.com"
	case has("billing_disabled"):
		return "the project has no billing account: https://console.cloud.google.com/billing/projects"
	case has("gpus_all_regions"):
		return "a new project may have no GPU at all: ask for the quota GPUS_ALL_REGIONS at https://console.cloud.google.com/iam-admin/quotas"
	case has("conditionnotmet"):
		return "a policy of the organisation forbids it; see its message"
	}
	switch kind {
	case driver.ErrAuth:
		return "see that the credentials are right, and have the permissions in the package's documentation, as roles/compute.admin has"
	case driver.ErrQuota:
		return "ask for more at https://console.cloud.google.com/iam-admin/quotas, or use another region"
	case driver.ErrRateLimited:
		return "other programs use this project at the same time: try again in a minute"
	}
	return ""
}

// symptoms map the API's reasons of calls, codes of operations and, if those are vague, texts
// to kinds of failures. All are in lower case; the first match counts.
var symptoms = []struct {
	text string
	kind error
}{
	{"resource_pool_exhausted", driver.ErrNoCapacity},
	{"vm_min_count_not_reached", driver.ErrNoCapacity},
	{"stockout", driver.ErrNoCapacity},
	{"resource_availability", driver.ErrNoCapacity},
	{"does not have enough resources", driver.ErrNoCapacity},
	{"currently unavailable in the", driver.ErrNoCapacity},
	{"concurrent_operations_quota_exceeded", driver.ErrRateLimited},
	{"rate_limit_exceeded", driver.ErrRateLimited},
	{"ratelimitexceeded", driver.ErrRateLimited},
	{"operation_rate_exceeded", driver.ErrRateLimited},
	{"quota_exceeded", driver.ErrQuota},
	{"quotaexceeded", driver.ErrQuota},
	{"accessnotconfigured", driver.ErrAuth},
	{"service_disabled", driver.ErrAuth},
	{"billing_disabled", driver.ErrAuth},
	{"permission_denied", driver.ErrAuth},
	{"permissions_error", driver.ErrAuth},
	{"forbidden", driver.ErrAuth},
	{"resource_not_ready", driver.ErrUnavailable},
	{"resourcenotready", driver.ErrUnavailable},
	{"unsupported_operation", driver.ErrUnsupported},
	{"conditionnotmet", driver.ErrUnsupported},
	{"condition_not_met", driver.ErrUnsupported},
	{"resource_not_found", driver.ErrNotFound},
	{"invalid_field_value", driver.ErrInvalid},
}

// placeless are kinds of things that one zone may lack and another may have.
var placeless = []string{"/machinetypes/", "/acceleratortypes/", "/disktypes/"}

// words returns the API's text of a failure, in lower case.
func words(err error) string {
	e, ok := errors.AsType[*googleapi.Error](err)
	if !ok {
		return ""
	}
	said := []string{e.Message}
	for _, item := range e.Errors {
		said = append(said, item.Reason, item.Message)
	}
	for _, detail := range e.Details { // google.rpc.ErrorInfo
		if fields, ok := detail.(map[string]any); ok && fields["reason"] != nil {
			said = append(said, fmt.Sprint(fields["reason"]))
		}
	}
	return strings.ToLower(strings.Join(said, "\n"))
}

// kindOf returns the kind of a failure, by the API's text before its status, or nil.
func kindOf(err error) error {
	if err == nil {
		return nil
	}
	if known, ok := errors.AsType[*driver.Error](err); ok {
		return known.Kind
	}
	if t, ok := errors.AsType[*tokenError](err); ok {
		if t.refused {
			return driver.ErrAuth
		}
		return driver.ErrUnavailable
	}
	e, answered := errors.AsType[*googleapi.Error](err)
	if !answered {
		if errors.Is(err, driver.ErrInvalid) {
			return driver.ErrInvalid
		}
		_, noAnswer := errors.AsType[*url.Error](err)
		_, billing := errors.AsType[*rest.Error](err)
		if noAnswer || billing || errors.Is(err, errAnswer) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return driver.ErrUnavailable
		}
		return nil
	}
	said, refused := words(err), !isOperation(err)
	notFound := refused && (e.Code == http.StatusNotFound || e.Code == http.StatusBadRequest) || strings.Contains(said, "not_found") || strings.Contains(said, "does not exist")
	if notFound && slices.ContainsFunc(placeless, func(p string) bool { return strings.Contains(said, p) }) {
		return driver.ErrNoCapacity // missing in that zone, not everywhere
	}
	for _, s := range symptoms {
		if strings.Contains(said, s.text) {
			return s.kind
		}
	}
	switch e.Code {
	case 0: // an operation without a status
		return driver.ErrUnavailable
	case http.StatusPreconditionFailed:
		return driver.ErrUnsupported
	}
	return cloud.StatusKind(&rest.Error{Status: e.Code})
}

// isOperation reports whether an operation failed, as opposed to a refused call.
func isOperation(err error) bool {
	_, ok := errors.AsType[*operationError](err)
	return ok
}

// ofProject matches the API's messages about an unknown project.
var ofProject = regexp.MustCompile(`(?i)project '|find project|'projects/[^/']+'`)

// isGone reports whether the API answered that the thing does not exist. A 404 from another
// server does not count, nor does one about a project.
func isGone(err error) bool {
	e, ok := errors.AsType[*googleapi.Error](err)
	return ok && e.Code == http.StatusNotFound && !ofProject.MatchString(e.Message) &&
		slices.ContainsFunc(e.Errors, func(item googleapi.ErrorItem) bool { return item.Reason == "notFound" })
}

// exists reports whether the API refuses a create because the thing exists.
func exists(err error) bool {
	e, ok := errors.AsType[*googleapi.Error](err)
	return ok && (e.Code == http.StatusConflict && !isOperation(err) || strings.Contains(words(err), "resource_already_exists"))
}

// An unansweredError is the failure of a call's last attempt after an earlier attempt that may
// have created something. The refusal of the last attempt does not settle that.
type unansweredError struct {
	error
	lost bool // the last attempt got no answer either
}

func (e *unansweredError) Unwrap() error { return e.error }

// isOpen reports whether a failed call may have created something: the API has not refused it.
func isOpen(err error) bool {
	if _, ok := errors.AsType[*unansweredError](err); ok {
		return true
	}
	if _, ok := errors.AsType[*tokenError](err); ok || err == nil || isOperation(err) {
		return false
	}
	e, answered := errors.AsType[*googleapi.Error](err)
	return !answered || e.Code >= 500 || e.Code == http.StatusRequestTimeout || e.Code < 300
}

// isAnswered reports whether the API itself answered every attempt of a failed call, not a
// gateway that has heard nothing from it.
func isAnswered(err error) bool {
	if u, ok := errors.AsType[*unansweredError](err); ok && u.lost || isOperation(err) {
		return false
	}
	e, ok := errors.AsType[*googleapi.Error](err)
	return ok && (e.Code <= http.StatusNotImplemented && e.Code != http.StatusRequestTimeout || e.Code == http.StatusServiceUnavailable && len(e.Errors) > 0)
}

// clean returns a failure of Google's client without secrets and without the request's query.
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
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("%w: it is larger than %d bytes", errAnswer, e.Limit)
	}
	if errors.Is(err, errAnswer) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf("%w: %s", errAnswer, redact(err.Error())) // it broke off, or could not be decoded
}

// head returns the beginning of a text.
func head(s string) string {
	const most = 4 << 10
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "")
}
