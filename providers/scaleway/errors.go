package scaleway

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// fault reads a failure in Scaleway's words: {"type":"code","message":"text"} and, by the
// type, more fields.
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

// kinds are the types of the API's failures. out_of_stock comes under a status that nobody
// has written down.
var kinds = map[string]error{
	"denied_authentication": gputrain.ErrAuth,
	"permissions_denied":    gputrain.ErrAuth,
	"locked":                gputrain.ErrAuth,
	"quotas_exceeded":       gputrain.ErrQuota,
	"out_of_stock":          gputrain.ErrNoCapacity,
	"not_found":             gputrain.ErrNotFound,
	"unknown_resource":      gputrain.ErrNotFound,
	"invalid_arguments":     gputrain.ErrInvalid,
	"transient_state":       gputrain.ErrUnavailable,
	"precondition_failed":   gputrain.ErrUnavailable,
	"resource_expired":      gputrain.ErrUnsupported,
}

var hints = map[error]string{
	gputrain.ErrAuth:       "see that SecretKey is right, belongs to the project and has the permission sets InstancesFullAccess and BlockStorageFullAccess: " + keysPage,
	gputrain.ErrQuota:      "new accounts may have no GPUs at all until their identity is checked: https://console.scaleway.com/organization/quotas",
	gputrain.ErrNoCapacity: "try another zone, or a type that is in stock",
}

// classify says what a failure is by Scaleway's words.
func classify(_ string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return "", nil
	}
	text := strings.ToLower(e.Message)
	switch kind = kinds[e.Code]; {
	case kind != nil:
	case e.Code == "invalid_request_error" && strings.Contains(text, "quota"): // which comes as a 403
		kind = gputrain.ErrQuota
	case !e.Ambiguous() && strings.Contains(text, "no more") && strings.Contains(text, "available"):
		kind = gputrain.ErrNoCapacity
	case e.Status == http.StatusNotFound: // by whom, if not by the API?
		kind = gputrain.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		kind = gputrain.ErrAuth
	}
	return hints[kind], kind
}

func isGone(err error) bool { _, kind := classify("", err); return kind == gputrain.ErrNotFound }

// isBusy is whether what was asked for can be done, and not yet.
func isBusy(err error) bool {
	e, ok := errors.AsType[*rest.Error](err)
	return ok && (e.Code == "transient_state" || e.Code == "precondition_failed")
}
