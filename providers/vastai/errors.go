package vastai

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// fault reads a failure of the API: {"success":false,"error":"code","msg":"text"}, any part of
// which may be missing. It may come under a good status, too.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Success *bool  `json:"success"`
		Error   string `json:"error"`
		Msg     string `json:"msg"`
		Message string `json:"message"`
		Detail  string `json:"detail"`
	}
	if json.Unmarshal(body, &said) != nil {
		return nil // text, or a list
	}
	failed := said.Success != nil && !*said.Success || said.Success == nil && said.Error != ""
	if status < 400 && !failed {
		return nil
	}
	text := strings.Join(strings.Fields(strings.Join([]string{said.Msg, said.Message, said.Detail}, " ")), " ")
	if said.Error == "" && text == "" {
		if status >= 400 {
			return nil
		}
		text = "success is false, without a reason"
	}
	return &rest.Fault{Code: said.Error, Message: text}
}

// Classify returns the kind of a failure, by the API's text before its status, and a hint.
func (*provider) Classify(_ string, err error) (hint string, kind error) {
	switch kind = kindOf(err); kind {
	case driver.ErrAuth:
		hint = "check that the key is right and has the permissions misc, instance_read, instance_write, user_read and user_write: https://cloud.vast.ai/manage-keys/"
	case driver.ErrBalance:
		hint = "add credit or a card at https://cloud.vast.ai/billing/"
	case driver.ErrQuota:
		hint = "a new account may not spend more yet: see https://cloud.vast.ai/billing/"
	case driver.ErrRateLimited:
		hint = "other programs use this account at the same time: try again in a minute"
	case driver.ErrNotFound:
		if !isGone(err) {
			return "the answer is not from Vast.ai: check that Config.Endpoint leads there", driver.ErrUnavailable
		}
	}
	return hint, kind
}

// codes maps the API's codes to kinds.
var codes = map[string]error{
	"no_such_ask":         driver.ErrNoCapacity,
	"insufficient_credit": driver.ErrBalance,
	"missing_billing":     driver.ErrBalance,
	"spend_rate_limit":    driver.ErrQuota,
	"auth_error":          driver.ErrAuth,
	"no_such_instance":    driver.ErrNotFound,
	"not_found":           driver.ErrNotFound,
	"no_ssh_key":          driver.ErrNotFound,
	"deprecated_endpoint": driver.ErrUnsupported,
	"invalid_price":       driver.ErrInvalid,
	"no_ssh_key_for_vm":   driver.ErrInvalid,
	"label_too_long":      driver.ErrInvalid,
}

// symptoms are texts of the API, in lower case, that are more specific than its codes: an offer
// that is taken has the code invalid_args, and a wrong key not found.
var symptoms = []struct {
	text string
	kind error
}{
	{"no_such_ask", driver.ErrNoCapacity},
	{"is not your own", driver.ErrNoCapacity},
	{"invalid user key", driver.ErrAuth},
	{"lacks credit", driver.ErrBalance},
}

// kindOf returns the kind of a failure, by the API's text before its status.
func kindOf(err error) error {
	if known, ok := errors.AsType[*driver.Error](err); ok {
		return known.Kind
	}
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		switch {
		case errors.Is(err, rest.ErrAnswer):
			return driver.ErrUnavailable
		case errors.Is(err, driver.ErrInvalid):
			return driver.ErrInvalid
		}
		return nil
	}
	if e.Status == http.StatusTooManyRequests {
		return driver.ErrRateLimited
	}
	text := strings.ToLower(e.Code + " " + e.Message)
	for _, s := range symptoms {
		if strings.Contains(text, s.text) {
			return s.kind
		}
	}
	if kind := codes[e.Code]; kind != nil {
		return kind
	}
	switch {
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return driver.ErrAuth
	case e.Status == http.StatusNotFound:
		return driver.ErrNotFound
	case e.Code == "invalid_args":
		return driver.ErrInvalid
	case e.Status == 0, e.Status >= 300 && e.Status < 400, e.Status == http.StatusRequestTimeout, e.Status >= 500, errors.Is(err, rest.ErrAnswer), e.Err != nil:
		return driver.ErrUnavailable
	}
	return nil
}

// isGone reports whether the API answered that the thing does not exist. A 404 alone does not
// count: wrong keys get one, and so do gateways answer.
func isGone(err error) bool {
	e, ok := errors.AsType[*rest.Error](err)
	return ok && codes[e.Code] == driver.ErrNotFound
}

var newContract = regexp.MustCompile(`"new_contract"\s*:\s*(\d+)`)

// leftover returns the instance that a failed create has nevertheless made: an instance that
// lost its bid is stopped, exists, and has a billed disk.
func leftover(err error) (id string, ok bool) {
	e, isAnswer := errors.AsType[*rest.Error](err)
	if !isAnswer {
		return "", false
	}
	m := newContract.FindStringSubmatch(e.Body)
	if m == nil || strings.Trim(m[1], "0") == "" {
		return "", false
	}
	return m[1], true
}
