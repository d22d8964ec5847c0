package novita

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
)

// kinds are the words that the API has for failures. The status says little: it is nearly
// always 400.
var kinds = map[string]error{
	"INSUFFICIENT_RESOURCE":                gputrain.ErrNoCapacity,
	"MIGRATE_INSUFFICIENT_RESOURCE":        gputrain.ErrNoCapacity,
	"GPU_SPEC_USED":                        gputrain.ErrNoCapacity,
	"CLUSTER_STATUS":                       gputrain.ErrNoCapacity, // another cluster may do
	"NODE_STATUS":                          gputrain.ErrNoCapacity,
	"BALANCE_NOT_ENOUGH":                   gputrain.ErrQuota,
	"EXPIRED_OR_BALANCE_NOT_ENOUGH":        gputrain.ErrQuota,
	"WALLET_NOT_FOUND":                     gputrain.ErrQuota,
	"CREATE_INSTANCE_LIMIT":                gputrain.ErrQuota,
	"OPERATION_LIMIT":                      gputrain.ErrQuota,
	"UNAUTHORIZED":                         gputrain.ErrAuth,
	"INVALID_USER_TOKEN":                   gputrain.ErrAuth,
	"FORBIDDEN":                            gputrain.ErrAuth,
	"BANNED_USER":                          gputrain.ErrAuth,
	"RATE_LIMIT_EXCEEDED":                  gputrain.ErrRateLimited,
	"RESOURCE_NOT_FOUND":                   gputrain.ErrNotFound,
	"IMAGE_NOT_FOUND":                      gputrain.ErrInvalid,
	"VALIDATOR_PARAM":                      gputrain.ErrInvalid,
	"INVALID_COMMAND_PARAM":                gputrain.ErrInvalid,
	"UNSUPPORTED_BILLING_MODE":             gputrain.ErrInvalid,
	"PREPAID_INSTANCE_NOT_SUPPORT_RELEASE": gputrain.ErrUnsupported,
	"CONFLICT":                             gputrain.ErrUnavailable,
	"UNKNOWN":                              gputrain.ErrUnavailable,
}

var hints = map[error]string{
	gputrain.ErrAuth:        "see that the key is right: " + keysPage,
	gputrain.ErrQuota:       "see the balance of the account, and how many instances it may have: https://novita.ai/billing",
	gputrain.ErrNoCapacity:  "try another cluster, or another accelerator",
	gputrain.ErrUnsupported: "an instance that is paid by the month ends with it",
}

var word = regexp.MustCompile(`\b[A-Z]+(?:_[A-Z]+)*\b`)

// fault reads a failure. How it is laid out is not written down: its word is looked for in
// the fields that it is likely in, and then, where the status is bad, in the whole text. A
// good status can carry one, too.
func fault(status int, body []byte) *rest.Fault {
	said := map[string]json.RawMessage{}
	isObject := json.Unmarshal(body, &said) == nil
	text := func(field string) (s string) { _ = json.Unmarshal(said[field], &s); return s }
	for _, field := range []string{"reason", "code", "error", "message"} {
		if code := knownWord(text(field)); code != "" {
			return &rest.Fault{Code: code, Message: cmp.Or(text("message"), text("error"))}
		}
	}
	var code float64
	failed := isObject && json.Unmarshal(said["code"], &code) == nil && code >= 400
	if status < 400 && !failed {
		return nil
	}
	if found := knownWord(string(body)); found != "" {
		return &rest.Fault{Code: found, Message: string(bytes.TrimSpace(body[:min(len(body), 512)]))}
	}
	message := cmp.Or(text("message"), text("reason"), text("error"))
	if message == "" && status >= 400 {
		return nil // the status says as much
	}
	f := &rest.Fault{Code: text("reason"), Message: message}
	if status < 400 {
		f.Status = int(code)
	}
	return f
}

// knownWord is the first word of a text that stands for a failure, or "".
func knownWord(text string) string {
	for _, w := range word.FindAllString(text, -1) {
		if kinds[w] != nil {
			return w
		}
	}
	return ""
}

// classify says what a failure is by Novita's words. A server that fails is not believed that
// nothing was made, or that nothing is there.
func classify(_ string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return "", nil
	}
	switch kind = kinds[e.Code]; {
	case e.Status >= 500 && e.Code != "WALLET_NOT_FOUND": // the one that comes so
		kind = gputrain.ErrUnavailable
	case kind != nil:
	case e.Status == http.StatusNotFound: // by whom, if not by the API?
		kind = gputrain.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		kind = gputrain.ErrAuth
	}
	return hints[kind], kind
}
