package hyperstack

import (
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// The API's texts of refusals, of which it publishes no list: those that were seen, and likely
// ones for lack of stock and quota.
var (
	tooEarlyWords = regexp.MustCompile(`currently being created`)
	goneWords     = regexp.MustCompile(`not_found|does not exist`) // they write "does not exists"
	creditWords   = regexp.MustCompile(`credit|balance|payment`)
	stockWords    = regexp.MustCompile(`stock|capacity|not available|unavailable|insufficient resource|no valid host`)
	quotaWords    = regexp.MustCompile(`quota|limit|maximum|exceed`)
)

// classify maps refusals to kinds. The text counts before the status.
func classify(op string, err error) (hint string, kind error) {
	e, refused := cloud.Answered(err)
	if !refused {
		return "", nil
	}
	said := strings.ToLower(e.Code + " " + e.Message)
	launch := op == "launch"
	switch {
	case e.Status == http.StatusTooManyRequests:
		return "Hyperstack allows about 500 calls a minute from one address", driver.ErrRateLimited
	case e.Status == http.StatusUnauthorized, strings.Contains(said, "unauthorized"):
		return "check in Hyperstack's console under API keys that the key exists", driver.ErrAuth
	case tooEarlyWords.MatchString(said):
		return "a machine cannot be ended while it is being made; end it again later", driver.ErrUnavailable
	case e.Status == http.StatusPaymentRequired, e.Status != http.StatusNotFound && creditWords.MatchString(said):
		return addCredit, driver.ErrBalance
	case launch && stockWords.MatchString(said):
		return "", driver.ErrNoCapacity
	case launch && quotaWords.MatchString(said):
		return "ask Hyperstack's support for a higher quota", driver.ErrQuota
	case launch && goneWords.MatchString(said):
		return "the flavour or the image no longer exists", driver.ErrUnsupported
	case goneWords.MatchString(said):
		return "", driver.ErrNotFound
	case e.Status == http.StatusForbidden:
		return "the key's role does not allow this: check its permissions in Hyperstack's console", driver.ErrAuth
	case e.Status == http.StatusNotFound: // from a gateway, not from the API
		return "", driver.ErrUnavailable
	}
	return "", nil
}

const addCredit = "add credit in Hyperstack's console under Billing"

// lastAnswer returns the answer to the last attempt of a call: a deletion that is repeated
// because its first answer was lost finds nothing to delete.
func lastAnswer(err error) (*rest.Error, bool) {
	e, ok := errors.AsType[*rest.Error](err)
	if !ok {
		return nil, false
	}
	return cloud.Answered(e.Last())
}

// isGone reports whether the API answers that the thing does not exist.
func isGone(err error) bool {
	if e, answered := lastAnswer(err); answered {
		_, kind := classify("", e)
		return kind == driver.ErrNotFound
	}
	return errors.Is(err, driver.ErrNotFound)
}

// isTooEarly reports whether a machine cannot be ended yet.
func isTooEarly(err error) bool {
	e, refused := lastAnswer(err)
	return refused && tooEarlyWords.MatchString(strings.ToLower(e.Message))
}

// isInUse reports whether an environment cannot be removed because it has machines.
func isInUse(err error) bool {
	e, refused := lastAnswer(err)
	return refused && (e.Status == http.StatusBadRequest || e.Status == http.StatusConflict) && !isGone(err)
}
