package vultr

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	keysPage    = "https://my.vultr.com/settings/#settingsapi"
	billingPage = "https://my.vultr.com/billing/"
)

// fault reads a failure of the API: {"error":"text","status":400}.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return nil
	}
	return &rest.Fault{Message: said.Error}
}

// words are the texts of refusals, in lower case: there are no codes. The first match counts.
var words = []struct {
	text string
	kind error
}{
	{"stock", driver.ErrNoCapacity},
	{"capacity", driver.ErrNoCapacity},
	{"unavailable", driver.ErrNoCapacity},
	{"not available", driver.ErrNoCapacity},
	{"out of", driver.ErrNoCapacity},
	{"quota", driver.ErrQuota},
	{"insufficient", driver.ErrBalance},
	{"balance", driver.ErrBalance},
	{"limit", driver.ErrQuota},
	{"exceed", driver.ErrQuota},
}

// classify returns the kind of a failure: of a refused launch by its text, as HTTP's status
// does not show it.
func classify(op string, err error) (hint string, kind error) {
	kind = cloud.StatusKind(err)
	e, refused := cloud.Answered(err)
	if kind == driver.ErrNotFound && refused && e.Message == "" { // from a gateway, not from the API
		kind = driver.ErrUnavailable
	}
	if refused && op == "launch" && e.Status >= 400 && e.Status < 500 && kind != driver.ErrAuth && kind != driver.ErrRateLimited {
		text := strings.ToLower(e.Message)
		for _, w := range words {
			if strings.Contains(text, w.text) {
				kind = w.kind
				break
			}
		}
		if kind == driver.ErrNotFound { // a plan, a region or an image: no machine was rented
			kind = driver.ErrInvalid
		}
	}
	switch {
	case kind == driver.ErrAuth && refused:
		hint = "check that the key is right, may provision, and may be used from this address: " + keysPage
	case kind == driver.ErrQuota:
		hint = "ask Vultr for a higher limit, or see " + billingPage
	case kind == driver.ErrBalance:
		hint = "add credit or a payment card at " + billingPage
	case kind == driver.ErrRateLimited:
		hint = "other programs at this address call the API too: try again in a minute"
	}
	return hint, kind
}

// installing reports whether a machine refuses to be destroyed because it is being changed.
func installing(err error) bool {
	e, refused := cloud.Answered(err)
	if !refused || e.Status >= 500 || cloud.StatusKind(err) == driver.ErrAuth || e.Status == http.StatusNotFound {
		return false
	}
	text := strings.ToLower(e.Message)
	for _, word := range []string{"pending", "currently", "install", "locked"} {
		if strings.Contains(text, word) {
			return true
		}
	}
	return false
}
