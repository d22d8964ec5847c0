// Package overdue enforces time limits at the client, in case a node does not keep them.
package overdue

import (
	"sync"
	"time"
)

// After its time limit a node has Grace to report the outcome. A node that has been reachable for Grace since then, and
// has not reported, is lost. Only time in which the node can be reached and this program is awake counts.
const Grace = 2 * time.Minute

// After its limit a Clock checks once per tick. Each check counts for one tick, however late it comes, because a
// program that was asleep has not listened meanwhile.
const tick = time.Second

// A Clock decides when a node is overdue: after its limit, and then its grace. The owner receives from Due and then
// calls Over. A nil Clock is never due.
type Clock struct {
	limit, grace time.Duration
	reachable    func() bool
	timer        *time.Timer

	mu   sync.Mutex
	end  time.Time     // of the limit
	left time.Duration // of the grace
	late bool          // the limit has passed
}

// New starts a clock. reachable reports whether the node can be reached now.
func New(limit, grace time.Duration, reachable func() bool) *Clock {
	return &Clock{
		limit: limit, grace: grace, reachable: reachable, timer: time.NewTimer(limit),
		end: time.Now().Add(limit), left: grace,
	}
}

// Due receives when Over is to be called.
func (c *Clock) Due() <-chan time.Time {
	if c == nil {
		return nil
	}
	return c.timer.C
}

// Over reports whether the node is overdue. If not, Due receives again.
func (c *Clock) Over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if early := time.Until(c.end); early > 0 {
		c.timer.Reset(early)
		return false
	}
	if c.late && c.reachable() {
		c.left -= tick
	}
	c.late = true
	if c.left <= 0 {
		return true
	}
	c.timer.Reset(tick)
	return false
}

// Restart begins the limit and the grace again.
func (c *Clock) Restart() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end, c.left, c.late = time.Now().Add(c.limit), c.grace, false
}

// Stop ends the clock.
func (c *Clock) Stop() {
	if c != nil {
		c.timer.Stop()
	}
}
