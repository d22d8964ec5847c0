package gputrain

import (
	"errors"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/providers/driver"
)

// A recorder records the units of a pool in its journal. The zero value records nothing.
type recorder struct{ *journal.Journal }

// begin records units that are about to be queued. alone means that the caller waits for them and
// has their results at once. Functions with streams are not recorded: what went through a stream
// cannot be repeated.
func (r recorder) begin(units []*unit, alone bool) {
	if r.Journal == nil || len(units) == 0 || units[0].task.call != nil && units[0].task.call.stream != nil {
		return
	}
	for _, u := range units {
		u.kept, u.alone = true, alone && len(units) == 1
	}
	r.Begin(batchesOf(units)...)
}

// tried records that an attempt failed and that another one follows.
func (r recorder) tried(u *unit) {
	if u.kept {
		r.Tried(journal.Tries{
			ID: u.id, Attempts: u.Attempts, Failures: u.Failures, Losses: u.Losses, USD: u.usd, Unpriced: u.unpriced, At: time.Now().UnixNano(),
			Brought: u.brought.form(),
		})
	}
}

// form returns outputs as a journal stores them, or nil if there are none.
func (o outputs) form() *journal.Brought {
	if len(o.files) == 0 {
		return nil
	}
	b := &journal.Brought{Dir: o.dir}
	for _, f := range o.files {
		b.Files = append(b.Files, journal.OutputFile(f))
	}
	return b
}

// outputsOf reverses outputs.form.
func outputsOf(b *journal.Brought) (o outputs) {
	if b == nil {
		return outputs{}
	}
	o.dir = b.Dir
	for _, f := range b.Files {
		o.files = append(o.files, OutputFile(f))
	}
	return o
}

// concluded records how a unit ended, until it is delivered, and calls written once that is in the
// file. The only unit of a call is delivered at once: that call is about to return.
func (r recorder) concluded(u *unit, result Result, written func()) {
	switch {
	case !u.kept:
		written()
	case u.alone:
		r.Delivered(u.id)
		written()
	default:
		r.Concluded(outcomeOf(u.id, result), locationOf(result.Node), written)
	}
}

// delivered records that the caller has the results of units.
func (r recorder) delivered(units ...*unit) {
	if r.Journal == nil {
		return
	}
	ids := make([]string, 0, len(units))
	for _, u := range units {
		if u.kept {
			ids = append(ids, u.id)
		}
	}
	r.Delivered(ids...)
}

// batchesOf divides units into batches: a broadcast is one batch, and so are calls of a function
// that differ only in the argument.
func batchesOf(units []*unit) []journal.Batch {
	most := 1
	if units[0].task.call == nil && units[0].pin == nil {
		most = len(units) // each command is a batch
	}
	batches := make([]journal.Batch, 0, most)
	call := ""
	if slices.ContainsFunc(units, func(u *unit) bool { return u.task.Critical }) {
		call = units[0].id
	}
	for len(units) > 0 {
		n := alike(units)
		b := batchOf(units[:n])
		b.Call = call
		batches = append(batches, b)
		units = units[n:]
	}
	return batches
}

// alike returns how many of the first units belong to one batch.
func alike(units []*unit) int {
	const most = 1000 // calls
	if units[0].pin != nil {
		return len(units)
	}
	if units[0].task.call == nil {
		return 1
	}
	n, size := 1, 0
	for ; n < min(len(units), most) && size < journal.MaxBytes && sameCall(units[0].task, units[n].task); n++ {
		if arg, err := units[n].task.call.encode(); err == nil {
			size += arg.Size()
		}
	}
	return n
}

// sameCall reports whether two tasks call the same function and differ at most in its argument.
func sameCall(a, b Task) bool {
	if a.call == nil || b.call == nil || a.call.function != b.call.function {
		return false
	}
	a.call, b.call = nil, nil
	return reflect.DeepEqual(a, b)
}

