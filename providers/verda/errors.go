package verda

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// fault reads a failure of the API: {"code":"not_found","message":"text"}.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if status < 400 || json.Unmarshal(body, &said) != nil || said.Code+said.Message == "" {
		return nil
	}
	return &rest.Fault{Code: said.Code, Message: said.Message}
}

const (
	fundsHint = "add to the balance at https://console.verda.com"
	quotaHint = "delete what is not needed, or ask Verda's support for a higher limit"
	imageHint = "set Config.Image to an image that the API lists for this instance_type, or Config.CUDA to a version that one has"
)

// symptoms are texts of the API that are more specific than its codes and status: some 403 are
// not about rights, and some 503 mean that certainly nothing was done.
var symptoms = []struct {
	text string // in lower case
	kind error
	hint string
}{
	{"no capacity", driver.ErrNoCapacity, ""},
	{"insufficient_funds", driver.ErrBalance, fundsHint},
	{"limit exceeded", driver.ErrQuota, quotaHint},
	{"quota", driver.ErrQuota, quotaHint},
	{"operating system is not valid", driver.ErrInvalid, imageHint},
	{"invalid instance id", driver.ErrNotFound, ""},
	{"can't discontinue a discontinued", driver.ErrNotFound, ""},
	{"can't discontinue a provisioning", driver.ErrUnavailable, "it can be deleted once it is up"},
	{"unauthorized_request", driver.ErrAuth, whereClients},
	{"insufficient scope", driver.ErrAuth, whereClients},
}

func classify(_ string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok || e.Err != nil {
		return "", nil
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this project at the same time: try again in a minute", driver.ErrRateLimited
	case e.Status == http.StatusUnauthorized:
		return whereClients, driver.ErrAuth
	case e.Status == http.StatusPaymentRequired:
		return fundsHint, driver.ErrBalance
	}
	text := strings.ToLower(e.Code + " " + e.Message)
	if e.Last().Ambiguous() && (e.Status != http.StatusServiceUnavailable || !strings.Contains(text, "no capacity")) {
		return "", nil // a failing server's report about its effect is not trusted
	}
	for _, s := range symptoms {
		if strings.Contains(text, s.text) {
			return s.hint, s.kind
		}
	}
	if e.Status == http.StatusNotFound && e.Code != "not_found" && e.Code != "error" {
		// A gateway gives this answer to every call: it does not mean that the thing is gone.
		return "the answer is not from the API: see Config.Endpoint", driver.ErrUnavailable
	}
	return "", nil
}

// says reports whether an error is a refusal with these words.
func says(err error, words string) bool {
	e, ok := errors.AsType[*rest.Error](err)
	return ok && strings.Contains(strings.ToLower(e.Message), words)
}
