package lambda

import (
	"net/http"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Classify returns the kind of a failure by the API's codes, and a hint. Only the API's own
// answer means that a thing does not exist: gateways answer 404, too.
func (*api) Classify(op string, err error) (hint string, kind error) {
	e, ok := cloud.Answered(err)
	if !ok {
		return "", nil
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this account at the same time: try again in a minute", driver.ErrRateLimited
	case strings.HasSuffix(e.Code, "insufficient-capacity"):
		return "try another region or accelerator, or later", driver.ErrNoCapacity
	case e.Code == "global/quota-exceeded":
		return "ask Lambda's support for a higher quota, or end other machines", driver.ErrQuota
	case e.Code == "global/account-inactive", e.Code == "global/invalid-address":
		return "check the account's billing settings at https://cloud.lambda.ai/", driver.ErrQuota
	case e.Code == "global/object-does-not-exist" && op == "launch":
		return "check that ImageFamily and FileSystems exist in the region", driver.ErrInvalid
	case e.Code == "global/object-does-not-exist":
		return "", driver.ErrNotFound
	case e.Status == http.StatusNotFound:
		return "check that Endpoint is the API's address", driver.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "check that the key is right, or " + keyHint, driver.ErrAuth
	case strings.HasSuffix(e.Code, "file-system-in-wrong-region"):
		return "set Region to the region of FileSystems", driver.ErrInvalid
	}
	return "", nil
}
