package lambda

import (
	"net/http"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// Classify goes by the API's codes. Only by its own words does a thing not exist: what
// stands in front of the API answers 404, too.
func (*api) Classify(op string, err error) (hint string, kind error) {
	e, ok := cloud.Answered(err)
	if !ok {
		return "", nil
	}
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this account at the same time: try again in a minute", gputrain.ErrRateLimited
	case strings.HasSuffix(e.Code, "insufficient-capacity"):
		return "try another region or accelerator, or later", gputrain.ErrNoCapacity
	case e.Code == "global/quota-exceeded":
		return "ask Lambda's support for a higher quota, or end other machines", gputrain.ErrQuota
	case e.Code == "global/account-inactive", e.Code == "global/invalid-address":
		return "see the account's billing settings at https://cloud.lambda.ai/", gputrain.ErrQuota
	case e.Code == "global/object-does-not-exist" && op == "launch":
		return "see that ImageFamily and FileSystems exist in the region", gputrain.ErrInvalid
	case e.Code == "global/object-does-not-exist":
		return "", gputrain.ErrNotFound
	case e.Status == http.StatusNotFound:
		return "see that Endpoint is the API's address", gputrain.ErrUnavailable
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "see that the key is right, or " + keyHint, gputrain.ErrAuth
	case strings.HasSuffix(e.Code, "file-system-in-wrong-region"):
		return "set Region to the one that FileSystems are in", gputrain.ErrInvalid
	}
	return "", nil
}
