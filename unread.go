package gputrain

import "sync"

// While so many results of a [Compute.Stream], or results of so many bytes, wait for its
// loop to take them, no further task of that stream starts. Those that run go on, and so
// does at most one more in each of their slots. A result counts with what it holds in
// memory: Stdout, Stderr and the value of a function.
const (
	UnreadResults = 1000
	UnreadBytes   = 64 << 20
)

// An unread is the results of a stream that its loop has not taken. A nil one has no bound.
type unread struct {
	mu      sync.Mutex
	results int
	bytes   int64
	holds   bool // a call was held since results were taken last

	held []heldCall // guarded by pool.mu
}

// A heldCall is what waits in a queue while there are too many results.
type heldCall struct {
	queue *queue
	call  *callQueue
}

func (r *Result) size() int64 { return int64(len(r.Stdout)+len(r.Stderr)) + int64(r.value.Size()) }

// add counts a result that is about to wait.
func (u *unread) add(r *Result) {
	if u == nil {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.results++
	u.bytes += r.size()
}

// take counts a result that the loop has. It reports whether calls that were held are to
// go on.
func (u *unread) take(r *Result) (resume bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.results--
	u.bytes -= r.size()
	resume = u.holds && !u.full()
	if resume {
		u.holds = false
	}
	return resume
}

// full is called with u.mu held.
func (u *unread) full() bool { return u.results >= UnreadResults || u.bytes >= UnreadBytes }

// hold reports whether a call is to get no turn in a queue until take says otherwise.
// pool.mu is held.
func (u *unread) hold(q *queue, c *callQueue) bool {
	if u == nil {
		return false
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if !u.full() {
		return false
	}
	u.holds = true
	u.held = append(u.held, heldCall{q, c})
	return true
}

// resume gives calls turns again that were held.
func (p *pool) resume(u *unread) {
	p.mu.Lock()
	defer p.mu.Unlock()
	held := u.held
	u.held = nil
	for _, h := range held {
		h.queue.resume(h.call)
		p.startLocked(h.queue)
	}
}
