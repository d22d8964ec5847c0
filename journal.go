package gputrain

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"sync"

	"github.com/fxamacker/cbor/v2"
	"github.com/gputrain/gputrain/internal/record"
)

// A journal is what a pool keeps of its tasks beside its ledger, so that Attach can
// go on with them: what was asked for and not yet handed to the program, and the
// results so far. It survives the death of the program, and not that of its machine:
// it is not forced to disk. It holds arguments, environments and output, but none of
// Task.Secrets.
//
// What is to be done is in the file before it begins. How it ended is written behind:
// until that is in the file the node keeps it too, and nobody waits for it.
//
// A nil journal keeps nothing.
type journal struct {
	path   string
	failed func(error) // told once, when something could not be kept

	writing sync.Mutex // locked before mu, where both are
	file    *record.File
	told    bool

	mu   sync.Mutex
	base []record.Record  // the lines that are always of use
	open map[string]int64 // tasks that were not handed over, with what they take
	live int64            // the sum of these

	where  map[whereKey]int
	places int // the last number in where

	behind   []behindLine
	size     int64     // of the lines in behind
	flushing bool      // something writes them
	flushed  sync.Cond // by mu: some of them were written
	closed   bool
}

// What lines of a journal tell of.
const (
	keptPool   = "pool"   // keptSpec, first
	keptNode   = "node"   // keptBase
	keptUpload = "upload" // keptFiles
	keptWhere  = "where"  // keptPlace
	keptTasks  = "tasks"  // keptBatch
	keptRetry  = "retry"  // keptTries
	keptResult = "result" // keptOutcome
	keptHanded = "handed" // ids of tasks
)

var lineHeads = func() map[string][]byte {
	heads := map[string][]byte{}
	for _, is := range []string{keptPool, keptNode, keptUpload, keptWhere, keptTasks, keptRetry, keptResult, keptHanded} {
		heads[is] = []byte(`{"is":"` + is + `"}`)
	}
	return heads
}()

// lineOf returns what a line tells of.
func lineOf(r record.Record) string {
	for is, head := range lineHeads {
		if string(head) == string(r.Head) {
			return is
		}
	}
	return ""
}

func newJournal(path string, failed func(error)) *journal {
	j := &journal{path: path, failed: failed, where: map[whereKey]int{}, open: map[string]int64{}}
	j.flushed.L = &j.mu
	return j
}

// beginJournal makes the journal of a new pool. Where that is not possible, the pool
// does without.
func beginJournal(path string, spec keptSpec, failed func(error)) *journal {
	j := newJournal(path, failed)
	f, err := record.Create(path)
	if err != nil {
		j.giveUp(err)
		return j
	}
	j.file = f
	j.note(keptPool, spec)
	return j
}

// note writes a line that is always of use.
func (j *journal) note(is string, v any) {
	if j == nil {
		return
	}
	line, err := newLine(is, v)
	if err != nil {
		j.giveUp(err)
		return
	}
	j.writing.Lock() // or a rewrite in between would have it twice
	defer j.writing.Unlock()
	j.mu.Lock()
	j.base = append(j.base, line)
	j.mu.Unlock()
	j.append(line)
}

func newLine(is string, v any) (record.Record, error) {
	body, err := cbor.Marshal(v)
	return record.Record{Head: lineHeads[is], Body: body}, err
}

// write appends lines, in one write.
func (j *journal) write(lines ...record.Record) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.append(lines...)
}

// append is write, with j.writing held.
func (j *journal) append(lines ...record.Record) {
	if j.file == nil || len(lines) == 0 {
		return
	}
	if err := j.file.Append(false, lines...); err != nil {
		j.fail(err)
	}
}

// giveUp is fail, for whoever does not hold j.writing.
func (j *journal) giveUp(err error) {
	j.writing.Lock()
	defer j.writing.Unlock()
	j.fail(err)
}

// fail gives the journal up, and removes it: with a gap in it, it would have tasks
// done again whose results were handed over. j.writing is held.
func (j *journal) fail(err error) {
	if j.told || errors.Is(err, fs.ErrClosed) {
		return
	}
	j.told = true
	if j.file != nil {
		if j.isThere() {
			err = errors.Join(err, os.Remove(j.path))
		}
		_ = j.file.Close() // nobody reads it
		j.file = nil
	}
	if j.failed != nil {
		j.failed(err)
	}
}

// isThere reports whether the journal is this program's: one that has taken the pool
// over has a file of its own by that name. j.writing is held.
func (j *journal) isThere() bool {
	have, err := j.file.Stat()
	if err != nil {
		return false
	}
	is, err := os.Stat(j.path)
	return err == nil && os.SameFile(is, have)
}

// close returns when all is written that was kept.
func (j *journal) close() {
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

// unmarshalKept decodes a line. Arguments and the like are any bytes.
var unmarshalKept = func() func([]byte, any) error {
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode.Unmarshal
}()
