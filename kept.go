package gputrain

import (
	"reflect"

	"github.com/gputrain/gputrain/internal/record"
	"github.com/gputrain/gputrain/internal/transfer"
)

// keptBody is how large an argument, or a task's stdin, is kept.
const keptBody = 16 << 20

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

type keptFiles struct {
	Local, Remote string
	Links         transfer.Links `cbor:",omitempty"`
	File          bool           `cbor:",omitempty"` // Local was a file when it was uploaded
}

// A keptBatch is tasks that differ in their argument at most.
type keptBatch struct {
	Units   []keptUnit
	Task    keptTask
	At      int64    // when they were asked for, in Unix nanoseconds
	Members []string `cbor:",omitempty"` // of a broadcast, the machines in order
}

type keptUnit struct {
	_         struct{} `cbor:",toarray"`
	ID, Label string
	Index     int
	Pin       string   // the machine that must run it
	Arg       *keptArg // nil where it is the Task's
}

// A keptArg is the argument of a function.
type keptArg struct {
	_        struct{} `cbor:",toarray"`
	Head     []byte
	Parts    [][]byte
	TooLarge bool // it is not here
}

// A keptTask is a Task.
type keptTask struct {
	Name       string            `cbor:",omitempty"`
	Script     string            `cbor:",omitempty"`
	Dir        string            `cbor:",omitempty"`
	Args       []string          `cbor:",omitempty"`
	Env        map[string]string `cbor:",omitempty"`
	Secrets    []string          `cbor:",omitempty"` // their names
	Stdin      []byte            `cbor:",omitempty"`
	Timeout    int64             `cbor:",omitempty"`
	Retries    int               `cbor:",omitempty"`
	HoldsLease bool              `cbor:",omitempty"`
	Outputs    []string          `cbor:",omitempty"`
	Rank       int               `cbor:",omitempty"`
	Labels     [][2]string       `cbor:",omitempty"`
	Function   string            `cbor:",omitempty"`
	Arg        *keptArg          `cbor:",omitempty"`
	TooLarge   bool              `cbor:",omitempty"` // its stdin, which is not here
}

type keptTries struct {
	ID                         string
	Attempts, Failures, Losses int
	USD                        float64
	Unpriced                   bool
	At                         int64 // when the last attempt was over, in Unix nanoseconds
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
	var lines []record.Record
	for len(units) > 0 {
		same := alike(units)
		line, err := newLine(keptTasks, keepBatch(units[:same]))
		if err != nil {
			j.giveUp(err)
			return
		}
		lines = append(lines, line)
		j.begin(units[:same], int64(len(line.Body)/same)) // before it is written: what is not open may be left out of the file
		units = units[same:]
	}
	j.write(lines...)
}

// begin notes that units are open, and what each takes.
func (j *journal) begin(units []*unit, size int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, u := range units {
		j.open[u.id] = size
		j.live += size
	}
}

// alike returns how many of the first units go in one line: all of a broadcast, and
// calls of one function that differ in nothing but the argument.
func alike(units []*unit) int {
	const most = 1000 // calls
	if units[0].pin != nil {
		return len(units)
	}
	if units[0].task.call == nil {
		return 1
	}
	same, size := 1, 0
	for ; same < min(len(units), most) && size < keptBody && sameCall(units[0].task, units[same].task); same++ {
		if arg, err := units[same].task.call.encode(); err == nil {
			size += arg.Size()
		}
	}
	return same
}

// sameCall reports whether two tasks call one function and differ in its argument at most.
func sameCall(a, b Task) bool {
	if a.call == nil || b.call == nil || a.call.function != b.call.function {
		return false
	}
	a.call, b.call = nil, nil
	return reflect.DeepEqual(a, b)
}

func keepBatch(units []*unit) keptBatch {
	b := keptBatch{Task: keep(units[0].task), Units: make([]keptUnit, len(units)), At: now().UnixNano()}
	ownArgs := len(units) > 1 && units[0].pin == nil
	if ownArgs {
		b.Task.Arg = nil
	}
	for _, m := range units[0].members {
		b.Members = append(b.Members, m.name)
	}
	for i, u := range units {
		k := keptUnit{ID: u.id, Label: u.label, Index: u.index}
		if ownArgs {
			k.Arg = keepArg(u.task.call)
		}
		if u.pin != nil {
			k.Pin = u.pin.name
		}
		b.Units[i] = k
	}
	return b
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
		k.Function, k.Arg = t.call.function, keepArg(t.call)
	}
	return k
}

func keepArg(c *call) *keptArg {
	arg, err := c.encode()
	if err != nil || arg.Size() > keptBody {
		return &keptArg{TooLarge: true}
	}
	return &keptArg{Head: arg.Head, Parts: arg.Parts}
}

// tried keeps that an attempt failed, and another one follows.
func (j *journal) tried(u *unit) {
	if !u.kept {
		return
	}
	line, err := newLine(keptRetry, keptTries{u.id, u.attempts, u.failures, u.losses, u.usd, u.unpriced, now().UnixNano()})
	if err != nil {
		j.giveUp(err)
		return
	}
	j.write(line)
}

// concluded keeps how a unit ended, until it is handed over, and calls then once that
// is in the file. One that is alone is handed over at once: its call is about to return.
func (j *journal) concluded(u *unit, r Result, then func()) {
	switch {
	case !u.kept:
		then()
	case u.alone:
		j.handed(u)
		then()
	default:
		o := outcomeOf(u.id, r) // which the program may change from now on
		if r.Node.Name != "" {
			o.Where = j.place(r.Node)
		}
		line, err := newLine(keptResult, &o)
		if err != nil {
			j.giveUp(err)
			then()
			return
		}
		j.writeBehind(behindLine{line: line, of: u.id, then: then})
	}
}

// handed notes that the program has what became of units. That is in the file when it
// returns, though how they ended may not be.
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
	if ids == nil {
		return
	}
	line, err := newLine(keptHanded, ids)
	if err != nil {
		j.giveUp(err)
		return
	}
	j.write(line)
	j.tidy()
}
