package massedcompute

import (
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

var (
	wrongImage = regexp.MustCompile(`(?i)does not support the vm image`)
	noRoom     = regexp.MustCompile(`(?i)capacity|out of stock|no longer available`)
	noQuota    = regexp.MustCompile(`(?i)quota|limit exceeded`)
)

// Classify returns the kind of a refusal by its text, as the API has no codes, and a hint.
func (*api) Classify(op string, err error) (hint string, kind error) {
	e, ok := cloud.Answered(err)
	if !ok || e.Status >= 500 || e.Err != nil {
		return "", nil
	}
	text := e.Message + " " + e.Body
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this account at the same time: try again in a minute", driver.ErrRateLimited
	case wrongImage.MatchString(text):
		return "set ImageID to an image that fits the product, or ask for another accelerator", driver.ErrInvalid
	case e.Status == http.StatusUnauthorized:
		return "check that the key is right, or " + keyHint, driver.ErrAuth
	case e.Status == http.StatusForbidden:
		return "a read-only key cannot do this: " + keyHint, driver.ErrAuth
	case e.Status == http.StatusPaymentRequired:
		return "set the amount and the threshold of the automatic recharge in the account's billing settings", driver.ErrBalance
	case noQuota.MatchString(text):
		return "ask Massed Compute's support for a higher quota, or end other machines", driver.ErrQuota
	case op == "launch" && (e.Status == http.StatusConflict || noRoom.MatchString(text)):
		return "ask for another accelerator, or later", driver.ErrNoCapacity
	case e.Status == http.StatusNotFound && strings.HasPrefix(strings.TrimSpace(e.Body), "<"):
		return "check that Endpoint is the API's address", driver.ErrUnavailable // a page: the API did not say it
	case e.Status == http.StatusNotFound && op == "launch":
		return "check that ImageID exists", driver.ErrInvalid
	}
	return "", nil
}
