// Package tally decides which tasks of a pool are reported one by one, and counts the others: of very many short tasks, a view
// wants to know how many there were, and not each.
package tally

import (
	"sync"
	"time"
)

const (
	// A count is reported every interval while it changes.
	interval = 250 * time.Millisecond
	// Between two reports, tasks of more than mostNames names are counted without a name.
	mostNames = 100
)

// A Task is the state of one task in a Tally. The zero value is a task that was not queued yet.
type Task struct {
	state         state
	queued, begun time.Time // zero if not, or not known
}

// Queued returns how long ago the task was queued, and Begun how long ago it began to run: zero if it was, or has, not.
func (t *Task) Queued() time.Duration { return since(t.queued) }
func (t *Task) Begun() time.Duration  { return since(t.begun) }

func since(t time.Time) time.Duration {
	if t.IsZero() {
		return 0
	}
	return time.Since(t)
}

type state uint8

const (
	unknown state = iota
	waiting
	running
	shown // it is reported one by one
)

// An End is how a counted task has ended.
type End struct {
	Name      string // of the task
	Node      int    // the rank, or -1
	Cancelled bool
	Attempts  int           // 0 or 1: a task that is tried again is shown
	Time      time.Duration // of the attempt
	USD       float64
}

// An Ended sums up the ends of tasks of one name on one node.
type Ended struct {
	Name                      string
	Node                      int
	Done, Cancelled, Attempts int
	Time                      time.Duration
	USD                       float64
}

// A Count says how many tasks wait and run now that are not shown, and which have ended since the last Count.
type Count struct {
	Waiting, Running int
	Ended            []Ended
}

// A Tally shows a number of tasks each second, and counts the others. Its methods can be called concurrently.
type Tally struct {
	most   int // tasks that are shown in a second
	report func(Count)

	reporting sync.Mutex // held while report is called, so that reports are in order

	mu     sync.Mutex
	tokens float64
	at     time.Time // of tokens
	count  Count
	index  map[key]int // of an Ended in count
	names  map[string]bool
	timer  *time.Timer // nil if nothing has changed since the last report
}

type key struct {
	name string
	node int
}

// New returns a Tally that shows so many tasks in a second, and reports its count by a function that is called once at a time.
func New(most int, report func(Count)) *Tally {
	return &Tally{most: most, report: report, tokens: float64(most), at: time.Now(), index: map[key]int{}, names: map[string]bool{}}
}

// Queued notes that a task was queued. It returns whether the task is shown.
func (t *Tally) Queued(task *Task) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	task.queued = time.Now()
	if t.take(task.queued) {
		task.state = shown
		return true
	}
	t.enter(task, waiting)
	return false
}

// Started notes that a task has begun to run or, if begun is false, is about to. It returns whether the task is shown, and whether
// it was not before. A task that is counted from then on stays so until Show, though Started is called again.
func (t *Tally) Started(task *Task, begun bool) (isShown, late bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	switch {
	case task.state == shown:
		return true, false
	case task.state != running && t.take(now):
		t.enter(task, shown)
		return true, true
	case task.state != running:
		t.enter(task, running)
	}
	if begun {
		task.begun = now
	}
	return false, false
}

// Show has a task shown from now on. It returns whether it was not shown before, and whether it had begun to run by then.
func (t *Tally) Show(task *Task) (late, begun bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if task.state == shown {
		return false, false
	}
	t.enter(task, shown)
	return true, !task.begun.IsZero()
}

// Ended notes that a task has succeeded, or was cancelled. It returns whether the task is shown: otherwise it is counted.
func (t *Tally) Ended(task *Task, e End) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if task.state == shown {
		return true
	}
	t.enter(task, shown) // it is over
	sum := t.sumOf(e.Name, e.Node)
	if e.Cancelled {
		sum.Cancelled++
	} else {
		sum.Done++
	}
	sum.Attempts += e.Attempts
	sum.Time += e.Time
	sum.USD += e.USD
	return false
}

// sumOf returns the sum that a task's end is added to. The lock is held.
func (t *Tally) sumOf(name string, node int) *Ended {
	i, ok := t.index[key{name, node}]
	if !ok {
		if !t.names[name] && len(t.names) >= mostNames {
			name = ""
		}
		t.names[name] = true
		if i, ok = t.index[key{name, node}]; !ok {
			i = len(t.count.Ended)
			t.index[key{name, node}] = i
			t.count.Ended = append(t.count.Ended, Ended{Name: name, Node: node})
		}
	}
	return &t.count.Ended[i]
}

// enter moves a task to a state. The lock is held.
func (t *Tally) enter(task *Task, s state) {
	t.add(task.state, -1)
	t.add(s, 1)
	task.state = s
	if t.timer == nil {
		t.timer = time.AfterFunc(interval, t.Flush)
	}
}

func (t *Tally) add(s state, n int) {
	switch s {
	case waiting:
		t.count.Waiting += n
	case running:
		t.count.Running += n
	}
}

// take reports whether one more task may be shown now. The lock is held.
func (t *Tally) take(now time.Time) bool {
	t.tokens = min(t.tokens+now.Sub(t.at).Seconds()*float64(t.most), float64(t.most))
	t.at = now
	if t.tokens < 1 {
		return false
	}
	t.tokens--
	return true
}

// Flush reports the count, if it has changed.
func (t *Tally) Flush() {
	t.reporting.Lock()
	defer t.reporting.Unlock()
	t.mu.Lock()
	changed := t.timer != nil
	count := t.count
	if changed {
		t.timer.Stop()
		t.timer, t.count.Ended = nil, nil
		clear(t.index)
		clear(t.names)
	}
	t.mu.Unlock()
	if changed {
		t.report(count)
	}
}
