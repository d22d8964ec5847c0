package vastai

import (
	_ "embed"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
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
	return "vast_id=" + quote(in.ID) + "\n" + d.destruct() + "vast_end\n"
}

func (d *driver) destruct() string {
	return "vast_api=" + quote(d.cfg.Endpoint) + "\n" + script(destructScript)
}

// onStart is what a node runs when its container starts: it makes SSH fit for commands,
// and ends the instance where nobody takes the node over, or its pool's TTL is over.
func (d *driver) onStart(pool gputrain.PoolInfo, node string, now time.Time) (string, error) {
	ttl := 0
	if !pool.Expires.IsZero() {
		ttl = max(int(math.Ceil(pool.Expires.Sub(now).Seconds())), 1)
	}
	text := fmt.Sprintf("vast_node=%s vast_wait=%d vast_ttl=%d vast_id=\n", quote(node), int(math.Ceil(d.cfg.InstanceTimeout.Seconds())), ttl) +
		d.destruct() + script(startScript)
	if len(text) > maxOnStart {
		return "", fmt.Errorf("%w: onstart has %d characters; shorten Endpoint", gputrain.ErrInvalid, len(text))
	}
	return text, nil
}

// script leaves out the comments of a script.
func script(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if trimmed := strings.TrimSpace(line); trimmed != "" && !strings.HasPrefix(trimmed, "#") {
			b.WriteString(line)
		}
	}
	return b.String()
}

// quote makes one word of s for a shell.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
