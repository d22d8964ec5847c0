package scaleway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// fault reads a failure of Scaleway: {"type":"code","message":"text"} and, by the type, more
// fields.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Type         string `json:"type"`
		Message      string `json:"message"`
		Resource     string `json:"resource"`
		Precondition string `json:"precondition"`
		Help         string `json:"help_message"`
		Details      []struct {
			Resource, Action, Reason string
			Argument                 string `json:"argument_name"`
			Help                     string `json:"help_message"`
		} `json:"details"`
	}
	if status < 400 || json.Unmarshal(body, &said) != nil || said.Type+said.Message == "" {
		return nil
	}
	words := []string{said.Message, said.Resource, said.Precondition, said.Help}
	for _, d := range said.Details {
		words = append(words, d.Action, d.Resource, d.Argument, d.Reason, d.Help)
	}
	return &rest.Fault{Code: said.Type, Message: strings.Join(strings.Fields(strings.Join(words, " ")), " ")}
}

// kinds are the types of the API's failures. The status of out_of_stock is not documented.
var kinds = map[string]error{
	"denied_authentication": driver.ErrAuth,
	"permissions_denied":    driver.ErrAuth,
	"locked":                driver.ErrAuth,
	"quotas_exceeded":       driver.ErrQuota,
	"out_of_stock":          driver.ErrNoCapacity,
	"not_found":             driver.ErrNotFound,
	"unknown_resource":      driver.ErrNotFound,
	"invalid_arguments":     driver.ErrInvalid,
	"transient_state":       driver.ErrUnavailable,
	"precondition_failed":   driver.ErrUnavailable,
	"resource_expired":      driver.ErrUnsupported,
}

var hints = map[error]string{
	driver.ErrAuth:       "check that SecretKey is right, belongs to the project and has the permission sets InstancesFullAccess and BlockStorageFullAccess: " + keysPage,
	driver.ErrQuota:      "new accounts may have no GPUs at all until their identity is checked: https://console.scaleway.com/organization/quotas",
	driver.ErrNoCapacity: "try another zone, or a type that is in stock",
}

// classify returns the kind of a failure by Scaleway's text, and a hint.
func classify(_ string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return "", nil
	}
	text := strings.ToLower(e.Message)
	switch kind = kinds[e.Code]; {
	case kind != nil:
	case e.Code == "invalid_request_error" && strings.Contains(text, "quota"): // its status is 403
		kind = driver.ErrQuota
	case !e.Ambiguous() && strings.Contains(text, "no more") && strings.Contains(text, "available"):
		kind = driver.ErrNoCapacity
	case e.Status == http.StatusNotFound: // from a gateway, not from the API
		kind = driver.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		kind = driver.ErrAuth
	}
	return hints[kind], kind
}

func isGone(err error) bool { _, kind := classify("", err); return kind == driver.ErrNotFound }

// isBusy reports whether a call can succeed later, but not now.
func isBusy(err error) bool {
	e, ok := errors.AsType[*rest.Error](err)
	return ok && (e.Code == "transient_state" || e.Code == "precondition_failed")
}