func batchOf(units []*unit) journal.Batch {
	b := journal.Batch{Task: taskForm(units[0].task), Units: make([]journal.Unit, len(units)), At: time.Now().UnixNano()}
	for _, m := range units[0].members {
		b.Members = append(b.Members, m.Node.Name())
	}
	ownArgs := len(units) > 1 && units[0].pin == nil
	if c := units[0].task.call; c != nil && !ownArgs {
		b.Task.Arg = journal.NewArg(c.encode())
	}
	for i, u := range units {
		b.Units[i] = journal.Unit{ID: u.id, Label: u.label, Index: u.index}
		if ownArgs {
			b.Units[i].Arg = journal.NewArg(u.task.call.encode())
		}
		if u.pin != nil {
			b.Units[i].Pin = u.pin.Node.Name()
		}
	}
	return b
}

// taskForm returns a task as a journal stores it, without the argument of its function.
func taskForm(t Task) journal.Task {
	f := journal.Task{
		Name: t.Name, Args: t.Args, Script: t.Script, Env: t.Env, Dir: t.Dir, Stdin: t.Stdin, Timeout: int64(t.Timeout),
		Retries: t.Retries, HoldsLease: t.HoldsLease, Outputs: t.Outputs, SyncEvery: int64(t.SyncEvery), DropIfCancelled: t.DropIfCancelled,
		Accelerators: t.Accelerators, Critical: t.Critical, TTY: t.TTY, StallTimeout: int64(t.StallTimeout), Checkpoints: checkpointsForm(t.Checkpoints),
	}
	if len(t.Secrets) > 0 { // without this check, most tasks would pay for the iterator
		f.Secrets = slices.Sorted(maps.Keys(t.Secrets))
	}
	if rank, by := t.Target.allows.Rank(); by {
		f.Rank = rank + 1
	}
	for _, l := range t.Target.allows.Labels() {
		f.Labels = append(f.Labels, [2]string{l.Key, l.Value})
	}
	if t.call != nil {
		f.Function = t.call.function
	}
	return f
}

// taskOf returns a task from its record, with the secrets that are known again. missing is why the
// task cannot be started.
func taskOf(f journal.Task, secrets map[string]Secret) (t Task, missing error) {
	t = Task{
		Name: f.Name, Args: f.Args, Script: f.Script, Env: f.Env, Dir: f.Dir, Stdin: f.Stdin, Timeout: time.Duration(f.Timeout),
		Retries: f.Retries, HoldsLease: f.HoldsLease, Outputs: f.Outputs, SyncEvery: time.Duration(f.SyncEvery), DropIfCancelled: f.DropIfCancelled,
		Target: targetOf(f), Accelerators: f.Accelerators, Critical: f.Critical, TTY: f.TTY, StallTimeout: time.Duration(f.StallTimeout),
		Checkpoints: checkpointsOf(f.Checkpoints),
	}
	missing = f.Missing()
	if f.Function != "" {
		t.call = &call{function: f.Function, marshal: func() (codec.Body, error) { return f.Arg.Body(), nil }}
		if missing == nil {
			missing = functionReady(f.Function)
		}
	}
	for _, name := range f.Secrets {
		value, ok := secrets[name]
		if !ok {
			missing = notKept(name)
			continue
		}
		if t.Secrets == nil {
			t.Secrets = map[string]Secret{}
		}
		t.Secrets[name] = value
	}
	return t, missing
}

// checkpointsForm returns settings as a journal stores them, or nil if none are kept.
func checkpointsForm(c Checkpoints) *journal.Checkpoints {
	if c.IsZero() {
		return nil
	}
	return &journal.Checkpoints{Dir: c.Dir, To: c.To, Keep: c.Keep, Every: int64(c.Every), Shared: c.Shared}
}

// checkpointsOf reverses checkpointsForm.
func checkpointsOf(f *journal.Checkpoints) Checkpoints {
	if f == nil {
		return Checkpoints{}
	}
	return Checkpoints{Dir: f.Dir, To: f.To, Keep: f.Keep, Every: time.Duration(f.Every), Shared: f.Shared}
}

func targetOf(f journal.Task) Target {
	if f.Rank != 0 {
		return OnRank(f.Rank - 1)
	}
	labels := map[string]string{}
	for _, l := range f.Labels {
		labels[l[0]] = l[1]
	}
	return OnLabels(labels)
}

