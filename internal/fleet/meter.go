package fleet

import (
	"slices"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/providers/driver"
)

// A Meter counts what nodes have cost while someone had them. The zero value counts none. Its methods can be called concurrently.
type Meter struct {
	mu       sync.Mutex
	since    map[*scheduler.Node]time.Time // by node that someone has
	usd      float64                       // of those that it has no more
	unpriced bool                          // some of it is not known
}

// Have notes that someone has these nodes from now on, if not before, and no others.
func (m *Meter) Have(nodes ...*scheduler.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for n := range m.since {
		if !slices.Contains(nodes, n) {
			m.end(n)
		}
	}
	for _, n := range nodes {
		m.begin(n)
	}
}

// Add notes that someone has one more node.
func (m *Meter) Add(n *scheduler.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.begin(n)
}

// Drop notes that someone does not have a node any more.
func (m *Meter) Drop(n *scheduler.Node) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.end(n)
}

// Cost returns what the nodes have cost so far.
func (m *Meter) Cost() driver.Price {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum, unpriced := m.usd, m.unpriced
	for n, since := range m.since {
		usd, known := cost(n, since)
		sum, unpriced = sum+usd, unpriced || !known
	}
	if unpriced {
		return driver.Price{}
	}
	return driver.USD(sum)
}

func (m *Meter) begin(n *scheduler.Node) {
	if m.since == nil {
		m.since = map[*scheduler.Node]time.Time{}
	}
	if m.since[n].IsZero() {
		m.since[n] = time.Now()
	}
}

func (m *Meter) end(n *scheduler.Node) {
	since, has := m.since[n]
	if !has {
		return
	}
	delete(m.since, n)
	usd, known := cost(n, since)
	m.usd, m.unpriced = m.usd+usd, m.unpriced || !known
}

// cost returns what a node has cost since then.
func cost(n *scheduler.Node, since time.Time) (usd float64, known bool) {
	perHour, known := Of(n).Node.Instance().Offer.HourlyUSD.USD()
	return perHour * time.Since(since).Hours(), known
}
