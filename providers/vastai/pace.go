package vastai

import (
	"bytes"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// limits are the minimum times between two calls of an endpoint. The API counts calls by key
// and address.
type limits struct {
	search, create, show, list, destroy, manage, ssh, overlay, user *rest.Limiter
}

func limitsOf(endpoint, key string) limits {
	every := func(seconds float64, endpointOfAPI string) *rest.Limiter {
		return cloud.Limiter(1, time.Duration(seconds*float64(cloud.Second)), endpoint, key, endpointOfAPI)
	}
	return limits{
		search: cloud.Limiter(10, 60*cloud.Second, endpoint, key, "search"), create: every(4.5, "create"),
		show: every(2, "show"), list: every(1, "list"), destroy: every(3, "destroy"), manage: every(1, "manage"),
		ssh: every(1, "ssh"), overlay: every(1, "overlay"), user: every(1, "user"),
	}
}

// A pacer puts a Retry-After on a 429. The API has no such header: the text of its answer names
// the minimum time between two calls, which starts anew with each call that comes too early.
// Twice that time is enough.
type pacer struct{ next http.RoundTripper }

var threshold = regexp.MustCompile(`threshold=(\d+(?:\.\d+)?)`)

func (p pacer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := p.next.RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") != "" {
		return resp, err
	}
	body := resp.Body
	head, err := io.ReadAll(io.LimitReader(body, 4<<10))
	if err != nil {
		body.Close()
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(head), body), body}
	if m := threshold.FindSubmatch(head); m != nil {
		if seconds, err := strconv.ParseFloat(string(m[1]), 64); err == nil {
			resp.Header.Set("Retry-After", strconv.Itoa(int(math.Ceil(2*seconds))))
		}
	}
	return resp, nil
}
