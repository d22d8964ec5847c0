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
// A nil journal keeps nothing.
type journal struct {
	path   string
	failed func(error) // told once, when something could not be kept

	mu   sync.Mutex
	file *record.File
	open map[string]int64 // tasks that were not handed over, with what they take
	live int64            // the sum of these
	told bool
}

// What lines of a journal tell of.
const (
	keptPool   = "pool"   // keptSpec, first
	keptNode   = "node"   // keptBase
	keptUpload = "upload" // keptFiles
	keptTasks  = "tasks"  // keptBatch
	keptRetry  = "retry"  // keptTries
	keptResult = "result" // keptOutcome
	keptHanded = "handed" // ids of tasks
)

const (
	// keptBody is how large an argument, or a task's stdin, is kept.
	keptBody = 16 << 20
	// compactFrom is from which size on a journal is rewritten where less than a
	// quarter of it is still of use.
	compactFrom = 32 << 20
)

type keptSpec struct {
	Spec       Spec
	ResultsDir string
}

// keptBase is what tasks on a node start from, and the worker there.
type keptBase struct {
	Node   string // the machine's name
	Env    map[string]string
	Path   []string
	Worker string // its name on the node, empty where this is about Env and Path
	Binary string // the path of its program there
	Ships  int
}

type keptFiles struct{ Local, Remote string }

// A keptBatch is tasks that differ in their argument at most.
type keptBatch struct {
	Units []keptUnit
	Task  keptTask
}

type keptUnit struct {
	ID, Label string
	Index     int
	Pin       string   // the machine that must run it
	Members   []string // of its broadcast
}

// A keptTask is a Task, with what was done of it.
type keptTask struct {
	Name, Script, Dir string
	Args              []string
	Env               map[string]string
	Secrets           []string // their names
	Stdin             []byte
	Timeout           int64
	Retries           int
	HoldsLease        bool
	Outputs           []string
	Rank              int
	Labels            [][2]string
	Function          string
	Head              []byte
	Parts             [][]byte
	TooLarge          bool // its stdin or argument, which is not here
}

type keptTries struct {
	ID                         string
	Attempts, Failures, Losses int
	USD                        float64
	Unpriced                   bool
}

// begin makes the journal, for a pool that is new. Where that is not possible, the
// pool does without.
func beginJournal(path string, spec keptSpec, failed func(error)) *journal {
	j := &journal{path: path, failed: failed, open: map[string]int64{}}
	f, err := record.Create(path)
	if err != nil {
		j.fail(err)
		return j
	}
	j.file = f
	j.add(keptPool, spec)
	return j
}

