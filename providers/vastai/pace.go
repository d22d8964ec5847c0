package vastai

import (
	"bytes"
	"crypto/sha256"
	"io"
	"math"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
)

// second is what the API's intervals are counted in. Tests have a shorter one.
var second = time.Second

// limits are the least times between two calls of an endpoint. The API counts them for
// one key and one address, so that all drivers of this program with one key share them.
type limits struct {
	search, create, show, list, destroy, manage, ssh, overlay, user *rest.Limiter
}

var (
	limitsMu  sync.Mutex
	allLimits = map[[sha256.Size]byte]*limits{} // by what the API counts for; not by the key, which would be kept
)

func limitsOf(endpoint, key string) *limits {
	limitsMu.Lock()
	defer limitsMu.Unlock()
	who := sha256.Sum256([]byte(endpoint + "\n" + key))
	if allLimits[who] == nil {
		every := func(seconds float64) *rest.Limiter {
			return rest.NewLimiter(1, time.Duration(seconds*float64(second)))
		}
		allLimits[who] = &limits{
			search: rest.NewLimiter(10, 60*second), create: every(4.5), show: every(2), list: every(1),
			destroy: every(3), manage: every(1), ssh: every(1), overlay: every(1), user: every(1),
		}
	}
	return allLimits[who]
}

// A pacer puts a Retry-After on a 429. The API has no such header: the text of its answer
// names the least time between two calls, which who comes too early again waits for anew.
// Twice as long is enough.
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
