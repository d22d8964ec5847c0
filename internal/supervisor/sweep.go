package supervisor

import (
	"slices"
	"strconv"
	"time"
)

// litter is what is to be removed from the node.
type litter struct {
	tasks   []string // all files of finished tasks
	outputs []string // the output of finished tasks that must not start again
	dirs    []string // scratch directories that were released
}

func (l *litter) size() int { return len(l.tasks) + len(l.outputs) + len(l.dirs) }

// add adds what m has.
func (l *litter) add(m litter) {
	l.tasks = append(l.tasks, m.tasks...)
	l.outputs = append(l.outputs, m.outputs...)
	l.dirs = append(l.dirs, m.dirs...)
}

// A broom sweeps, many at once, because that may be one process on the node. What
// it asked a session for is asked for again by the next, unless the node has said
// that it came to it. Node.mu guards it.
type broom struct {
	litter
	asked litter    // what a session was asked for without an answer yet
	token int       // of the last question
	since time.Time // since when there is litter
}

const (
	sweepMany  = 32
	sweepBytes = 64 << 10
	sweepPause = time.Second // at most, until all is asked for
)

// soil adds litter and sees to it that it is swept: now where it is much, else
// before long. n.mu is held.
func (n *Node) soil(l litter, much bool) {
	if n.broom.size() == 0 {
		n.broom.since = time.Now()
		n.notice() // has the poller sweep, if there is no more soon
	}
	n.broom.add(l)
	if much || n.broom.size() >= sweepMany {
		n.sweep()
	}
}

// sweep asks for the removal of what lies about, when the last such question is
// answered. n.mu is held.
func (n *Node) sweep() {
	b := &n.broom
	if n.control == nil || b.size() == 0 || b.asked.size() > 0 {
		return
	}
	b.asked, b.litter = b.litter, litter{}
	for _, what := range []struct {
		function string
		names    []string
	}{{"forget", b.asked.tasks}, {"drop", b.asked.outputs}, {"release", b.asked.dirs}} {
		for many := range slices.Chunk(what.names, sweepMany) {
			n.control.send(newCall(what.function, many...))
		}
	}
	b.token++
	n.control.send(newCall("swept", strconv.Itoa(b.token)))
}

// swept notes that the node came to what it was asked for.
func (n *Node) swept(token string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if token == strconv.Itoa(n.broom.token) {
		n.broom.asked = litter{}
		n.notice()
	}
}

// resweep has a new session asked for what the last one may not have done. n.mu
// is held.
func (n *Node) resweep() {
	n.broom.add(n.broom.asked)
	n.broom.asked = litter{}
}
