package massedcompute

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

var (
	wrongImage = regexp.MustCompile(`(?i)does not support the vm image`)
	noRoom     = regexp.MustCompile(`(?i)capacity|out of stock|no longer available`)
	noQuota    = regexp.MustCompile(`(?i)quota|limit exceeded`)
)

// Classify goes by the texts of refusals, as the API has no codes.
func (*api) Classify(op string, err error) (hint string, kind error) {
	e, ok := cloud.Answered(err)
	if !ok || e.Status >= 500 || e.Err != nil {
		return "", nil
	}
	text := e.Message + " " + e.Body
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this account at the same time: try again in a minute", gputrain.ErrRateLimited
	case wrongImage.MatchString(text):
		return "set ImageID to one that fits the product, or ask for another accelerator", gputrain.ErrInvalid
	case e.Status == http.StatusUnauthorized:
		return "see that the key is right, or " + keyHint, gputrain.ErrAuth
	case e.Status == http.StatusForbidden:
		return "a key for reading only cannot do this: " + keyHint, gputrain.ErrAuth
	case e.Status == http.StatusPaymentRequired:
		return "set the amount and the threshold of the automatic recharge in the account's billing settings", gputrain.ErrQuota
	case noQuota.MatchString(text):
		return "ask Massed Compute's support for a higher quota, or end other machines", gputrain.ErrQuota
	case op == "launch" && (e.Status == http.StatusConflict || noRoom.MatchString(text)):
		return "ask for another accelerator, or later", gputrain.ErrNoCapacity
	case e.Status == http.StatusNotFound && strings.HasPrefix(strings.TrimSpace(e.Body), "<"):
		return "see that Endpoint is the API's address", gputrain.ErrUnavailable // a page: the API did not say it
	case e.Status == http.StatusNotFound && op == "launch":
		return "see that ImageID exists", gputrain.ErrInvalid
	}
	return "", nil
}
