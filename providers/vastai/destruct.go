package vastai

import (
	_ "embed"
	"fmt"
	"math"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/internal/cloud"
)

// maxOnStart is how long the API lets an onstart be, by the least of its own statements.
const maxOnStart = 4000

// destructScript defines vast_end, by which a container destroys itself, and startScript
// is what a container runs when it starts.
var (
	//go:embed destruct.sh
	destructScript string
	//go:embed start.sh
	startScript string
)

// SelfDestruct returns shell text by which a machine destroys its instance, with the key
// that Vast gives each container for that one purpose.
func (d *driver) SelfDestruct(in gputrain.Instance) string {
	return "vast_id=" + cloud.Quote(in.ID) + "\n" + d.destruct() + "vast_end\n"
}

// destruct defines vast_end. The node may not reach Config.Endpoint, which can be on the
// user's own computer: it asks Vast itself, too.
func (d *driver) destruct() string {
	addresses := d.cfg.Endpoint
	if addresses != defaultEndpoint {
		addresses += " " + defaultEndpoint
	}
	return "vast_api=" + cloud.Quote(addresses) + "\n" + cloud.Script(destructScript)
}

// onStart is what a node runs when its container starts: it makes SSH fit for commands,
// and ends the instance where nobody takes the node over, or its pool's TTL is over.
func (d *driver) onStart(pool gputrain.PoolInfo, node string, now time.Time) (string, error) {
	wait, ttl := int(math.Ceil(d.cfg.InstanceTimeout.Seconds())), 0
	if !pool.Expires.IsZero() {
		ttl = max(int(math.Ceil(pool.Expires.Sub(now).Seconds())), 1)
		wait = min(wait, ttl)
	}
	text := fmt.Sprintf("vast_node=%s vast_wait=%d vast_ttl=%d vast_id=\n", cloud.Quote(node), wait, ttl) +
		d.destruct() + cloud.Script(startScript)
	if len(text) > maxOnStart {
		return "", fmt.Errorf("%w: onstart has %d characters; shorten Endpoint", gputrain.ErrInvalid, len(text))
	}
	return text, nil
}
