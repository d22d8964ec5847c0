package supervisor

import (
	"slices"
	"strconv"
	"time"
)

// litter lists what is to be removed from the node.
type litter struct {
	tasks   []string // all files of finished tasks
	outputs []string // the output of finished tasks that must not start again
	dirs    []string // scratch directories that were released
}

func (l *litter) size() int { return len(l.tasks) + len(l.outputs) + len(l.dirs) }

// add adds m's lists.
func (l *litter) add(m litter) {
	l.tasks = append(l.tasks, m.tasks...)
	l.outputs = append(l.outputs, m.outputs...)
	l.dirs = append(l.dirs, m.dirs...)
}

// A cleanup removes litter, much at once, because that may take one process on the node. The next session repeats what
// it asked a session for, unless the node has reported that it began. Node.mu guards it.
type cleanup struct {
	litter
	asked litter    // asked of a session, and not yet answered
	token int       // of the last question
	since time.Time // since when there is litter
}

const (
	sweepMany  = 32
	sweepBytes = 64 << 10
	sweepPause = time.Second // at most, until all is asked for
)

// collect adds litter, which is removed at once if it is much, and otherwise before long. first reports that there was
// none. Without a session k is nil.
func (c *cleanup) collect(k *control, l litter, much bool) (first bool) {
	first = c.size() == 0
	if first {
		c.since = time.Now()
	}
	c.add(l)
	if much || c.size() >= sweepMany {
		c.sweep(k)
	}
	return first
}

// turn removes litter if that is due, and returns how long until it is.
func (c *cleanup) turn(k *control) (next time.Duration) {
	if k == nil || c.size() == 0 || c.asked.size() > 0 {
		return time.Hour
	}
	if left := sweepPause - time.Since(c.since); left > 0 {
		return max(left, time.Millisecond)
	}
	c.sweep(k)
	return time.Hour
}

// sweep asks for the removal of the litter, once the last such question is answered.
func (c *cleanup) sweep(k *control) {
	if k == nil || c.size() == 0 || c.asked.size() > 0 {
		return
	}
	c.asked, c.litter = c.litter, litter{}
	for _, what := range []struct {
		function string
		names    []string
	}{{"forget", c.asked.tasks}, {"drop", c.asked.outputs}, {"release", c.asked.dirs}} {
		for many := range slices.Chunk(what.names, sweepMany) {
			k.send(newCall(what.function, many...))
		}
	}
	c.token++
	k.send(newCall("swept", strconv.Itoa(c.token)))
}

// swept records that the node began a removal, and reports whether it was the last one asked for.
func (c *cleanup) swept(token string) bool {
	if token != strconv.Itoa(c.token) {
		return false
	}
	c.asked = litter{}
	return true
}

// resweep makes the next session repeat what the last one may not have done.
func (c *cleanup) resweep() {
	c.add(c.asked)
	c.asked = litter{}
}
