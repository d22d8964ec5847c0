package vultr

import (
	"encoding/json"
	"net/http"
	"strings"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

const (
	keysPage    = "https://my.vultr.com/settings/#settingsapi"
	billingPage = "https://my.vultr.com/billing/"
)

// fault reads a failure in the API's words: {"error":"text","status":400}.
func fault(status int, body []byte) *rest.Fault {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" {
		return nil
	}
	return &rest.Fault{Message: said.Error}
}

// words are what refusals say, in lower case: there are no codes. The first that is found
// counts.
var words = []struct {
	text string
	kind error
}{
	{"stock", gputrain.ErrNoCapacity},
	{"capacity", gputrain.ErrNoCapacity},
	{"unavailable", gputrain.ErrNoCapacity},
	{"not available", gputrain.ErrNoCapacity},
	{"out of", gputrain.ErrNoCapacity},
	{"limit", gputrain.ErrQuota},
	{"quota", gputrain.ErrQuota},
	{"exceed", gputrain.ErrQuota},
	{"insufficient", gputrain.ErrQuota},
	{"balance", gputrain.ErrQuota},
}

// classify says what kind of failure an error is: of a refused launch by its words, which
// HTTP's status says nothing of.
func classify(op string, err error) (hint string, kind error) {
	kind = cloud.StatusKind(err)
	e, refused := cloud.Answered(err)
	if kind == gputrain.ErrNotFound && refused && e.Message == "" { // by whom, if not by the API?
		kind = gputrain.ErrUnavailable
	}
	if refused && op == "launch" && e.Status >= 400 && e.Status < 500 && kind != gputrain.ErrAuth && kind != gputrain.ErrRateLimited {
		text := strings.ToLower(e.Message)
		for _, w := range words {
			if strings.Contains(text, w.text) {
				kind = w.kind
				break
			}
		}
		if kind == gputrain.ErrNotFound { // a plan, a region or an image: no machine was asked for
			kind = gputrain.ErrInvalid
		}
	}
	switch {
	case kind == gputrain.ErrAuth && refused:
		hint = "see that the key is right, may provision, and may be used from this address: " + keysPage
	case kind == gputrain.ErrQuota:
		hint = "ask Vultr for a higher limit, or see " + billingPage
	case kind == gputrain.ErrRateLimited:
		hint = "other programs at this address call the API too: try again in a minute"
	}
	return hint, kind
}

// installing is whether a machine refuses to be destroyed because of what is being done to
// it.
func installing(err error) bool {
	e, refused := cloud.Answered(err)
	if !refused || e.Status >= 500 || cloud.StatusKind(err) == gputrain.ErrAuth || e.Status == http.StatusNotFound {
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
