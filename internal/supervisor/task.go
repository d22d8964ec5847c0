package supervisor

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gputrain/gputrain/internal/overdue"
)

// A task is one command in flight: what the node has told of it, and the
// output that came and was not yet given to its sinks.
type task struct {
	id                    string
	startCall, cancelCall *call
	dir                   string
	live                  bool
	unwanted              bool           // its output is discarded
	missed, misses        int            // the last look that found no wrapper, and how many in a row; Node.mu guards them
	resent                bool           // its start was sent more than once; Node.mu guards it
	restarts              int            // how often its start was sent again; Node.mu guards it
	questions             int            // after which the node may still say that it does not know the task; Node.mu guards it
	clock                 *overdue.Clock // its Timeout; nil without one
	since                 time.Time      // it cannot have been started before
	wake                  chan struct{}  // signals Run that something below has changed
	hasty                 atomic.Int32   // how many wait for its output: see Hasten

	mu      sync.Mutex
	cancel  bool // it is to end
	started time.Time
	inbox   [2][]byte
	got     [2]int64 // how much of each stream has come
	final   [2]int64 // how long each is, once that is known; else -1
	inlined [2]int64 // how long, by what of a file came beside the end; else -1
	exit    *Exit    // set once it has ended
	err     error    // why it never started
	budget  int      // how much of each stream may come at once
	allowed [2]int64 // how far into each stream was asked
	more    bool     // the last poll brought something: ask again at once
	pressed bool     // it was asked for the rest of its output, at once, when it had ended
	files   bool     // there may be output in files, which must be asked for
}

func newTask(id string) *task {
	return &task{
		id: id, wake: make(chan struct{}, 1), budget: minBudget, since: time.Now(),
		final: [2]int64{-1, -1}, inlined: [2]int64{-1, -1},
	}
}

// signal wakes Run. The caller need not hold t.mu.
func (t *task) signal() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

func (t *task) cancelled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.cancel
}

// begin notes that the command runs, and whether its output is to be asked for.
func (t *task) begin(files bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.files = t.files || files
	if t.started.IsZero() {
		t.started = time.Now()
	}
	t.signal()
}

// done takes a 'D' frame. A task ends once: what a new session tells again is
// ignored. Ask means that some output must still be asked for.
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
	for s := range t.final {
		switch {
		case !x.inFile[s]:
			t.inbox[s] = append(t.inbox[s], x.text[s][min(t.got[s], int64(len(x.text[s]))):]...)
			t.got[s] = max(t.got[s], int64(len(x.text[s])))
			t.final[s] = t.got[s]
		case t.inlined[s] >= 0:
			t.final[s] = max(t.inlined[s], t.got[s])
		}
	}
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

// vanish ends a task of whose end nothing is known.
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

// deliver takes a piece of output. The node may send again what is here
// already; it must not leave anything out.
func (t *task) deliver(f *frame) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, end := f.stream, f.offset+int64(len(f.data))
	if f.kind == 'X' && f.last && f.offset == 0 {
		t.inlined[s] = -1
		if 0 < end && end < inlineBytes { // all that there is, if the task's end comes next
			t.inlined[s] = end
		}
	}
	if f.offset > t.got[s] {
		return fmt.Errorf("%w: a gap in the output of %s", errFrame, t.id)
	}
	if end > t.allowed[s]+inlineBytes {
		return fmt.Errorf("%w: more output of %s than it was asked for", errFrame, t.id)
	}
	if skip := t.got[s] - f.offset; skip < int64(len(f.data)) {
		t.inbox[s] = append(t.inbox[s], f.data[skip:]...)
		t.got[s] = end
		t.more = true
		t.signal()
	}
	return nil
}

// inlineBytes is how much of a stream comes beside the end of a task at most.
const inlineBytes = 4096

// measured takes the words of a 'Z' frame.
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
	// It cannot become shorter than what has come of it, but for somebody's meddling.
	t.final[s] = max(n, t.got[s])
	t.signal()
	return nil
}

const (
	minBudget = 128 << 10
	maxBudget = 8 << 20 // for all tasks of a node together, at least minBudget each
)

// wants reports what a poll is to ask of the task: nothing while its sinks are
// behind, or when all is here. Urgent means now.
func (t *task) wants() (words []string, urgent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	held := len(t.inbox[stdout]) + len(t.inbox[stderr])
	if t.unwanted || t.complete() || held >= t.budget || !t.files && t.exit == nil {
		return nil, false
	}
	ended := "0"
	if t.exit != nil {
		ended = "1"
	}
	return []string{t.id, strconv.FormatInt(t.got[stdout], 10), strconv.FormatInt(t.got[stderr], 10), ended}, t.more || t.exit != nil && !t.pressed
}

// asked notes that the task is asked about, and returns how much may come: the
// more, the longer its output keeps coming.
func (t *task) asked(limit int) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.more {
		t.budget = min(2*t.budget, max(limit, minBudget))
	} else {
		t.budget = minBudget
	}
	t.more, t.pressed = false, t.exit != nil
	return t.budget
}

// hasten counts one more that waits for the task's output, which is asked for at once.
func (t *task) hasten() {
	t.hasty.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.more = true
}

// allow notes that the node was asked for so much of each stream.
func (t *task) allow(budget int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range t.allowed {
		t.allowed[s] = max(t.allowed[s], t.got[s]+int64(budget))
	}
}

// ended reports whether the task has, and how much of its output has come.
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

// take moves what has come to the caller, whose buffers it reuses.
func (t *task) take(out *[2][]byte) (started, complete bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for s := range out {
		t.inbox[s], out[s] = out[s][:0], t.inbox[s]
	}
	return !t.started.IsZero(), t.complete()
}

// write hands output to the sinks. Without a sink it is dropped.
func (s *Sinks) write(out *[2][]byte) error {
	for i, w := range []io.Writer{s.Stdout, s.Stderr} {
		if w == nil || len(out[i]) == 0 {
			continue
		}
		if _, err := w.Write(out[i]); err != nil {
			return fmt.Errorf("the task's output cannot be written: %w", err)
		}
	}
	return nil
}
