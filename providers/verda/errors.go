package verda

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// fault reads a failure in the API's words: {"code":"not_found","message":"text"}.
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
	imageHint = "set Config.Image to an image that the API lists for this instance_type, or Config.CUDA to a version that one has"
)

// symptoms are words of the API that say more than its codes and status: it refuses by 403
// what is not a matter of rights, and by 503 what was certainly not done.
var symptoms = []struct {
	text string // in lower case
	kind error
	hint string
}{
	{"no capacity", gputrain.ErrNoCapacity, ""},
	{"insufficient_funds", gputrain.ErrQuota, fundsHint},
	{"limit exceeded", gputrain.ErrQuota, ""},
	{"quota", gputrain.ErrQuota, ""},
	{"operating system is not valid", gputrain.ErrInvalid, imageHint},
	{"invalid instance id", gputrain.ErrNotFound, ""},
	{"can't discontinue a discontinued", gputrain.ErrNotFound, ""},
	{"can't discontinue a provisioning", gputrain.ErrUnavailable, "it can be deleted once it is up"},
	{"unauthorized_request", gputrain.ErrAuth, whereClients},
	{"insufficient scope", gputrain.ErrAuth, whereClients},
}

func classify(_ string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok || e.Err != nil {
		return "", nil
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this project at the same time: try again in a minute", gputrain.ErrRateLimited
	case e.Status == http.StatusUnauthorized:
		return whereClients, gputrain.ErrAuth
	}
	text := strings.ToLower(e.Code + " " + e.Message)
	if e.Last().Ambiguous() && (e.Status != http.StatusServiceUnavailable || !strings.Contains(text, "no capacity")) {
		return "", nil // what fails is not believed about what it has done
	}
	for _, s := range symptoms {
		if strings.Contains(text, s.text) {
			return s.hint, s.kind
		}
	}
	if e.Status == http.StatusNotFound && e.Code != "not_found" && e.Code != "error" {
		// What stands in front of the API says so of everything: nothing is gone by that.
		return "what answers is not the API: see Config.Endpoint", gputrain.ErrUnavailable
	}
	return "", nil
}

// says is whether an error is a refusal in these words.
func says(err error, words string) bool {
	e, ok := errors.AsType[*rest.Error](err)
	return ok && strings.Contains(strings.ToLower(e.Message), words)
}
