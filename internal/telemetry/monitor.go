package telemetry

import (
	"context"
	"slices"
	"sync"
	"time"
)

const (
	// A device that works for more than busyPercent of the time is busy.
	busyPercent = 5
	// A node without a sample for fresh is not known to be idle.
	fresh = 95 * time.Second
	// A monitor keeps keptFaults faults.
	keptFaults = 32
)

// A Monitor keeps what the Watch of a node has reported last, and hands it to observers. Its zero value has nothing yet.
type Monitor struct {
	mu        sync.Mutex
	samples   []Sample
	sampled   time.Time
	active    time.Time // when a device was busy last
	tells     bool      // every device of the last sample tells how busy it is
	faults    []seenFault
	told      hourly // a severer fault is told even if there were many slighter ones
	observers []*observer
}

type seenFault struct {
	at time.Time
	Fault
}

type observer struct{ report func(Report) }

// Run watches a node until ctx ends.
func (m *Monitor) Run(ctx context.Context, n Node) {
	Watch(ctx, n, m.report)
}

// Observe calls f with every report from now on, one at a time, until stop is called. f must not block.
func (m *Monitor) Observe(f func(Report)) (stop func()) {
	o := &observer{f}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.observers = append(m.observers, o)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.observers = slices.DeleteFunc(slices.Clone(m.observers), func(other *observer) bool { return other == o })
	}
}

func (m *Monitor) report(r Report) {
	m.mu.Lock()
	now := time.Now()
	m.note(r, now)
	observers := m.observers
	if r.Fault != nil && !m.told.may(now, quota{[2]any{r.Fault.Device, r.Fault.Severity}, hourlyFaults}, quota{r.Fault.Severity, nodeFaults}) {
		observers = nil
	}
	m.mu.Unlock()
	for _, o := range observers {
		o.report(r)
	}
}

// note keeps a report. The lock is held.
func (m *Monitor) note(r Report, now time.Time) {
	if r.Fault != nil {
		m.faults = append(m.faults[max(len(m.faults)-keptFaults+1, 0):], seenFault{now, *r.Fault})
		return
	}
	m.samples, m.sampled, m.tells = r.Samples, now, true
	for _, s := range r.Samples {
		switch {
		case s.Utilization > busyPercent:
			m.active = now
		case !(s.Utilization >= 0): // as that of a divided GPU
			m.tells = false
		}
	}
}

// Samples returns the last sample, or nil if there is none that is fresh.
func (m *Monitor) Samples() []Sample {
	m.mu.Lock()
	defer m.mu.Unlock()
	if time.Since(m.sampled) > fresh {
		return nil
	}
	return m.samples
}

// Fault returns the worst fault of at least a severity since a time: the first of those.
func (m *Monitor) Fault(since time.Time, least Severity) (worst Fault, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.faults {
		if !f.at.Before(since) && f.Severity >= least && (!ok || f.Severity > worst.Severity) {
			worst, ok = f.Fault, true
		}
	}
	return worst, ok
}

// Activity returns when a device of the node was busy last, and whether that is known until now.
func (m *Monitor) Activity() Activity {
	m.mu.Lock()
	defer m.mu.Unlock()
	return Activity{Last: m.active, Known: m.tells && time.Since(m.sampled) <= fresh}
}

// An Activity says when a node's devices were busy.
type Activity struct {
	Last  time.Time // when one was busy last
	Known bool      // until now
	Tasks bool      // a task runs on the node
}

// An Idle finds out when a pool has done nothing for a time. Times are given to it.
type Idle struct {
	timeout time.Duration
	since   time.Time // when it last did something
	warned  bool
	ran     bool
}

// NewIdle returns an Idle for a pool that has just begun.
func NewIdle(timeout time.Duration, now time.Time) *Idle { return &Idle{timeout: timeout, since: now} }

// Look returns for how long the pool has done nothing. It has done something if a device was busy, or a task ran on a node whose
// devices are not known to have been idle, or a task has begun on a pool that had none. lastTask is when the last task ended.
// waiting reports that tasks wait or files are copied, which counts while no task runs. warn is true one time, after half of
// the timeout.
func (i *Idle) Look(now, lastTask time.Time, waiting bool, nodes []Activity) (idle time.Duration, warn, over bool) {
	since, runs := i.since, false
	later := func(t time.Time) {
		if t.After(since) {
			since = t
		}
	}
	later(lastTask)
	for _, n := range nodes {
		later(n.Last)
		runs = runs || n.Tasks
		if n.Tasks && !n.Known {
			later(now)
		}
	}
	if runs && !i.ran || waiting && !runs {
		later(now)
	}
	i.ran = runs
	if since.After(i.since) {
		i.since, i.warned = since, false
	}
	idle = now.Sub(i.since)
	warn = !i.warned && idle >= i.timeout/2
	i.warned = i.warned || warn
	return idle, warn, idle >= i.timeout
}
