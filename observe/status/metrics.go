package status

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// metrics sums up what has ended, which a Run keeps only for some time, so that counters never fall. A part that has ended and is
// not kept any more when the metrics are read is in no histogram.
type metrics struct {
	mu sync.Mutex

	tasks, phases, nodes, lost map[string]bool // those that were counted, while the Run has them
	moved                      map[string]movement

	ended, losses, sent                 map[labels]float64
	durations, waits, setups, readiness map[labels]*histogram
	failed                              int // of ended
	retries                             int
	usd                                 float64
}

func newMetrics() *metrics {
	return &metrics{
		ended: map[labels]float64{}, losses: map[labels]float64{}, sent: map[labels]float64{},
		durations: map[labels]*histogram{}, waits: map[labels]*histogram{}, setups: map[labels]*histogram{}, readiness: map[labels]*histogram{},
	}
}

// labels are those of a series, as they are shown. Empty ones are left out. None is an ID.
type labels struct{ provider, region, instanceType, market, state, cause, phase, use, direction, device string }

func labelsOf(n observe.Node) labels {
	return labels{provider: line(n.Provider), region: line(n.Region), instanceType: line(n.InstanceType), market: line(n.Labels()[gputrain.LabelMarket])}
}

// A histogram counts durations. Its bounds are those of bounds.
type histogram struct {
	counts [len(bounds)]int // of at most each bound
	count  int
	sum    float64
}

// bounds are upper bounds in seconds.
var bounds = [...]float64{0.01, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 10800, 21600, 43200, 86400}

func observed(all map[labels]*histogram, l labels, d time.Duration) {
	h := all[l]
	if h == nil {
		h = &histogram{}
		all[l] = h
	}
	v := max(d.Seconds(), 0)
	h.count++
	h.sum += v
	for i, bound := range bounds {
		if v <= bound {
			h.counts[i]++
		}
	}
}

// take counts what a Run has that was not counted before.
func (m *metrics) take(r observe.Run) {
	byKey := map[string]labels{}
	for _, n := range r.Nodes {
		byKey[n.Key] = labelsOf(n)
	}
	count(&m.tasks, r.Tasks, taskKey, func(t observe.Task) bool { return !t.Ended.IsZero() }, func(t observe.Task) { m.taskEnded(t, byKey[t.Node]) })
	ended := func(state string, total int) {
		if l := (labels{state: state}); float64(total) > m.ended[l] {
			m.ended[l] = float64(total)
		}
	}
	ended("done", r.Counts.Done)
	ended("cancelled", r.Counts.Cancelled)
	if more := r.Counts.Failed - m.failed; more > 0 { // that the Run did not keep until now
		m.ended[labels{state: "failed", cause: "unknown"}] += float64(more)
		m.failed += more
	}
	count(&m.phases, r.Phases, phaseKey, func(p observe.Phase) bool { return !p.Ended.IsZero() }, func(p observe.Phase) {
		l := byKey[p.Node]
		l.phase, l.state = line(p.Name), line(p.State)
		observed(m.setups, l, p.Ended.Sub(p.Began))
	})
	count(&m.nodes, r.Nodes, nodeKey, func(n observe.Node) bool { return !n.ReadyAt.IsZero() }, func(n observe.Node) {
		observed(m.readiness, labelsOf(n), n.ReadyAt.Sub(n.Launched))
	})
	count(&m.lost, r.Nodes, nodeKey, func(n observe.Node) bool { return n.State == gputrain.NodeLost.String() }, func(n observe.Node) {
		m.losses[labelsOf(n)]++
	})
	m.transferred(r, byKey)
	m.retries, m.usd = max(m.retries, r.Counts.Retries), max(m.usd, r.SpentUSD)
}

func (m *metrics) taskEnded(t observe.Task, l labels) {
	l.state = line(t.State)
	if t.State == "failed" {
		l.cause = cmp.Or(line(t.Cause), "unknown")
		m.ended[labels{state: l.state, cause: l.cause}]++
		m.failed++
	}
	if t.Started.IsZero() {
		return
	}
	observed(m.durations, l, t.Ended.Sub(t.Started))
	first := t.Started // of the last attempt
	if len(t.Attempts) > 0 {
		first = t.Attempts[0].Began
	}
	l.state, l.cause = "", ""
	observed(m.waits, l, first.Sub(t.Queued))
}

func (m *metrics) transferred(r observe.Run, byKey map[string]labels) {
	moved := make(map[string]movement, len(r.Transfers))
	for _, t := range r.Transfers {
		key := transferKey(t)
		before, known := m.moved[key]
		now := movement{max(t.Bytes, before.bytes), before.direction}
		switch {
		case t.State == "sending":
			now.direction = "transmit"
		case t.State == "receiving":
			now.direction = "receive"
		case !known:
			now.direction = "unknown" // a transfer that is over does not say it
		}
		moved[key] = now
		l := byKey[t.Node]
		l.direction = now.direction
		m.sent[l] += float64(now.bytes - before.bytes)
	}
	m.moved = moved
}

// A movement is how far a transfer had come.
type movement struct {
	bytes     int64
	direction string
}

// count calls f for each part that is over and was not counted.
func count[T any](counted *map[string]bool, all []T, key func(T) string, over func(T) bool, f func(T)) {
	now := make(map[string]bool, len(*counted))
	for _, v := range all {
		if !over(v) {
			continue
		}
		k := key(v)
		if !(*counted)[k] && !now[k] {
			f(v)
		}
		now[k] = true
	}
	*counted = now
}

func sortedLabels[V any](all map[labels]V) []labels {
	return slices.SortedFunc(maps.Keys(all), func(a, b labels) int {
		return cmp.Or(cmp.Compare(a.provider, b.provider), cmp.Compare(a.region, b.region), cmp.Compare(a.instanceType, b.instanceType), cmp.Compare(a.market, b.market),
			cmp.Compare(a.state, b.state), cmp.Compare(a.cause, b.cause), cmp.Compare(a.phase, b.phase), cmp.Compare(a.use, b.use),
			cmp.Compare(a.direction, b.direction), cmp.Compare(a.device, b.device))
	})
}
