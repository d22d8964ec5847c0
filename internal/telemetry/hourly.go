package telemetry

import "time"

const (
	// Of one device hourlyFaults of a severity are told in an hour, and of a node nodeFaults.
	hourlyFaults, nodeFaults = 10, 100
	// A device is told to lag hourlyLags times in an hour, and those of a node nodeLags times.
	hourlyLags, nodeLags = 6, 64
)

// An hourly counts what was told in an hour: a node decides what it reports, and not how often that is told. The zero value has
// told nothing.
type hourly struct {
	since  time.Time
	counts map[any]int
}

// A quota is how often something is told in an hour.
type quota struct {
	key  any
	most int
}

// may reports whether something may be told once more, which counts for all quotas.
func (h *hourly) may(now time.Time, all ...quota) bool {
	if h.counts == nil || now.Sub(h.since) >= time.Hour {
		h.since, h.counts = now, map[any]int{}
	}
	for _, q := range all {
		if h.counts[q.key] >= q.most {
			return false
		}
	}
	for _, q := range all {
		h.counts[q.key]++
	}
	return true
}
