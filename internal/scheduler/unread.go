package scheduler

import "sync"

// No further task of a batch with Bound starts while UnreadResults results of it, or results of UnreadBytes, wait to be
// taken. Running tasks go on, and at most one more starts in each of their slots.
const (
	UnreadResults = 1000
	UnreadBytes   = 64 << 20
)

// An unread is the results of a batch that were not taken. A nil one has no bound.
type unread struct {
	mu      sync.Mutex
	results int
	bytes   int64
	holds   bool // a line was held since results were taken last

	held []heldLine // guarded by the scheduler's lock
}

// A heldLine has the tasks that wait in a queue while too many results are unread.
type heldLine struct {
	queue *queue
	line  *line
}

// add counts a result that is about to wait.
func (u *unread) add(bytes int64) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.results++
	u.bytes += bytes
}

// take counts a result that was taken. It reports whether held lines must be resumed.
func (u *unread) take(bytes int64) (resume bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.results--
	u.bytes -= bytes
	resume = u.holds && !u.full()
	if resume {
		u.holds = false
	}
	return resume
}

// full reports whether too many results wait. u.mu is held.
func (u *unread) full() bool { return u.results >= UnreadResults || u.bytes >= UnreadBytes }

// hold reports whether a line is to get no turn in a queue until take reports that it may.
// The scheduler's lock is held.
func (u *unread) hold(q *queue, l *line) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.full() {
		return false
	}
	u.holds = true
	u.held = append(u.held, heldLine{q, l})
	return true
}
