package supervisor

import (
	"strconv"
	"time"
)

// pollState is what the poller knows of its questions. Node.mu guards it.
type pollState struct {
	token   int // of the last question
	open    int // questions without an answer
	looks   int // looks for dead wrappers begun
	looking bool
	beats   int       // of the lease, without an answer
	asked   time.Time // when the last that needs an answer was sent
}

const (
	firstPause = 10 * time.Millisecond
	livePause  = 100 * time.Millisecond // at most, when somebody watches
	lazyPause  = time.Second            // at most, when nobody does
	lookPause  = time.Second
	patience   = 20 * time.Second // with a session that does not answer
	atOnce     = 24               // tasks per question: it must be shorter than PIPE_BUF
)

// pollLoop asks for the output of the tasks in flight that have some in files:
// again at once where the last answer brought some, otherwise with growing
// pauses; one question at a time. It also looks for dead wrappers, and sweeps.
func (n *Node) pollLoop() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	pause := firstPause
	last, lastLook := time.Now(), time.Now()
	asking := 0
	for {
		select {
		case <-n.life.Done():
			return
		case <-n.attention:
		case <-timer.C:
		}
		now, next := time.Now(), time.Hour
		n.mu.Lock()
		if n.overdue() {
			next = lookPause
		}
		if n.control != nil && !n.control.runner && len(n.tasks) > 0 {
			next = lookPause
			if now.Sub(lastLook) >= lookPause && !n.poll.looking {
				lastLook = now
				n.look()
			}
		}
		if n.control != nil && n.poll.open == 0 {
			questions, tasks, urgent, most := n.questions()
			if tasks > asking {
				pause = firstPause
			}
			asking = tasks
			pause = min(pause, most)
			if tasks > 0 && (urgent || now.Sub(last) >= pause) {
				if urgent {
					pause = firstPause
				} else {
					pause = min(2*pause, most)
				}
				last = now
				n.ask(questions)
			} else if tasks > 0 {
				next = min(next, max(min(pause, most)-now.Sub(last), time.Millisecond))
			}
		}
		if n.control != nil && n.broom.size() > 0 && n.broom.asked.size() == 0 {
			if now.Sub(n.broom.since) >= sweepPause {
				n.sweep()
			} else {
				next = min(next, max(sweepPause-now.Sub(n.broom.since), time.Millisecond))
			}
		}
		n.mu.Unlock()
		timer.Reset(next)
	}
}

// overdue reports whether an answer is awaited. A session that has been silent
// for too long is ended, and a new one takes over: its shell may have been
// killed, which the connection does not tell. Node.mu is held.
func (n *Node) overdue() bool {
	if n.control == nil || n.poll.open == 0 && n.poll.beats == 0 {
		return false
	}
	since := n.poll.asked
	if heard := time.Unix(0, n.heard.Load()); heard.After(since) {
		since = heard
	}
	if time.Since(since) > n.patience {
		n.patience *= 2 // a node may just be slow
		n.poll.asked = time.Now()
		n.control.abort()
	}
	return true
}

// Hasten has the output of a task asked for at once, and again every few milliseconds,
// until stop is called. It is for a caller that knows of output and waits for it.
func (n *Node) Hasten(id string) (stop func()) {
	n.mu.Lock()
	t := n.tasks[id]
	n.mu.Unlock()
	if t == nil {
		return func() {}
	}
	t.hasten()
	n.notice()
	return func() { t.hasty.Add(-1) }
}

// A question is what one 'R' asks.
type question struct {
	words []string
	tasks []*task
}

// questions returns what is to be asked, at once or after a pause of most at most.
// Node.mu is held.
func (n *Node) questions() (qs []question, tasks int, urgent bool, most time.Duration) {
	var q question
	most = lazyPause
	for _, t := range n.tasks {
		words, now := t.wants()
		switch {
		case t.hasty.Load() > 0:
			most = firstPause
		case t.live:
			most = min(most, livePause)
		}
		urgent = urgent || now
		if words == nil {
			continue
		}
		tasks++
		q.words = append(q.words, words...)
		q.tasks = append(q.tasks, t)
		if len(q.tasks) >= atOnce {
			qs, q = append(qs, q), question{}
		}
	}
	if len(q.tasks) > 0 {
		qs = append(qs, q)
	}
	return qs, tasks, urgent, most
}

// ask sends questions. Node.mu is held.
func (n *Node) ask(qs []question) {
	limit := maxBudget / max(len(n.tasks), 1)
	for _, q := range qs {
		budget := 0
		for _, t := range q.tasks {
			budget = max(budget, t.asked(limit))
		}
		for _, t := range q.tasks {
			t.allow(budget)
		}
		n.poll.token++
		n.poll.open++
		n.poll.asked = time.Now()
		c := newCall("ask", strconv.Itoa(n.poll.token), strconv.Itoa(budget))
		c.args(q.words...)
		n.control.send(c)
	}
}

// polled notes that a question was answered.
func (n *Node) polled(token string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.poll.open > 0 {
		n.poll.open--
	}
	n.patience = min(n.patience, patience)
	n.notice()
}

// beaten notes that a beat was answered.
func (n *Node) beaten() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.poll.beats = 0
	n.patience = min(n.patience, patience)
}

// look asks for tasks whose wrapper is dead. The runner has none, and a session
// ends with it. Node.mu is held.
func (n *Node) look() {
	var ids []string
	for id, t := range n.tasks {
		t.mu.Lock()
		if t.exit == nil {
			ids = append(ids, id)
		}
		t.mu.Unlock()
	}
	if len(ids) == 0 {
		return
	}
	n.poll.looking = true
	n.poll.looks++
	for len(ids) > atOnce {
		n.control.send(newCall("seek", ids[:atOnce]...))
		ids = ids[atOnce:]
	}
	n.control.send(newCall("seek", ids...))
}

// looked notes the end of an answer to a look.
func (n *Node) looked() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.poll.looking = false
}
