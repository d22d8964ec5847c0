package vastai

import (
	_ "embed"
	"fmt"
	"math"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// maxOnStart is the API's limit for an onstart, the lowest that it states.
const maxOnStart = 4000

// destructScript defines vast_end, with which a container destroys itself. startScript runs at
// a container's start.
var (
	//go:embed destruct.sh
	destructScript string
	//go:embed start.sh
	startScript string
)

// destruct returns the script that defines vast_end. The node may not reach Config.Endpoint,
// which can be on the user's own computer, so the script calls Vast itself, too.
func (c Config) destruct() string {
	addresses := c.Endpoint
	if addresses != defaultEndpoint {
		addresses += " " + defaultEndpoint
	}
	return "vast_api=" + cloud.Quote(addresses) + "\n" + cloud.Script(destructScript)
}

// onStart returns the script that a node runs when its container starts. It prepares SSH for
// commands, and ends the instance if no pool takes the node over, or if its pool's TTL is over.
func (c Config) onStart(pool driver.PoolInfo, node string, now time.Time) (string, error) {
	wait, ttl := int(math.Ceil(c.InstanceTimeout.Seconds())), 0
	if !pool.Expires.IsZero() {
		ttl = max(int(math.Ceil(pool.Expires.Sub(now).Seconds())), 1)
		wait = min(wait, ttl)
	}
	text := fmt.Sprintf("vast_node=%s vast_wait=%d vast_ttl=%d vast_id=\n", cloud.Quote(node), wait, ttl) +
		c.destruct() + cloud.Script(startScript)
	if len(text) > maxOnStart {
		return "", fmt.Errorf("%w: onstart has %d characters; shorten Endpoint", driver.ErrInvalid, len(text))
	}
	return text, nil
}
