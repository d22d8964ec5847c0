package supervisor

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
)

// A task is a command in flight: its state as the node reported it, and the output that its sinks have not got yet.
type task struct {
	id        string
	startCall *call
	dir       string
	live      bool
	unwanted  bool           // its output is discarded
	clock     *overdue.Clock // its Timeout's; nil without one
	since     time.Time      // it cannot have been started before
	wake      chan struct{}  // signals Run that something below has changed
	hasty     atomic.Int32   // how many callers wait for its output: see Hasten
	presence

	mu         sync.Mutex
	cancel     bool  // it is to end
	cancelCall *call // asks for that
	started    time.Time
	exit       *Exit // set once it has ended
	err        error // why it never started
	output
}

// presence records whether the node has a task. Node.mu guards it.
type presence struct {
	missed, misses int  // the last look that found no wrapper, and how many in a row did
	resent         bool // its start was sent more than once
	restarts       int  // how often its start was sent again
	questions      int  // after which the node may still report that it does not know the task
}

func newTask(id string) *task {
	return &task{id: id, wake: make(chan struct{}, 1), since: time.Now(), output: newOutput()}
}

// missing records that a look did not find a task's wrapper, and reports whether that counts. The wrapper may not exist
// yet, or its last ring may arrive after this answer: only the second time in a row counts. If a process exists that
// just does not seem to be at the task, a busy node may have delayed it: then only many times count.
func (p *presence) missing(look int, doubtful bool) bool {
	if p.missed != look-1 {
		p.misses = 0
	}
	p.missed = look
	p.misses++
	if doubtful {
		return p.misses >= doubtfulLooks
	}
	return p.misses >= 2
}

// doubtfulLooks are some 20 seconds.
const doubtfulLooks = 20

// again records that a start is sent again, and reports whether the task's time limit begins again with it.
func (p *presence) again() bool {
	p.resent = true
	p.restarts++
	return p.restarts < mostRestarts
}

// mostRestarts bounds how often a task's time limit may begin again, for a connection that is cut each time before its
// start was read.
const mostRestarts = 8

// signal wakes Run. The caller need not hold t.mu.
func (t *task) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// ending returns the call that ends the task, or nil if it is not to end.
func (t *task) ending() *call {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.cancel {
		return nil
	}
	return t.cancelCall
}

// begin records that the command runs, and whether its output must be asked for.
func (t *task) begin(files bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = t.files || files
	if t.started.IsZero() {
		t.started = time.Now()
	}
	t.signal()
}

// done handles a 'D' frame. A task ends once: a new session's repetition is ignored. ask reports whether some output
// must still be asked for.
func (t *task) done(line string) (ask bool, err error) {
	x, err := parseDone(line, t.dir)
	if err != nil && !errors.Is(err, ErrNotStarted) {
		return false, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	defer t.signal()
	if t.exit != nil {
		return false, nil
	}
	t.exit = &x.Exit
	if err != nil { // and so there is no output
		t.err = err
		t.final = [2]int64{}
		return false, nil
	}
	if t.started.IsZero() && x.Code >= 0 {
		t.started = time.Now()
	}
	if x.Elapsed < 0 {
		t.exit.Elapsed = time.Since(t.started)
	}
	t.exit.Elapsed = min(t.exit.Elapsed, time.Since(t.since))
	t.finish(x)
	return !t.complete(), nil
}

// lose ends a task that the node does not know.
func (t *task) lose(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit == nil {
		t.exit, t.err, t.final = &Exit{Code: -1}, err, t.got
	}
	t.signal()
}

// vanish ends a task whose end is unknown.
func (t *task) vanish() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit == nil {
		t.exit = &Exit{Code: -1, Cause: Vanished}
		if !t.started.IsZero() {
			t.exit.Elapsed = time.Since(t.started)
		}
	}
	t.signal()
}

// deliver adds a piece of output. The node may repeat output, but must not leave any out.
func (t *task) deliver(f *frame) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	grown, err := t.add(f)
	if err != nil {
		return fmt.Errorf("%w of %s", err, t.id)
	}
	if grown {
		t.signal()
	}
	return nil
}

// measured handles the words of a 'Z' frame.
func (t *task) measured(words []string) error {
	if len(words) != 3 {
		return errFrame
	}
	n, err := size(words[2])
	if err != nil {
		return fmt.Errorf("%w: %w", errFrame, err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.exit == nil {
		return nil
	}
	s := stdout
	if words[1] == "e" {
		s = stderr
	}
	// It cannot become shorter than the output so far, unless another program changes it.
	t.final[s] = max(n, t.got[s])
	t.signal()
	return nil
}

// wants returns what a poll is to ask for: nothing while the task's sinks are behind, or when all is here. urgent means
// now.
func (t *task) wants() (words []string, urgent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.unwanted || t.complete() || t.held() >= t.budget || !t.files && t.exit == nil {
		return nil, false
	}
	ended := "0"
	if t.exit != nil {
		ended = "1"
	}
	return []string{t.id, strconv.FormatInt(t.got[stdout], 10), strconv.FormatInt(t.got[stderr], 10), ended}, t.more || t.exit != nil && !t.pressed
}

// asked records that the task is asked about, and returns how many bytes may come.
func (t *task) asked(limit int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pressed = t.exit != nil
	return t.grant(limit)
}

// hasten counts one more caller that waits for the task's output, which is asked for at once.
func (t *task) hasten() {
	t.hasty.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.more = true
}

// allow records that the node was asked for budget bytes of each stream.
func (t *task) allow(budget int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expect(budget)
}

// ended reports whether the task has ended, and how much of its output has come.
func (t *task) ended() (ended bool, got int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.exit != nil, t.got[stdout] + t.got[stderr]
}

// complete reports whether the task has ended and all of its output is here.
// t.mu is held.
func (t *task) complete() bool {
	return t.exit != nil && (t.got == t.final || t.unwanted)
}

// take moves the received output to the caller, whose buffers it reuses.
func (t *task) take(out *[2][]byte) (started, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.move(out)
	return !t.started.IsZero(), t.complete()
}
