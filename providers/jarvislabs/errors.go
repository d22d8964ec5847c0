package jarvislabs

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The texts of refusals, which have no codes, from the vendor's own clients.
var (
	balanceWords = regexp.MustCompile(`balance|funds|recharge`)
	foreignWords = regexp.MustCompile(`does not belong`)
	stockWords   = regexp.MustCompile(`capacity|available|stock|no free`)
	quotaWords   = regexp.MustCompile(`limit|maximum|quota`)
	goneWords    = regexp.MustCompile(`not found|no such|does not exist`)
)

// classify maps refusals to kinds. The text counts before the status.
func classify(op string, err error) (hint string, kind error) {
	e, answered := cloud.Answered(err)
	if !answered {
		return "", nil
	}
	said := strings.ToLower(e.Message)
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "other programs use this account at the same time: try again in a minute", driver.ErrRateLimited
	case balanceWords.MatchString(said):
		return "the wallet is prepaid: add to it in Jarvis Labs' console under Billing", driver.ErrBalance
	case foreignWords.MatchString(said): // the text for a machine of another account
		return "", driver.ErrNotFound
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "check in Jarvis Labs' console under Settings, API Keys, that the key exists", driver.ErrAuth
	case op == "launch" && stockWords.MatchString(said):
		return "", driver.ErrNoCapacity
	case (op == "launch" || op == "prepare") && quotaWords.MatchString(said):
		return "an account has 10 SSH keys at most, and a number of machines", driver.ErrQuota
	case op == "launch" && e.Status == http.StatusNotFound && said != "":
		return "the region does not have this template", driver.ErrUnsupported
	case e.Status == http.StatusNotFound, e.Status == http.StatusOK && op != "launch":
		return "", driver.ErrUnavailable // only the list of all machines proves that one is gone
	}
	return "", nil
}

// isGone reports whether an answer about one thing means that it does not exist: by the API's
// text, or by a 200 without any.
func isGone(err error) bool {
	e, answered := cloud.Answered(err)
	if !answered {
		return false
	}
	said := strings.ToLower(e.Message)
	known := e.Status == http.StatusNotFound || e.Code == refused
	return known && goneWords.MatchString(said) || e.Code == refused && said == "" || foreignWords.MatchString(said)
}

// isMissing reports whether a machine is in no list.
func isMissing(err error) bool {
	e, ok := errors.AsType[*driver.Error](err)
	return ok && e.Kind == driver.ErrNotFound
}

// mayBeUnderWay reports whether a failed destroy, or an earlier one, may have taken effect:
// unless the key was refused.
func mayBeUnderWay(err error) bool {
	if e, ok := errors.AsType[*driver.Error](err); ok {
		return e.Kind != driver.ErrUnsupported
	}
	_, kind := classify("terminate", err)
	return kind != driver.ErrAuth && kind != driver.ErrRateLimited && !errors.Is(err, context.Canceled)
}
