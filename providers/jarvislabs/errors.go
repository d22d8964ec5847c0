package jarvislabs

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The words of refusals, which have no codes, by what the vendor's own clients look for.
var (
	balanceWords = regexp.MustCompile(`balance|funds|recharge`)
	foreignWords = regexp.MustCompile(`does not belong`)
	stockWords   = regexp.MustCompile(`capacity|available|stock|no free`)
	quotaWords   = regexp.MustCompile(`limit|maximum|quota`)
	goneWords    = regexp.MustCompile(`not found|no such|does not exist`)
)

// classify is the table of refusals. The words count before the status.
func classify(op string, err error) (hint string, kind error) {
	e, answered := cloud.Answered(err)
	if !answered {
		return "", nil
	}
	said := strings.ToLower(e.Message)
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "", gputrain.ErrRateLimited
	case balanceWords.MatchString(said):
		return "the wallet is prepaid: add to it in Jarvis Labs' console under Billing", gputrain.ErrQuota
	case foreignWords.MatchString(said): // which is how a machine that is not the account's is said
		return "", gputrain.ErrNotFound
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden:
		return "see in Jarvis Labs' console under Settings, API Keys, that the key is there", gputrain.ErrAuth
	case op == "launch" && stockWords.MatchString(said):
		return "", gputrain.ErrNoCapacity
	case (op == "launch" || op == "prepare") && quotaWords.MatchString(said):
		return "an account has 10 SSH keys at most, and a number of machines", gputrain.ErrQuota
	case op == "launch" && e.Status == http.StatusNotFound && said != "":
		return "the region does not have this template", gputrain.ErrUnsupported
	case e.Status == http.StatusNotFound, e.Status == http.StatusOK && op != "launch":
		return "", gputrain.ErrUnavailable // that a machine is gone the list of all has to say
	}
	return "", nil
}

// isGone is whether an answer about one thing says that it does not exist: in the API's own
// words, or under a 200 without any.
func isGone(err error) bool {
	e, answered := cloud.Answered(err)
	if !answered {
		return false
	}
	said := strings.ToLower(e.Message)
	known := e.Status == http.StatusNotFound || e.Code == refused
	return known && goneWords.MatchString(said) || e.Code == refused && said == "" || foreignWords.MatchString(said)
}

// isMissing is whether a machine is in no list.
func isMissing(err error) bool {
	e, ok := errors.AsType[*gputrain.Error](err)
	return ok && e.Kind == gputrain.ErrNotFound
}

// mayBeUnderWay is whether a destroy that failed so may have had its effect, or an earlier
// one: unless it was refused for the key's sake.
func mayBeUnderWay(err error) bool {
	if e, ok := errors.AsType[*gputrain.Error](err); ok {
		return e.Kind != gputrain.ErrUnsupported
	}
	_, kind := classify("terminate", err)
	return kind != gputrain.ErrAuth && kind != gputrain.ErrRateLimited && !errors.Is(err, context.Canceled)
}
