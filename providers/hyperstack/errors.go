package hyperstack

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The API's words for refusals, of which it publishes no list: by what has been seen, and
// for want of stock and quota by what the words can be.
var (
	tooEarlyWords = regexp.MustCompile(`currently being created`)
	goneWords     = regexp.MustCompile(`not_found|does not exist`) // they write "does not exists"
	creditWords   = regexp.MustCompile(`credit|balance|payment`)
	stockWords    = regexp.MustCompile(`stock|capacity|not available|unavailable|insufficient resource|no valid host`)
	quotaWords    = regexp.MustCompile(`quota|limit|maximum|exceed`)
)

// classify is the table of refusals. The words count before the status.
func classify(op string, err error) (hint string, kind error) {
	e, refused := cloud.Answered(err)
	if !refused {
		return "", nil
	}
	said := strings.ToLower(e.Code + " " + e.Message)
	launch := op == "launch"
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "Hyperstack lets through about 500 calls a minute from one address", gputrain.ErrRateLimited
	case e.Status == http.StatusUnauthorized, strings.Contains(said, "unauthorized"):
		return "see in Hyperstack's console under API keys that the key is there", gputrain.ErrAuth
	case tooEarlyWords.MatchString(said):
		return "a machine cannot be ended while it is being made; end it again later", gputrain.ErrUnavailable
	case e.Status == http.StatusPaymentRequired, creditWords.MatchString(said):
		return addCredit, gputrain.ErrQuota
	case launch && stockWords.MatchString(said):
		return "", gputrain.ErrNoCapacity
	case launch && quotaWords.MatchString(said):
		return "ask Hyperstack's support for a higher quota", gputrain.ErrQuota
	case launch && goneWords.MatchString(said):
		return "the flavour or the image is no more", gputrain.ErrUnsupported
	case goneWords.MatchString(said):
		return "", gputrain.ErrNotFound
	case e.Status == http.StatusNotFound: // not the API's own words: what stands in front of it
		return "", gputrain.ErrUnavailable
	}
	return "", nil
}

const addCredit = "add credit in Hyperstack's console under Billing"

// lastAnswer is what the last attempt of a call was told: a deletion that is repeated, as its
// first answer was lost, finds nothing to delete.
func lastAnswer(err error) (*rest.Error, bool) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return nil, false
	}
	return cloud.Answered(e.Last())
}

// isGone is whether the API says that what was named does not exist.
func isGone(err error) bool {
	if e, answered := lastAnswer(err); answered {
		_, kind := classify("", e)
		return kind == gputrain.ErrNotFound
	}
	return errors.Is(err, gputrain.ErrNotFound)
}

// isTooEarly is whether a machine cannot be ended yet.
func isTooEarly(err error) bool {
	e, refused := lastAnswer(err)
	return refused && tooEarlyWords.MatchString(strings.ToLower(e.Message))
}

// isInUse is whether an environment refuses to be removed, as it does while it has machines.
func isInUse(err error) bool {
	e, refused := lastAnswer(err)
	return refused && (e.Status == http.StatusBadRequest || e.Status == http.StatusConflict) && !isGone(err)
}
