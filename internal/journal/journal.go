// Package journal keeps the tasks of a pool in a file beside its ledger, so that another program can go on with them:
// the tasks that were not delivered to the caller yet, and the results so far. The file survives the death of its
// program, but not of the machine: it is not forced to disk. It holds arguments, environments and output, but only the
// names of secrets.
//
// A task is in the file before it begins. Its end is written a few milliseconds later, together with lines of other
// tasks: until then its node keeps the end too, and no caller waits.
//
// The lines are CBOR in the format of package record. The types of this package are their contents: the names and the
// order of their fields must not change.
package journal

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/gputrain/gputrain/internal/record"
)

// A Journal records a pool's tasks. A nil Journal records nothing.
type Journal struct {
	path   string
	failed func(error) // called once, if something could not be written

	writing sync.Mutex // is locked before mu
	file    *record.File
	broken  bool // failed was called

	mu           sync.Mutex
	base         []record.Record  // the lines that every rewrite keeps
	open         map[string]int64 // tasks that were not delivered, with the size of their lines
	live         int64            // the sum of these
	lastTask     int64            // the highest number of a task
	locations    map[locationKey]int
	lastLocation int // the highest number of a location

	pending      []pendingLine // in the order in which they are to be written
	pendingBytes int64
	flushing     bool      // a goroutine writes them
	flushed      sync.Cond // signals by mu that some of them were written
	closed       bool
}

func newJournal(path string, failed func(error)) *Journal {
	j := &Journal{path: path, failed: failed, locations: map[locationKey]int{}, open: map[string]int64{}}
	j.flushed.L = &j.mu
	return j
}

// Create makes the journal of a new pool, with the pool's spec, which [Open] decodes, and
// the folder of its results. If it cannot be written, then or later, it is removed,
// failed is called once, and the journal keeps nothing from then on.
func Create(path string, spec any, resultsDir string, failed func(error)) *Journal {
	j := newJournal(path, failed)
	f, err := record.Create(path)
	if err != nil {
		j.giveUp(err)
		return j
	}
	j.file = f
	j.addBase(poolLine, header{spec, resultsDir})
	return j
}

// AddEnvironment keeps what the tasks on a node start from.
func (j *Journal) AddEnvironment(e Environment) {
	j.addBase(nodeLine, nodeForm{Node: e.Node, Env: e.Env, Path: e.Path, Image: e.Image})
}

// AddWorker records that a worker was started.
func (j *Journal) AddWorker(w Worker) {
	j.addBase(nodeLine, nodeForm{Node: w.Node, Worker: w.Name, Binary: w.Binary, Ships: w.Starts})
}

// AddUpload keeps a file or folder that every node gets.
func (j *Journal) AddUpload(u Upload) { j.addBase(uploadLine, u) }

// addBase writes a line that every rewrite keeps.
func (j *Journal) addBase(k kind, v any) {
	j.changeBase(k, v, func(base []record.Record, line record.Record) []record.Record { return append(base, line) })
}

// changeBase writes a line, and has change return the lines that every rewrite keeps from now on.
func (j *Journal) changeBase(k kind, v any, change func(base []record.Record, line record.Record) []record.Record) {
	if j == nil {
		return
	}
	line, err := newLine(k, v)
	if err != nil {
		j.giveUp(err)
		return
	}
	j.writing.Lock() // otherwise a rewrite between the two steps would write it twice
	defer j.writing.Unlock()
	j.mu.Lock()
	j.base = change(j.base, line)
	j.mu.Unlock()
	j.append(line)
}

// Begin records tasks that are about to be queued. They are in the file when it returns.
func (j *Journal) Begin(batches ...Batch) {
	if j == nil {
		return
	}
	lines := make([]record.Record, 0, len(batches))
	for i := range batches {
		b := &batches[i]
		b.Task.limit()
		line, err := newLine(tasksLine, b)
		if err != nil {
			j.giveUp(err)
			return
		}
		lines = append(lines, line)
		j.begin(b.Units, int64(len(line.Body)/len(b.Units))) // before it is written: a rewrite leaves out what is not open
	}
	j.write(lines...)
}