// outcomeOf returns a result as a journal stores it.
func outcomeOf(id string, r Result) *journal.Outcome {
	o := &journal.Outcome{
		ID: id, ExitCode: r.ExitCode, Attempts: r.Attempts, Elapsed: int64(r.Elapsed), USD: math.NaN(), Head: r.value.Head, Parts: r.value.Parts,
	}
	if usd, known := r.CostUSD.USD(); known {
		o.USD = usd
	}
	if r.function != "" && r.Err == nil && r.OutputDir == "" && r.StdoutBytes == 0 && r.StderrBytes == 0 && !r.Truncated {
		return o // as for most calls
	}
	o.More = &journal.OutcomeDetails{
		Stdout: r.Stdout, Stderr: r.Stderr, StdoutBytes: r.StdoutBytes, StderrBytes: r.StderrBytes,
		StdoutFile: r.StdoutFile, StderrFile: r.StderrFile, OutputDir: r.OutputDir, Truncated: r.Truncated,
	}
	for _, f := range r.Outputs {
		o.More.Outputs = append(o.More.Outputs, journal.OutputFile(f))
	}
	if e, ok := errors.AsType[*TaskError](r.Err); ok {
		o.More.Failure = &journal.Failure{
			Name: e.Name, Signal: e.Signal, Tail: e.Tail, Stack: e.Stack, Attempt: e.Attempt, Cause: int(e.Cause), ExitCode: e.ExitCode,
			Rank: e.Rank, Step: e.Step,
		}
		o.More.Failure.SetErr(e.Err)
	}
	return o
}

// resultOf returns the recorded result of a command or of a call of a function. Of an error, the
// record has the text and the kinds.
func resultOf(o *journal.Outcome, index int, n Node, function string) Result {
	r := Result{
		Index: index, Node: n, ExitCode: o.ExitCode, Attempts: o.Attempts, Elapsed: time.Duration(o.Elapsed),
		function: function, value: codec.Body{Head: o.Head, Parts: o.Parts},
	}
	if !math.IsNaN(o.USD) {
		r.CostUSD = driver.USD(o.USD)
	}
	m := o.More
	if m == nil {
		return r
	}
	r.Stdout, r.Stderr, r.StdoutBytes, r.StderrBytes = m.Stdout, m.Stderr, m.StdoutBytes, m.StderrBytes
	r.StdoutFile, r.StderrFile, r.OutputDir, r.Truncated = m.StdoutFile, m.StderrFile, m.OutputDir, m.Truncated
	for _, f := range m.Outputs {
		r.Outputs = append(r.Outputs, OutputFile(f))
	}
	if f := m.Failure; f != nil {
		r.Err = &TaskError{
			Index: index, Name: f.Name, Node: n, Attempt: f.Attempt, Cause: Cause(f.Cause), ExitCode: f.ExitCode,
			Signal: f.Signal, Tail: f.Tail, Stack: f.Stack, Rank: f.Rank, Step: f.Step, Err: f.Err(),
		}
	}
	return r
}

func locationOf(n Node) journal.Location {
	return journal.Location{
		Rank: n.Rank, ID: n.ID, Name: n.Name, State: int(n.State), Provider: n.Provider, Region: n.Region, InstanceType: n.InstanceType,
		USD: journal.Price{Price: n.HourlyUSD}, Accelerator: n.Accelerator, PublicAddr: n.PublicAddr, PrivateAddr: n.PrivateAddr, OS: n.OS, Arch: n.Arch,
		VCPUs: n.VCPUs, MemoryGiB: n.MemoryGiB, Labels: n.labels, HostKey: n.HostKey, HostKeySource: int(n.HostKeySource),
	}
}

// nodeAt returns the node at a location.
func nodeAt(l journal.Location) Node {
	return Node{
		Rank: l.Rank, ID: l.ID, Name: l.Name, State: NodeState(l.State), Provider: l.Provider, Region: l.Region, InstanceType: l.InstanceType,
		HourlyUSD: l.USD.Price, Accelerator: l.Accelerator, PublicAddr: l.PublicAddr, PrivateAddr: l.PrivateAddr, OS: l.OS, Arch: l.Arch,
		VCPUs: l.VCPUs, MemoryGiB: l.MemoryGiB, labels: l.Labels, HostKey: l.HostKey, HostKeySource: HostKeySource(l.HostKeySource),
	}
}
