package observe

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
)

// Config configures a Recorder. The zero value records in memory only.
type Config struct {
	// File gets every Entry as a line of JSON, for Read and for reports. Only this user can read it (mode 0600). The file of an
	// earlier recorder is kept under its name and ".old"; what no recorder has written, a link and a device are refused. Its folder is made. Empty means that there is no file.
	File string
	// Usage is the time between two samples of processors, memory and disk of each node: see gputrain.WithUsage. Zero means that
	// there are none. Accelerators are sampled by the pool in any case.
	Usage time.Duration
	// Tasks is how many tasks are recorded one by one in a second. Others that succeed are counted, so that many short function
	// calls cost little and fill no disk: Run has them in its Counts and Groups. Tasks that fail, or report steps, are always
	// recorded. Zero means 100.
	Tasks int
	// Lines is how many of the last lines of each task and phase are kept in Run. Zero means 200.
	Lines int
	// MemoryBytes bounds the lines that Run has, and FileBytes the File: beyond it, half of it goes. Old lines go first; in the file,
	// then samples, steps and how far something is; and then other old entries, but those about the pool as a whole. Run.Omitted
	// counts what was left out. What Events reads again from memory has MemoryBytes as well. Zero means 64 MiB of memory, and 512 MiB
	// of a file; 1 MiB is the least.
	MemoryBytes, FileBytes int64
}

// What Config means by zero, and the least that it can say, in bytes.
const (
	usualMemory = 64 << 20
	usualFile   = 512 << 20
	leastBytes  = 1 << 20
)

// An Entry is one thing that a Recorder has recorded: an event, or a line.
type Entry struct {
	// Seq numbers the entries of a Recorder, from 1.
	Seq int64
	// Event or Line is what it is; the other one is nil. They are not to be changed.
	Event *gputrain.Event
	Line  *gputrain.Line
}

// keptEntries is how many entries are in memory for Events.
const keptEntries = 20_000

// A Recorder records what pools do. Its methods can be called concurrently.
type Recorder struct {
	usage time.Duration
	tasks int
	file  *log // nil without one

	mu     sync.Mutex
	state  *state
	recent recent
	came   chan struct{} // closed, and replaced, when an entry has come; nil without a waiter
	closed bool
}

// New returns a Recorder that has recorded nothing yet. The error is about Config.File, or about a number that is negative.
func New(c Config) (*Recorder, error) {
	if c.Lines < 0 || c.Tasks < 0 || c.Usage < 0 || c.Usage > 0 && c.Usage < time.Second {
		return nil, fmt.Errorf("observe: Lines is %d, Tasks %d and Usage %v: none is negative, and Usage is zero or a second at least", c.Lines, c.Tasks, c.Usage)
	}
	for _, bytes := range []int64{c.MemoryBytes, c.FileBytes} {
		if bytes != 0 && bytes < leastBytes {
			return nil, fmt.Errorf("observe: MemoryBytes is %d and FileBytes %d: each is zero, or %d at least", c.MemoryBytes, c.FileBytes, leastBytes)
		}
	}
	memory := cmp.Or(c.MemoryBytes, usualMemory)
	r := &Recorder{usage: c.Usage, tasks: cmp.Or(c.Tasks, 100), state: newState(c.Lines), recent: recent{most: memory}}
	r.state.mostBytes = memory
	if c.File == "" {
		return r, nil
	}
	var err error
	r.file, err = openLog(c.File, cmp.Or(c.FileBytes, usualFile))
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Option has a pool tell the recorder what it does. It can be given to several pools.
func (r *Recorder) Option() gputrain.Option {
	return gputrain.Options(
		gputrain.WithSampledEvents(r.tasks, func(ev gputrain.Event) { r.add(Entry{Event: &ev}) }),
		gputrain.WithLines(func(l gputrain.Line) { r.add(Entry{Line: &l}) }),
		gputrain.WithUsage(r.usage),
	)
}

// add records an entry.
func (r *Recorder) add(e Entry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	e.Seq = r.state.seq + 1
	r.state.take(e)
	r.recent.add(e)
	if r.file != nil {
		r.file.add(e)
	}
	if r.came != nil {
		close(r.came)
		r.came = nil
	}
}

// Run returns what is known now. After [gputrain.Compute.Sync] that includes all that calls have returned before.
func (r *Recorder) Run() Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.state.run(time.Now())
}

// Events returns the entries after a number, as far as they are kept, and then those that come, until ctx ends or the recorder is
// closed and all were returned. Zero is from the beginning. Config.File has those that Config.FileBytes has room for, and memory the
// last 20 000, within Config.MemoryBytes: a consumer that falls behind further misses some, which it sees by their numbers.
func (r *Recorder) Events(ctx context.Context, after int64) iter.Seq[Entry] {
	return func(yield func(Entry) bool) {
		if ctx == nil { // as if it had ended: an iteration has no error
			return
		}
		next := max(after, 0) + 1
		for ctx.Err() == nil {
			batch, first, came := r.since(next)
			if first > next && r.file != nil {
				var ok bool
				if next, ok = r.replay(next, first, yield); !ok {
					return
				}
				continue
			}
			for _, e := range batch {
				if ctx.Err() != nil || !yield(e) {
					return
				}
				next = e.Seq + 1
			}
			if len(batch) > 0 {
				continue
			}
			if came == nil { // it is closed
				return
			}
			select {
			case <-came:
			case <-ctx.Done():
			}
		}
	}
}

// since returns some of the entries from a number on, and the number of the first that is in memory. If there is none, came is
// closed when one comes, or nil if none will.
func (r *Recorder) since(next int64) (batch []Entry, first int64, came chan struct{}) {
	const most = 1000
	r.mu.Lock()
	defer r.mu.Unlock()
	first = r.state.seq + 1
	all := r.recent.entries
	if len(all) > 0 {
		first = all[0].Seq
	}
	if at := int(max(next-first, 0)); at < len(all) {
		batch = all[at:min(at+most, len(all))]
		return batch[:len(batch):len(batch)], first, nil
	}
	if r.closed {
		return nil, first, nil
	}
	if r.came == nil {
		r.came = make(chan struct{})
	}
	return nil, first, r.came
}

// replay yields the entries from next to before first out of the file, and returns the number that comes then. It reports false
// if the consumer wants no more.
func (r *Recorder) replay(next, first int64, yield func(Entry) bool) (int64, bool) {
	r.file.flush()
	ok := true
	_ = entries(r.file.path, func(e Entry) bool { // what cannot be read is missing, as the numbers show
		if e.Seq < next {
			return true
		}
		if e.Seq >= first {
			return false
		}
		ok = yield(e)
		next = e.Seq + 1
		return ok
	})
	return max(next, first), ok
}

// Close ends the recording. It returns when the file has everything, and what went wrong with it. A pool that is closed later is
// not seen. Closing twice is the same as once.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return nil
	}
	r.closed = true
	if r.came != nil {
		close(r.came)
		r.came = nil
	}
	if r.file == nil {
		return nil
	}
	return r.file.close()
}