// begin records that tasks are open, and the size of the line of each.
func (j *Journal) begin(units []Unit, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range units {
		j.open[units[i].ID] = size
		j.live += size
		j.lastTask = max(j.lastTask, taskNumber(units[i].ID))
	}
}

// Tried records that an attempt has failed, and another one follows.
func (j *Journal) Tried(t Tries) {
	if j == nil {
		return
	}
	line, err := newLine(retryLine, t)
	if err != nil {
		j.giveUp(err)
		return
	}
	j.write(line)
}

// Concluded records how a task ended, and where if a node ran it, until it is delivered. It calls written once that is
// in the file, or never will be. The outcome is encoded when it returns: the caller may change what it refers to.
func (j *Journal) Concluded(o *Outcome, at Location, written func()) {
	if j == nil {
		written()
		return
	}
	if at.Name != "" {
		o.Location = j.locate(at)
	}
	line, err := newLine(resultLine, o)
	if err != nil {
		j.giveUp(err)
		written()
		return
	}
	j.enqueue(pendingLine{line: line, task: o.ID, written: written})
}

// Delivered records that the caller has the results of tasks: another program does not resume these. That is in the
// file when it returns, though the tasks' ends may not be. It ignores tasks that are not open.
func (j *Journal) Delivered(ids ...string) {
	if j == nil {
		return
	}
	var delivered []string
	j.mu.Lock()
	for _, id := range ids {
		size, open := j.open[id]
		if !open {
			continue
		}
		if delivered == nil {
			delivered = make([]string, 0, len(ids))
		}
		delivered = append(delivered, id)
		delete(j.open, id)
		j.live -= size
	}
	j.mu.Unlock()
	if delivered == nil {
		return
	}
	line, err := newLine(deliveredLine, delivered)
	if err != nil {
		j.giveUp(err)
		return
	}
	j.write(line)
	j.compactSoon()
}

// Keeps reports whether the journal records tasks. It does not once it could not be written.
func (j *Journal) Keeps() bool {
	if j == nil {
		return false
	}
	j.writing.Lock()
	defer j.writing.Unlock()
	return !j.broken
}

// Close writes what is pending. Later lines are dropped.
func (j *Journal) Close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	j.closed = true
	for j.flushing {
		j.flushed.Wait()
	}
	j.mu.Unlock()
	j.writing.Lock()
	defer j.writing.Unlock()
	if j.file != nil {
		_ = j.file.Close() // nothing is forced to disk
		j.file = nil
	}
}

// write appends lines, in one write.
func (j *Journal) write(lines ...record.Record) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.append(lines...)
}

// append is write, with j.writing held.
func (j *Journal) append(lines ...record.Record) {
	if j.file == nil || len(lines) == 0 {
		return
	}
	if err := j.file.Append(false, lines...); err != nil {
		j.fail(err)
	}
}

// giveUp is fail, for callers that do not hold j.writing.
func (j *Journal) giveUp(err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.fail(err)
}

// fail gives the journal up, and removes it: with a gap in it, tasks would run again whose
// results were delivered. j.writing is held.
func (j *Journal) fail(err error) {
	if j.broken || errors.Is(err, fs.ErrClosed) {
		return
	}
	j.broken = true
	if j.file != nil {
		if j.ownsFile() {
			err = errors.Join(err, os.Remove(j.path))
		}
		_ = j.file.Close() // it is removed
		j.file = nil
	}
	if j.failed != nil {
		j.failed(err)
	}
}

// ownsFile reports whether the file at the journal's path is the one that it writes: a
// program that has taken the pool over has put its own there. j.writing is held.
func (j *Journal) ownsFile() bool {
	have, err := j.file.Stat()
	if err != nil {
		return false
	}
	is, err := os.Stat(j.path)
	return err == nil && os.SameFile(is, have)
}
