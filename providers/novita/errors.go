package novita

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
)

// kinds are the API's words for failures. The status is nearly always 400.
var kinds = map[string]error{
	"INSUFFICIENT_RESOURCE":                driver.ErrNoCapacity,
	"MIGRATE_INSUFFICIENT_RESOURCE":        driver.ErrNoCapacity,
	"GPU_SPEC_USED":                        driver.ErrNoCapacity,
	"CLUSTER_STATUS":                       driver.ErrNoCapacity, // another cluster may succeed
	"NODE_STATUS":                          driver.ErrNoCapacity,
	"BALANCE_NOT_ENOUGH":                   driver.ErrBalance,
	"EXPIRED_OR_BALANCE_NOT_ENOUGH":        driver.ErrBalance,
	"WALLET_NOT_FOUND":                     driver.ErrBalance,
	"CREATE_INSTANCE_LIMIT":                driver.ErrQuota,
	"OPERATION_LIMIT":                      driver.ErrQuota,
	"UNAUTHORIZED":                         driver.ErrAuth,
	"INVALID_USER_TOKEN":                   driver.ErrAuth,
	"FORBIDDEN":                            driver.ErrAuth,
	"BANNED_USER":                          driver.ErrAuth,
	"RATE_LIMIT_EXCEEDED":                  driver.ErrRateLimited,
	"RESOURCE_NOT_FOUND":                   driver.ErrNotFound,
	"IMAGE_NOT_FOUND":                      driver.ErrInvalid,
	"VALIDATOR_PARAM":                      driver.ErrInvalid,
	"INVALID_COMMAND_PARAM":                driver.ErrInvalid,
	"UNSUPPORTED_BILLING_MODE":             driver.ErrInvalid,
	"PREPAID_INSTANCE_NOT_SUPPORT_RELEASE": driver.ErrUnsupported,
	"CONFLICT":                             driver.ErrUnavailable,
	"UNKNOWN":                              driver.ErrUnavailable,
}

var hints = map[error]string{
	driver.ErrAuth:        "check that the key is right: " + keysPage,
	driver.ErrBalance:     "add to the account's balance: https://novita.ai/billing",
	driver.ErrQuota:       "the account has a limit of instances: end others, or ask Novita for more",
	driver.ErrNoCapacity:  "try another cluster, or another accelerator",
	driver.ErrUnsupported: "an instance that is paid by the month ends with it",
}

var word = regexp.MustCompile(`\b[A-Z]+(?:_[A-Z]+)*\b`)

// fault reads a failure. Its layout is not documented: fault looks for a known word in the
// likely fields and then, if the status is bad, in the whole text. A good status can carry a
// failure, too.
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
		return nil // the status says the same
	}
	f := &rest.Fault{Code: text("reason"), Message: message}
	if status < 400 {
		f.Status = int(code)
	}
	return f
}

// knownWord returns the first word of a text that stands for a failure, or "".
func knownWord(text string) string {
	for _, w := range word.FindAllString(text, -1) {
		if kinds[w] != nil {
			return w
		}
	}
	return ""
}

// classify returns the kind of a failure by Novita's words. A failing server's report that
// nothing was made, or that nothing exists, is not trusted.
func classify(_ string, err error) (hint string, kind error) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return "", nil
	}
	switch kind = kinds[e.Code]; {
	case e.Status >= 500 && e.Code != "WALLET_NOT_FOUND": // it comes with such a status
		kind = driver.ErrUnavailable
	case kind != nil:
	case e.Status == http.StatusNotFound: // from a gateway, not from the API
		kind = driver.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		kind = driver.ErrAuth
	}
	return hints[kind], kind
}
