package node

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/bounded"
	"github.com/gputrain/gputrain/internal/retry"
)

// A node whose traffic is billed counts it every trafficInterval. What it moves after the last count is not known.
const trafficInterval = time.Minute

// countTraffic prints the counters of all network devices: those of the machine since it booted, or of the container since it
// was made.
const countTraffic = "cat /proc/net/dev"

// isMetered reports whether the machine's traffic is billed, and is the pool's: an adopted machine had some before.
func (m *Machine) isMetered() bool {
	o := m.Instance().Offer
	return (o.IngressUSD > 0 || o.EgressUSD > 0) && !m.Capabilities().Adopts
}

// watchTraffic counts a node's traffic until the node is given up.
func watchTraffic(n *Node) {
	var meter meter
	for {
		if n.IsUp() {
			ctx, cancel := context.WithTimeout(n.ctx, trafficInterval)
			var out bounded.Buffer
			err := n.Client().Exec(ctx, countTraffic, nil, &out, nil)
			cancel()
			if received, sent, ok := parseTraffic(out.String()); err == nil && ok {
				n.owner.Moved(meter.read(received, sent))
			}
		}
		if !retry.Sleep(n.ctx, trafficInterval) {
			return
		}
	}
}

// A meter adds up counters that begin anew when a machine reboots.
type meter struct {
	before, last [2]int64 // received and sent: by earlier counters, and by those of now
}

// read returns the sums for the counters of now.
func (m *meter) read(received, sent int64) (allReceived, allSent int64) {
	now := [2]int64{received, sent}
	if now[0] < m.last[0] || now[1] < m.last[1] {
		m.before[0] = min(m.before[0]+m.last[0], mostTraffic)
		m.before[1] = min(m.before[1]+m.last[1], mostTraffic)
	}
	m.last = now
	return min(m.before[0]+now[0], mostTraffic), min(m.before[1]+now[1], mostTraffic)
}

// mostTraffic bounds what a node says of its traffic, and the sum of that: 100 Gbit/s for seven years.
const mostTraffic = 1 << 61

// parseTraffic returns the bytes that network devices have received and sent, by /proc/net/dev. The loopback device, and
// the inner ends of bridges and tunnels, whose packets pass another device too, do not count.
func parseTraffic(text string) (received, sent int64, ok bool) {
	for line := range strings.Lines(text) {
		name, counters, found := strings.Cut(line, ":")
		fields := strings.Fields(counters)
		if !found || len(fields) < 9 || isInner(strings.TrimSpace(name)) {
			continue
		}
		in, err := strconv.ParseInt(fields[0], 10, 64)
		out, bad := strconv.ParseInt(fields[8], 10, 64)
		if err != nil || bad != nil || in < 0 || out < 0 {
			return 0, 0, false
		}
		if received, sent, ok = received+min(in, mostTraffic), sent+min(out, mostTraffic), true; max(received, sent) > mostTraffic {
			return 0, 0, false
		}
	}
	return received, sent, ok
}

func isInner(device string) bool {
	for _, prefix := range []string{"lo", "docker", "br-", "veth", "virbr", "tun", "tap", "wg", "ib"} {
		if strings.HasPrefix(device, prefix) {
			return true
		}
	}
	return false
}
