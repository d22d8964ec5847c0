package cloud

import (
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/rest"
)

var (
	limitsMu sync.Mutex
	limits   = map[[sha256.Size]byte]*rest.Limiter{} // not by a key itself, which would be kept
)

// Limiter returns the limiter of n calls in a span that all drivers of this program have in
// common for the same thing: what a cloud counts by is a key, at an address, and the kind
// of call.
func Limiter(n int, span time.Duration, of ...string) *rest.Limiter {
	limitsMu.Lock()
	defer limitsMu.Unlock()
	who := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	if limits[who] == nil {
		limits[who] = rest.NewLimiter(n, span)
	}
	return limits[who]
}
