package journal

import (
	"time"

	"github.com/gputrain/gputrain/internal/record"
)

const (
	// A pending line waits flushDelay for others that are written with it.
	flushDelay = 2 * time.Millisecond
	// Callers block while the pending lines have more than maxPending bytes.
	maxPending = 4 << 20
)

// A pendingLine is written soon, after those that came before it.
type pendingLine struct {
	line    record.Record
	task    string // the line is left out if this task was delivered meanwhile; may be empty
	written func() // called when the line is in the file, or never will be; may be nil
}

func (l *pendingLine) done() {
	if l.written != nil {
		l.written()
	}
}

// enqueue queues a line to be written soon. It blocks while too many bytes are pending.
func (j *Journal) enqueue(l pendingLine) {
	j.mu.Lock()
	for j.pendingBytes > maxPending && !j.closed {
		j.flushed.Wait()
	}
	if j.closed { // and no program is to attach to the pool
		j.mu.Unlock()
		l.done()
		return
	}
	if size, open := j.open[l.task]; open {
		j.open[l.task] = size + int64(len(l.line.Body))
		j.live += int64(len(l.line.Body))
	}
	j.enqueueLocked(l)
	j.mu.Unlock()
}

// enqueueLocked adds a pending line, with j.mu held.
func (j *Journal) enqueueLocked(l pendingLine) {
	j.pending = append(j.pending, l)
	j.pendingBytes += int64(len(l.line.Body))
	j.startFlush()
}

// compactSoon starts a compaction soon, if one is due.
func (j *Journal) compactSoon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.closed {
		j.startFlush()
	}
}

// startFlush starts the goroutine that flushes, with j.mu held.
func (j *Journal) startFlush() {
	if !j.flushing {
		j.flushing = true
		go j.flush() // Close waits for it
	}
}

// flush writes the pending lines, until there are none.
func (j *Journal) flush() {
	for {
		time.Sleep(flushDelay)
		j.mu.Lock()
		batch := j.pending
		lines := make([]record.Record, 0, len(batch))
		for _, l := range batch {
			if _, open := j.open[l.task]; open || l.task == "" {
				lines = append(lines, l.line)
			}
		}
		j.pending = nil
		j.mu.Unlock()

		j.write(lines...)
		for _, l := range batch {
			l.done()
		}
		j.compact()

		j.mu.Lock()
		for _, l := range batch {
			j.pendingBytes -= int64(len(l.line.Body))
		}
		over := len(j.pending) == 0
		j.flushing = !over
		j.flushed.Broadcast()
		j.mu.Unlock()
		if over {
			return
		}
	}
}
