package vastai

import (
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// fault reads a failure in the API's words: {"success":false,"error":"code","msg":"text"},
// of which any may be missing. A good status can carry one, too.
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
		text = "success is false, and nothing says why"
	}
	return &rest.Fault{Code: said.Error, Message: text}
}

// fail gives a failure the form that callers see.
func fail(op string, err error) error { return cloud.Form(providerName, op, err, told) }

// told is what a failure tells, and what to do about it.
func told(err error) gputrain.Error {
	e := gputrain.Error{Kind: kindOf(err), RequestID: cloud.RequestID(err)}
	switch e.Kind {
	case gputrain.ErrAuth:
		e.Hint = "see that the key is right, and has the permissions misc, instance_read, instance_write, user_read and user_write: https://cloud.vast.ai/manage-keys/"
	case gputrain.ErrQuota:
		e.Hint = "see https://cloud.vast.ai/billing/"
	case gputrain.ErrRateLimited:
		e.Hint = "other programs use this account at the same time: try again in a minute"
	}
	return e
}

// The codes of the API, and what they are.
var codes = map[string]error{
	"no_such_ask":         gputrain.ErrNoCapacity,
	"insufficient_credit": gputrain.ErrQuota,
	"missing_billing":     gputrain.ErrQuota,
	"spend_rate_limit":    gputrain.ErrQuota,
	"auth_error":          gputrain.ErrAuth,
	"no_such_instance":    gputrain.ErrNotFound,
	"not_found":           gputrain.ErrNotFound,
	"no_ssh_key":          gputrain.ErrNotFound,
	"deprecated_endpoint": gputrain.ErrUnsupported,
	"invalid_price":       gputrain.ErrInvalid,
	"no_ssh_key_for_vm":   gputrain.ErrInvalid,
	"label_too_long":      gputrain.ErrInvalid,
}

// symptoms are texts of the API, in lower case, that say more than its code: it calls
// an offer that is taken invalid_args, and a wrong key not found.
var symptoms = []struct {
	text string
	kind error
}{
	{"no_such_ask", gputrain.ErrNoCapacity},
	{"is not your own", gputrain.ErrNoCapacity},
	{"invalid user key", gputrain.ErrAuth},
	{"lacks credit", gputrain.ErrQuota},
}

// kindOf says what kind of failure an error is: by the API's words before its status.
func kindOf(err error) error {
	if known, ok := errors.AsType[*gputrain.Error](err); ok {
		return known.Kind
	}
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		switch {
		case errors.Is(err, rest.ErrAnswer):
			return gputrain.ErrUnavailable
		case errors.Is(err, gputrain.ErrInvalid):
			return gputrain.ErrInvalid
		}
		return nil
	}
	if e.Status == http.StatusTooManyRequests {
		return gputrain.ErrRateLimited
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
		return gputrain.ErrAuth
	case e.Status == http.StatusNotFound:
		return gputrain.ErrNotFound
	case e.Code == "invalid_args":
		return gputrain.ErrInvalid
	case e.Status == 0, e.Status >= 300 && e.Status < 400, e.Status == http.StatusRequestTimeout, e.Status >= 500, errors.Is(err, rest.ErrAnswer), e.Err != nil:
		return gputrain.ErrUnavailable
	}
	return nil
}

// isGone reports whether the API says that what was named does not exist. A 404 alone
// does not: wrong keys get one, and what stands in front of the API answers so, too.
func isGone(err error) bool {
	e, ok := errors.AsType[*rest.Error](err)
	return ok && codes[e.Code] == gputrain.ErrNotFound
}

var newContract = regexp.MustCompile(`"new_contract"\s*:\s*(\d+)`)

// leftover returns the instance that a failed create has made all the same: one that
// lost its bid is stopped, exists, and has a disk that is billed.
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

// isAmbiguous reports whether a create may have made an instance that nobody has named.
func isAmbiguous(err error) bool {
	if errors.Is(err, errNoContract) {
		return true
	}
	e, ok := errors.AsType[*rest.Error](err)
	return ok && e.Ambiguous()
}
