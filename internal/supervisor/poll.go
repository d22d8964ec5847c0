package supervisor

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"
)

// A poller decides when to ask a node for what, and records its answers. Node.mu guards it, except for attention and
// heard.
type poller struct {
	attention chan struct{} // signals that something has changed
	heard     atomic.Int64  // when the last frame came, in Unix nanoseconds
	patience  time.Duration // how long a session may be silent
	pause     time.Duration // between two questions, if nothing is urgent
	last      time.Time     // when the last question was sent
	lastLook  time.Time
	asking    int // tasks that the last question was about
	unanswered
}

// unanswered are the calls that a session has not answered yet.
type unanswered struct {
	token   int // of the last question
	open    int // questions
	looks   int // looks for dead wrappers
	looking bool
	beats   int       // beats of the lease
	asked   time.Time // when the last call that needs an answer was sent
}

const (
	firstPause = 10 * time.Millisecond
	livePause  = 100 * time.Millisecond // at most, if a caller watches
	lazyPause  = time.Second            // at most, if no caller does
	lookPause  = time.Second
	patience   = 20 * time.Second // how long a session may be silent
	atOnce     = 24               // tasks per question: it must be shorter than PIPE_BUF
)

func newPoller() poller {
	return poller{attention: make(chan struct{}, 1), patience: patience, pause: firstPause}
}

// notice makes the node's goroutine take the next turn now.
func (p *poller) notice() {
	select {
	case p.attention <- struct{}{}:
	default:
	}
}

// turn asks for output in files, of the tasks in flight that have some: again at once if the last answer brought some,
// otherwise with growing pauses; one question at a time. It also looks for dead wrappers. It returns how long until the
// next turn is due.
func (p *poller) turn(k *control, tasks map[string]*task) (next time.Duration) {
	now, next := time.Now(), time.Hour
	if k == nil {
		return next
	}
	if p.overdue(k) {
		next = lookPause
	}
	if !k.runner && len(tasks) > 0 {
		next = lookPause
		if now.Sub(p.lastLook) >= lookPause && !p.looking {
			p.lastLook = now
			p.look(k, tasks)
		}
	}
	if p.open == 0 {
		next = min(next, p.ask(k, tasks, now))
	}
	return next
}

// overdue reports whether an answer is awaited. It ends a session that has been silent for too long, so that a new one
// takes over: its shell may have been killed, which the connection does not show.
func (p *poller) overdue(k *control) bool {
	if p.open == 0 && p.beats == 0 {
		return false
	}
	since := p.asked
	if heard := time.Unix(0, p.heard.Load()); heard.After(since) {
		since = heard
	}
	if time.Since(since) > p.patience {
		p.patience *= 2 // the node may just be slow
		p.asked = time.Now()
		k.abort()
	}
	return true
}

// ask sends the question that is due, if any, and returns how long until the next is.
func (p *poller) ask(k *control, all map[string]*task, now time.Time) (next time.Duration) {
	qs, tasks, urgent, most := questions(all)
	if tasks > p.asking {
		p.pause = firstPause
	}
	p.asking = tasks
	p.pause = min(p.pause, most)
	switch {
	case tasks == 0:
		return time.Hour
	case !urgent && now.Sub(p.last) < p.pause:
		return max(min(p.pause, most)-now.Sub(p.last), time.Millisecond)
	case urgent:
		p.pause = firstPause
	default:
		p.pause = min(2*p.pause, most)
	}
	p.last = now
	p.send(k, qs, maxBudget/len(all))
	return time.Hour
}

// send sends questions that bring at most limit bytes of each stream.
func (p *poller) send(k *control, qs []question, limit int) {
	for _, q := range qs {
		budget := 0
		for _, t := range q.tasks {
			budget = max(budget, t.asked(limit))
		}
		for _, t := range q.tasks {
			t.allow(budget)
		}
		p.token++
		p.open++
		p.asked = time.Now()
		c := newCall("ask", strconv.Itoa(p.token), strconv.Itoa(budget))
		c.args(q.words...)
		k.send(c)
	}
}

// polled records that a question was answered.
func (p *poller) polled() {
	if p.open > 0 {
		p.open--
	}
	p.patience = min(p.patience, patience)
}

// beat sends a beat of the lease.
func (p *poller) beat(k *control, number string) {
	k.send(newCall("beat", number))
	p.beats++
	p.asked = time.Now()
}

// beaten records that a beat was answered.
func (p *poller) beaten() {
	p.beats = 0
	p.patience = min(p.patience, patience)
}

// look asks for tasks whose wrapper is dead. The runner has no wrappers, and a session ends with the runner.
func (p *poller) look(k *control, tasks map[string]*task) {
	var ids []string
	for id, t := range tasks {
		if over, _ := t.ended(); !over {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return
	}
	p.looking = true
	p.looks++
	for some := range slices.Chunk(ids, atOnce) {
		k.send(newCall("seek", some...))
	}
}

// Hasten asks for the output of a task at once, and again every few milliseconds, until stop is called. It is for a
// caller that knows that there is output and waits for it.
func (n *Node) Hasten(id string) (stop func()) {
	n.mu.Lock()
	t := n.tasks[id]
	n.mu.Unlock()
	if t == nil {
		return func() {}
	}
	t.hasten()
	n.poll.notice()
	return func() { t.hasty.Add(-1) }
}

// A question is the content of one 'R' call.
type question struct {
	words []string
	tasks []*task
}

// questions returns the questions to send, at once or after a pause of at most most.
func questions(all map[string]*task) (qs []question, tasks int, urgent bool, most time.Duration) {
	var q question
	most = lazyPause
	for _, t := range all {
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
