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
	limits   = map[[sha256.Size]byte]*rest.Limiter{} // by a hash, so that no key is kept
)

// Limiter returns the limiter of n calls in a span. All drivers of this program share it if
// the parts are equal: the credential that the cloud counts by, its address, and the kind of
// call.
func Limiter(n int, span time.Duration, parts ...string) *rest.Limiter {
	limitsMu.Lock()
	defer limitsMu.Unlock()
	key := sha256.Sum256([]byte(strings.Join(parts, "\x00")))
	if limits[key] == nil {
		limits[key] = rest.NewLimiter(n, span)
	}
	return limits[key]
}
