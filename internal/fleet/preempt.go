package fleet

import (
	"time"

	"github.com/gputrain/gputrain/internal/node"
)

// spotNodes returns the spot nodes that were reached and whose end is not announced yet, by the
// IDs of their machines.
func (f *Fleet) spotNodes() map[string]*node.Node {
	f.config.Lock.Lock()
	defer f.config.Lock.Unlock()
	spot := map[string]*node.Node{}
	for _, m := range f.roster.members {
		reached := m.state >= Bootstrapping && !m.state.Over()
		if inst := m.Node.Instance(); reached && inst.Offer.Spot && m.takenBack.IsZero() {
			spot[inst.ID] = m.Node
		}
	}
	return spot
}

// notice notes, once, when the member's provider will take it back: it takes no further tasks,
// and runs the command for that. Nothing is launched in its place before it is lost.
func (m *Member) notice(at time.Time) {
	f := m.fleet
	f.config.Lock.Lock()
	if !m.takenBack.IsZero() || m.state.Over() {
		f.config.Lock.Unlock()
		return
	}
	m.takenBack = at
	f.Tasks.Update(m.Slots)
	f.config.Lock.Unlock()
	left := max(time.Until(at), 0)
	f.config.Reporter.Preemption(m.Rank(), "notice", left, nil)
	if f.config.Node.OnPreemption != "" && left > 0 {
		f.config.Node.Go(func() { m.onPreemption(left) })
	}
}

func (m *Member) onPreemption(left time.Duration) {
	elapsed, err := m.Node.RunOnPreemption(left)
	what := "done"
	if err != nil {
		what = "failed"
	}
	m.fleet.config.Reporter.Preemption(m.Rank(), what, elapsed, err)
}

// spare has a member take tasks again if its provider has not taken it back after all. The lock
// is held.
func (m *Member) spare() {
	if m.takenBack.IsZero() || time.Since(m.takenBack) < node.UnreachableTimeout {
		return
	}
	m.takenBack = time.Time{}
	m.fleet.Tasks.Update(m.Slots)
	m.fleet.config.Reporter.Preemption(m.Rank(), "spared", 0, nil)
	m.fleet.Tasks.Fill(m.Slots)
}
