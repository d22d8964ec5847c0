package supervisor

import (
	"strconv"
	"time"
)

// lanes are the wrappers of one session that take one task after another.
type lanes struct {
	made int            // so many numbers were given out
	idle []int          // without a task
	free []int          // numbers of lanes that were ended
	of   map[string]int // by the task they have
	old  map[int]bool   // those with a task, that know only what was true before renew
}

const (
	maxLanes = 9999 // what is beyond has a wrapper of its own
	maxIdle  = 8    // lanes that wait for a task
)

// staleness is how old what tasks are compared with at their end may be.
const staleness = 100 * time.Millisecond

// start has a task started, by its call of gt_start.
func (k *control) start(t *task) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if now := time.Now(); now.Sub(k.fresh) > staleness {
		k.fresh = now
		k.put(0, "gt_fresh\n")
	}
	lane := 0
	if k.lanes != nil {
		lane = k.lane()
	}
	if lane > 0 {
		k.lanes.of[t.id] = lane
	}
	k.put(lane, t.startLine)
}

// lane returns one that has no task, or 0. k.mu is held.
func (k *control) lane() (lane int) {
	l := k.lanes
	pop := func(s *[]int) int {
		last := (*s)[len(*s)-1]
		*s = (*s)[:len(*s)-1]
		return last
	}
	switch {
	case len(l.idle) > 0:
		return pop(&l.idle)
	case len(l.free) > 0:
		lane = pop(&l.free)
	case l.made < maxLanes:
		l.made++
		lane = l.made
	default:
		return 0
	}
	k.put(0, "gt_lane "+strconv.Itoa(lane)+"\n")
	return lane
}

// ended notes that a task is over, or that its lane is dead.
func (k *control) ended(id string, dead bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lanes == nil || k.lanes.of[id] == 0 {
		return
	}
	l, lane := k.lanes, k.lanes.of[id]
	delete(l.of, id)
	if !dead && !l.old[lane] && len(l.idle) < maxIdle {
		l.idle = append(l.idle, lane)
		return
	}
	delete(l.old, lane)
	k.unlane(lane)
}

// unlane ends a lane that has no task. k.mu is held.
func (k *control) unlane(lane int) {
	k.lanes.free = append(k.lanes.free, lane)
	k.put(0, "gt_unlane "+strconv.Itoa(lane)+"\n")
}

// redefine changes a function of the main shell, and with it of all tasks that
// are started from now on: lanes are copies of the main shell as it was.
func (k *control) redefine(text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.put(0, text)
	if k.lanes == nil {
		return
	}
	for _, lane := range k.lanes.idle {
		k.unlane(lane)
	}
	k.lanes.idle = nil
	k.lanes.old = map[int]bool{}
	for _, lane := range k.lanes.of {
		k.lanes.old[lane] = true
	}
}

// stale has the next task compared with what is true then.
func (k *control) stale() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fresh = time.Time{}
}