// add appends a line.
func (j *journal) add(is string, v any) int64 {
	if j == nil {
		return 0
	}
	body, err := cbor.Marshal(v)
	if err != nil {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.fail(err)
		return 0
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil {
		return 0
	}
	if err := j.file.Append(false, record.Record{Head: lineHeads[is], Body: body}); err != nil {
		j.fail(err)
	}
	return int64(len(body))
}

var lineHeads = func() map[string][]byte {
	heads := map[string][]byte{}
	for _, is := range []string{keptPool, keptNode, keptUpload, keptTasks, keptRetry, keptResult, keptHanded} {
		heads[is] = []byte(`{"is":"` + is + `"}`)
	}
	return heads
}()

// fail gives the journal up, and removes it: with a gap in it, it would have tasks
// done again whose results were handed over. j.mu is held.
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
// over has a file of its own by that name. j.mu is held.
func (j *journal) isThere() bool {
	have, err := j.file.Stat()
	if err != nil {
		return false
	}
	is, err := os.Stat(j.path)
	return err == nil && os.SameFile(is, have)
}

// tasks keeps units that are about to be queued. Functions with streams are not
// kept: what went through them cannot be had again.
func (j *journal) tasks(units []*unit, alone bool) {
	if j == nil || len(units) == 0 || units[0].task.call != nil && units[0].task.call.stream != nil {
		return
	}
	for _, u := range units {
		u.kept, u.alone = true, alone && len(units) == 1
	}
	for len(units) > 0 {
		b := keptBatch{Task: keep(units[0].task)}
		same := 1
		for same < len(units) && units[0].pin != nil { // those of a broadcast have one task
			same++
		}
		for _, u := range units[:same] {
			k := keptUnit{ID: u.id, Label: u.label, Index: u.index}
			if u.pin != nil {
				k.Pin = u.pin.name
				for _, m := range u.members {
					k.Members = append(k.Members, m.name)
				}
			}
			b.Units = append(b.Units, k)
		}
		size := j.add(keptTasks, b)
		j.mu.Lock()
		for _, u := range units[:same] {
			j.open[u.id] = size
			j.live += size
			size = 0
		}
		j.mu.Unlock()
		units = units[same:]
	}
}

func keep(t Task) keptTask {
	k := keptTask{
		Name: t.Name, Args: t.Args, Script: t.Script, Env: t.Env, Dir: t.Dir, Stdin: t.Stdin, Timeout: int64(t.Timeout),
		Retries: t.Retries, HoldsLease: t.HoldsLease, Outputs: t.Outputs, Rank: t.Target.rank,
	}
	for _, l := range t.Target.labels {
		k.Labels = append(k.Labels, [2]string{l.key, l.value})
	}
	for name := range t.Secrets {
		k.Secrets = append(k.Secrets, name)
	}
	if len(k.Stdin) > keptBody {
		k.Stdin, k.TooLarge = nil, true
	}
	if t.call != nil {
		k.Function = t.call.function
		if arg, err := t.call.encode(); err != nil || arg.Size() > keptBody {
			k.TooLarge = true
		} else {
			k.Head, k.Parts = arg.Head, arg.Parts
		}
	}
	return k
}

// tried keeps that an attempt failed, and another one follows.
func (j *journal) tried(u *unit) {
	if u.kept {
		j.add(keptRetry, keptTries{u.id, u.attempts, u.failures, u.losses, u.usd, u.unpriced})
	}
}

// concluded keeps how a unit ended, until it is handed over. One that is alone is so
// at once: its call is about to return.
func (j *journal) concluded(u *unit, r Result) {
	if !u.kept {
		return
	}
	if u.alone {
		j.handed(u)
		return
	}
	size := j.add(keptResult, outcomeOf(u.id, r))
	j.mu.Lock()
	defer j.mu.Unlock()
	j.open[u.id] += size
	j.live += size
}

// handed notes that the program has what became of units.
func (j *journal) handed(units ...*unit) {
	if j == nil {
		return
	}
	var ids []string
	j.mu.Lock()
	for _, u := range units {
		if size, open := j.open[u.id]; open && u.kept {
			delete(j.open, u.id)
			j.live -= size
			ids = append(ids, u.id)
		}
	}
	j.mu.Unlock()
	if ids != nil {
		j.add(keptHanded, ids)
		j.compact()
	}
}

// compact rewrites a journal that is mostly of tasks that were handed over.
func (j *journal) compact() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file == nil || j.file.Size() < compactFrom || j.live > j.file.Size()/4 || !j.isThere() {
		return
	}
	if err := j.file.Close(); err != nil {
		j.fail(err)
		return
	}
	f, err := record.Rewrite(j.path, func(yield func(record.Record, error) bool) {
		for r, err := range record.Read(j.path) {
			if err != nil || j.wants(r) && !yield(r, nil) {
				return
			}
		}
	})
	if err != nil { // the old one is whole, and closed: it is not to be read any more
		j.file = nil
		j.fail(errors.Join(err, os.Remove(j.path)))
		return
	}
	j.file = f
}

// wants reports whether a line is still of use.
func (j *journal) wants(r record.Record) bool {
	isOpen := func(id string) bool { _, open := j.open[id]; return open }
	switch lineOf(r) {
	case keptTasks:
		var b keptBatch
		if unmarshalKept(r.Body, &b) != nil {
			return false
		}
		for _, u := range b.Units {
			if isOpen(u.ID) {
				return true
			}
		}
		return false
	case keptRetry:
		var t keptTries
		return unmarshalKept(r.Body, &t) == nil && isOpen(t.ID)
	case keptResult:
		var o struct{ ID string }
		return unmarshalKept(r.Body, &o) == nil && isOpen(o.ID)
	case keptHanded:
		return false
	}
	return true
}

// unmarshalKept decodes a line. Arguments and the like are any bytes.
var unmarshalKept = func() func([]byte, any) error {
	mode, err := cbor.DecOptions{UTF8: cbor.UTF8DecodeInvalid, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		panic(err) // the options are constants
	}
	return mode.Unmarshal
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

func (j *journal) close() {
	if j == nil {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.file != nil {
		_ = j.file.Close() // nothing is forced to disk
		j.file = nil
	}
}
