package journal

import (
	"errors"
	"maps"
	"os"

	"github.com/gputrain/gputrain/internal/record"
)

const (
	// A file of compactSize bytes is rewritten if less than a quarter of it is about open
	// tasks: a rewrite reads all of it.
	compactSize = 32 << 20
	// A file of clearSize bytes is rewritten if no task is open.
	clearSize = 4 << 20
)

// compact rewrites a file that is mostly about tasks that were delivered.
func (j *Journal) compact() {
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.file == nil {
		return
	}
	size := j.file.Size()
	j.mu.Lock()
	due := size >= compactSize && j.live <= size/4 || size >= clearSize && len(j.open) == 0
	base, open, lastTask := j.base, j.open, j.lastTask
	if due {
		open = maps.Clone(open)
	}
	j.mu.Unlock()
	if !due || !j.ownsFile() {
		return
	}
	if err := j.file.Close(); err != nil {
		j.fail(err)
		return
	}
	f, err := rewrite(j.path, base, open, lastTask)
	if err != nil { // the old file is complete, but closed: it must not be read any more
		j.file = nil
		j.fail(errors.Join(err, os.Remove(j.path)))
		return
	}
	j.file = f
}

// rewrite replaces a journal by its base lines and the lines about open tasks. The last line has the delivered tasks
// that are still named: by the batch of an open one, or as the last task of all, so that no program reuses a task's ID.
func rewrite(path string, base []record.Record, open map[string]int64, lastTask int64) (*record.File, error) {
	return record.Rewrite(path, false, func(yield func(record.Record, error) bool) {
		for _, r := range base {
			if !yield(r, nil) {
				return
			}
		}
		var delivered []string
		if _, is := open[taskID(lastTask)]; !is && lastTask > 0 {
			delivered = append(delivered, taskID(lastTask))
		}
		if len(open) > 0 {
			for r, err := range record.Read(path) {
				var torn *record.TornError
				if errors.As(err, &torn) {
					continue
				}
				if err != nil {
					yield(record.Record{}, err)
					return
				}
				about, others := isAbout(r, open)
				if about && !yield(r, nil) {
					return
				}
				delivered = append(delivered, others...)
			}
		}
		if delivered != nil {
			yield(newLine(deliveredLine, delivered))
		}
	})
}

// isAbout reports whether a line is about one of the tasks, and about which others.
func isAbout(r record.Record, tasks map[string]int64) (about bool, others []string) {
	has := func(id string) bool { _, has := tasks[id]; return has }
	switch kindOf(r) {
	case tasksLine:
		var b Batch
		if unmarshal(r.Body, &b) != nil {
			return false, nil
		}
		for _, u := range b.Units {
			if has(u.ID) {
				about = true
			} else {
				others = append(others, u.ID)
			}
		}
		if !about {
			others = nil
		}
		return about, others
	case retryLine:
		var t Tries
		return unmarshal(r.Body, &t) == nil && has(t.ID), nil
	case resultLine:
		var o Outcome
		return unmarshal(r.Body, &o) == nil && has(o.ID), nil
	}
	return false, nil
}
