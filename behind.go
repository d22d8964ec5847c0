package gputrain

import (
	"errors"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

const (
	// behindWait is how long a line waits for others, to be written with them.
	behindWait = 2 * time.Millisecond
	// mostBehind is how many bytes may wait to be written before whoever has more
	// waits too.
	mostBehind = 4 << 20
	// compactFrom is from which size on a journal is rewritten where less than a
	// quarter of it is still of use, which takes reading it.
	compactFrom = 32 << 20
	// clearFrom is from which size on that is done where no task is open.
	clearFrom = 4 << 20
)

// A behindLine is a line that is written soon, after those that came before it.
type behindLine struct {
	line record.Record
	of   string // the task that it is of no use without, or empty
	then func() // called when it is in the file, or never will be; may be nil
}

func (l *behindLine) done() {
	if l.then != nil {
		l.then()
	}
}

// writeBehind has a line written. It waits only where too many others do.
func (j *journal) writeBehind(l behindLine) {
	j.mu.Lock()
	for j.size > mostBehind && !j.closed {
		j.flushed.Wait()
	}
	if j.closed { // and nobody is to attach to the pool
		j.mu.Unlock()
		l.done()
		return
	}
	if size, open := j.open[l.of]; open {
		j.open[l.of] = size + int64(len(l.line.Body))
		j.live += int64(len(l.line.Body))
	}
	j.queue(l)
	j.mu.Unlock()
}

// queue adds a line, with j.mu held.
func (j *journal) queue(l behindLine) {
	j.behind = append(j.behind, l)
	j.size += int64(len(l.line.Body))
	j.startFlush()
}

// tidy has the journal made short soon, should that be due.
func (j *journal) tidy() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.startFlush()
	}
}

// startFlush has somebody flush, with j.mu held.
func (j *journal) startFlush() {
	if !j.flushing {
		j.flushing = true
		go j.flush() // close waits for it
	}
}

// flush writes what waits, until nothing does.
func (j *journal) flush() {
	for {
		time.Sleep(behindWait)
		j.mu.Lock()
		batch := j.behind
		lines := make([]record.Record, 0, len(batch))
		for _, l := range batch {
			if _, open := j.open[l.of]; open || l.of == "" { // or it was handed over meanwhile
				lines = append(lines, l.line)
			}
		}
		j.behind = nil
		j.mu.Unlock()

		j.write(lines...)
		for _, l := range batch {
			l.done()
		}
		j.compact()

		j.mu.Lock()
		for _, l := range batch {
			j.size -= int64(len(l.line.Body))
		}
		over := len(j.behind) == 0
		j.flushing = !over
		j.flushed.Broadcast()
		j.mu.Unlock()
		if over {
			return
		}
	}
}

// compact rewrites a journal that is mostly of tasks that were handed over.
func (j *journal) compact() {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.file == nil {
		return
	}
	size := j.file.Size()
	j.mu.Lock()
	due := size >= compactFrom && j.live <= size/4 || size >= clearFrom && len(j.open) == 0
	base, open := j.base, j.open
	if due {
		open = maps.Clone(open)
	}
	j.mu.Unlock()
	if !due || !j.isThere() {
		return
	}
	if err := j.file.Close(); err != nil {
		j.fail(err)
		return
	}
	f, err := rewriteJournal(j.path, base, open)
	if err != nil { // the old one is whole, and closed: it is not to be read any more
		j.file = nil
		j.fail(errors.Join(err, os.Remove(j.path)))
		return
	}
	j.file = f
}

// rewriteJournal leaves of a journal the lines that are always of use, and those about
// tasks that are open.
func rewriteJournal(path string, base []record.Record, open map[string]int64) (*record.File, error) {
	return record.Rewrite(path, false, func(yield func(record.Record, error) bool) {
		for _, r := range base {
			if !yield(r, nil) {
				return
			}
		}
		if len(open) == 0 {
			return
		}
		for r, err := range record.Read(path) {
			if err != nil || isAbout(r, open) && !yield(r, nil) {
				return
			}
		}
	})
}

// isAbout reports whether a line is of use for one of the tasks.
func isAbout(r record.Record, tasks map[string]int64) bool {
	has := func(id string) bool { _, has := tasks[id]; return has }
	switch lineOf(r) {
	case keptTasks:
		var b keptBatch
		return unmarshalKept(r.Body, &b) == nil && slices.ContainsFunc(b.Units, func(u keptUnit) bool { return has(u.ID) })
	case keptRetry:
		var t keptTries
		return unmarshalKept(r.Body, &t) == nil && has(t.ID)
	case keptResult:
		var o keptOutcome
		return unmarshalKept(r.Body, &o) == nil && has(o.ID)
	}
	return false
}
