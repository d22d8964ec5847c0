package tensordock

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// fault reads a failure, which may come under a good status: {"error":"text","status":400},
// {"message":"text"}, or {"errors":[{"title":"text","detail":"text"}]}. A machine has a status,
// too, but that is a word.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Error   json.RawMessage `json:"error"`
		Message json.RawMessage `json:"message"`
		Status  json.RawMessage `json:"status"`
		Errors  []struct {
			Title  string `json:"title"`
			Detail string `json:"detail"`
		} `json:"errors"`
	}
	if json.Unmarshal(body, &said) != nil {
		return nil
	}
	var number int
	if json.Unmarshal(said.Status, &number) != nil || number < 400 {
		number = 0
	}
	failed := text(said.Error) != "" || number > 0 || len(said.Errors) > 0
	if status < 400 && !failed {
		return nil
	}
	words := []string{text(said.Error), text(said.Message)}
	for _, e := range said.Errors {
		words = append(words, e.Title, e.Detail)
	}
	message := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	if message == "" && !failed {
		return nil
	}
	return &rest.Fault{Message: message, Status: number}
}

// text returns a string's value, or anything else as it is written.
func text(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil || string(raw) == "false" {
		return s
	}
	return string(raw)
}

// symptoms are texts that identify failures, as there are no codes. If launch is set, they
// apply to launches only.
var symptoms = []struct {
	words  string // in lower case
	launch bool
	kind   error
	hint   string
}{
	{"need at least $", false, driver.ErrBalance, fundsHint},
	{"balance", false, driver.ErrBalance, fundsHint},
	{"unexpected error", false, driver.ErrUnavailable, "the API does not name the cause: try another Image, or StorageGB 200"},
	{"unavailable", true, driver.ErrNoCapacity, ""},
	{"not enough", true, driver.ErrNoCapacity, ""},
	{"no available", true, driver.ErrNoCapacity, ""},
	{"insufficient", true, driver.ErrBalance, fundsHint},
	{"instance not found", false, driver.ErrNotFound, ""}, // not its host, or the account
	{"machine not found", false, driver.ErrNotFound, ""},
	{"not found", true, driver.ErrNotFound, ""},
}

const fundsHint = "add to the balance at https://dashboard.tensordock.com"

func classify(op string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok || e.Err != nil || e.Status == 0 || e.Status >= 500 || e.Ambiguous() {
		return "", nil
	}
	switch e.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		return whereTokens, driver.ErrAuth
	case http.StatusTooManyRequests:
		return "there are 100 calls a minute for an organization: try again in a minute", driver.ErrRateLimited
	}
	body := strings.TrimSpace(e.Body)
	if strings.HasPrefix(body, "<") || e.Status == http.StatusNotFound && body != "" && !json.Valid([]byte(body)) {
		// A gateway gives this answer to every call: it does not mean that the thing is gone.
		return "the answer is not from the API: see Config.Endpoint", driver.ErrUnavailable
	}
	said := strings.ToLower(e.Message)
	if said == "" {
		said = strings.ToLower(e.Body)
	}
	for _, s := range symptoms {
		if strings.Contains(said, s.words) && (op == "launch" || !s.launch) {
			return s.hint, s.kind
		}
	}
	return "", nil
}
