package gputrain

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
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
		r.Tried(journal.Tries{ID: u.id, Attempts: u.Attempts, Failures: u.Failures, Losses: u.Losses, USD: u.usd, Unpriced: u.unpriced, At: time.Now().UnixNano()})
	}
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
	for len(units) > 0 {
		n := alike(units)
		batches = append(batches, batchOf(units[:n]))
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
		Retries: t.Retries, HoldsLease: t.HoldsLease, Outputs: t.Outputs,
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
		Retries: f.Retries, HoldsLease: f.HoldsLease, Outputs: f.Outputs, Target: targetOf(f),
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
			missing = fmt.Errorf("it needs the secret %s, which is kept nowhere; give it to Attach by WithSecrets", name)
			continue
		}
		if t.Secrets == nil {
			t.Secrets = map[string]Secret{}
		}
		t.Secrets[name] = value
	}
	return t, missing
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
			Signal: f.Signal, Tail: f.Tail, Stack: f.Stack, Err: f.Err(),
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

// A resumption is the tasks of an earlier program that Attach resumes, and what is known of the
// nodes that they may run on.
type resumption struct {
	environments map[string]journal.Environment // by the machine's name
	workers      map[string]journal.Worker      // by the machine's name
	tasks        map[string]*resumedTask        // by ID
	order        []*resumedTask
}

// A resumedTask is a task of an earlier program. pool.mu guards taken.
type resumedTask struct {
	unit    *unit
	pending *journal.Pending
	taken   bool // it is over, or a node has it, or no node may have it any more
}

// resume makes jobs of the tasks that were not delivered. Tasks that ended have their results.
func (p *pool) resume(state *journal.State) {
	p.resumption = &resumption{environments: state.Environments, workers: state.Workers, tasks: map[string]*resumedTask{}}
	c := &Compute{p: p, ctx: p.ctx}
	for _, pending := range state.Tasks {
		b := c.newBatch()
		b.results = make(chan Result, 1)
		u := b.resumedUnit(pending)
		b.units = []*unit{u}
		p.fleet.Tasks.TakeTurn(&u.Task)
		b.Watch()
		job := b.newJob()
		if o := pending.Outcome; o != nil {
			r := resultOf(o, u.index, nodeAt(state.Location(o)), pending.Task.Function)
			u.End(r.size())
			job.show(output.Reopen(output.Kept{Head: r.Stdout, Bytes: r.StdoutBytes, File: r.StdoutFile}), output.Reopen(output.Kept{Head: r.Stderr, Bytes: r.StderrBytes, File: r.StderrFile}))
			b.results <- r
		}
		t := &resumedTask{unit: u, pending: pending, taken: pending.Outcome != nil}
		p.resumption.tasks[u.id] = t
		p.resumption.order = append(p.resumption.order, t)
		job.follow(b)
	}
}

// resumedUnit returns the unit that a task was in the earlier program.
func (b *batch) resumedUnit(t *journal.Pending) *unit {
	task, missing := taskOf(t.Task, b.c.p.opts.secrets)
	u := b.unit(t.Unit.Index, task)
	u.id, u.label, u.kept, u.missing = t.Unit.ID, t.Unit.Label, true, missing
	u.Attempts, u.Failures, u.Losses, u.usd, u.unpriced = t.Tries.Attempts, t.Tries.Failures, t.Tries.Losses, t.Tries.USD, t.Tries.Unpriced
	return u
}

// nodeIDPattern matches unit.nodeID: the task, the attempt and the slot.
var nodeIDPattern = regexp.MustCompile(`^(t[0-9]+)-a([0-9]+)-s([0-9]+)$`)

// take resumes what was found on a node, before the node takes anything new.
func (n *poolNode) take(found []supervisor.Found) {
	for _, f := range found {
		if m := nodeIDPattern.FindStringSubmatch(f.ID); m != nil {
			n.takeTask(f, m[1], number(m[2]), number(m[3]))
			continue
		}
		if w := n.p.resumption.workers[n.Node.Name()]; w.Name == f.ID && !f.Over {
			n.calls.Adopt(calls.Worker{Name: w.Name, Binary: w.Binary, Starts: w.Starts}, n.claimCall)
			continue
		}
		n.Node.Supervisor().End(f.ID) // it is a step of the bootstrap, or a dead worker
	}
}

// number parses digits. It returns -1 for a number that is too large.
func number(digits string) int {
	i, err := strconv.Atoi(digits)
	if err != nil {
		return -1
	}
	return i
}

// claim gives a task that was found on the node its slot again. It returns nil if the task is not
// wanted. A task that is over needs no slot, which another task may have.
func (n *poolNode) claim(task string, attempt, slot int, over bool) *resumedTask {
	p := n.p
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.resumption.tasks[task]
	switch {
	case t == nil || t.taken || attempt <= t.unit.Attempts:
		return nil
	case over:
	case !p.fleet.Tasks.Take(n.Slots, slot):
		return nil
	}
	t.taken = true
	t.unit.Attempts = attempt
	if t.pending.Unit.Pin != "" {
		t.unit.pinTo(n, nil, nil) // a broadcast's share stays on its node
	}
	return t
}

// takeTask follows a command that was found on the node.
func (n *poolNode) takeTask(f supervisor.Found, task string, attempt, slot int) {
	p := n.p
	t := n.claim(task, attempt, slot, f.Over)
	if t == nil {
		n.Node.Supervisor().End(f.ID)
		return
	}
	u := t.unit
	p.running.Go(func() {
		c := u.command(n, slot)
		c.NodeID = f.ID
		result, failure, release, _ := u.result(n, p.attempts.Resume(u.batch.context(n), newAttemptNode(n), n.Node.Supervisor(), c, t.pending.Since()))
		if !f.Over { // a command that is over has no slot
			p.fleet.Tasks.Free(n.Slots, slot)
		}
		p.fleet.Tasks.Conclude(&u.Task, u.outcome(n, result, failure, release))
	})
}

// claimCall resumes a call that was found in a worker. It returns nil if the call is not wanted.
func (n *poolNode) claimCall(held worker.HeldCall) *calls.Claim {
	slot := held.Place.Slot
	t := n.claim(held.Place.TaskID, held.Place.Attempt, slot, held.Finished)
	if t == nil {
		return nil
	}
	u, tasks := t.unit, n.p.fleet.Tasks
	free := func() {
		if !held.Finished { // a finished call has no slot
			tasks.Free(n.Slots, slot)
		}
	}
	return &calls.Claim{
		Call: &calls.Call{Attempt: u.attemptOn(n), Function: u.task.call.function}, Since: t.pending.Since(),
		Done: func(o attempt.Outcome) {
			result, failure, release, gone := u.result(n, o)
			if gone == nil {
				free()
			}
			tasks.Conclude(&u.Task, u.outcome(n, result, failure, release))
			if gone != nil {
				<-gone
				free()
			}
		},
	}
}

// queueRest queues the tasks that are not over and that no node has.
func (r *resumption) queueRest(p *pool) {
	broadcasts := r.broadcasts(p)
	var waiting []*scheduler.Task
	for _, t := range r.takeRest(p) {
		u, pin := t.unit, t.pending.Unit.Pin
		switch {
		case u.missing != nil:
			u.endUnrun(nil, u.failure(nil, CauseNeverStarted, u.missing))
		case pin != "" && !broadcasts[t.pending.Broadcast].pin(u, pin):
			u.Stranded(nil, fmt.Errorf("%w: %s, which was to run it", ErrNodeLost, pin))
		default:
			waiting = append(waiting, &u.Task)
		}
	}
	p.fleet.Tasks.Submit(waiting...)
}

// dropRest ends the jobs of the tasks that no node has, without a record: another Attach resumes them.
func (r *resumption) dropRest(p *pool) {
	for _, t := range r.takeRest(p) {
		t.unit.Refused()
	}
}

// takeRest returns the tasks that are not over and that no node has. A node that was just lost may
// still find some of them: it gets none from now on.
func (r *resumption) takeRest(p *pool) (rest []*resumedTask) {
	if r == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range r.order {
		if !t.taken {
			t.taken = true
			rest = append(rest, t)
		}
	}
	return rest
}

// A resumedBroadcast is the nodes of a broadcast of an earlier program.
type resumedBroadcast struct {
	nodes   []*poolNode
	cluster func() *worker.Members // what functions learn about the nodes
}

// broadcasts returns the earlier program's broadcasts. One whose nodes are all there, by the names
// of their machines, has its nodes; any other is nil.
func (r *resumption) broadcasts(p *pool) map[*journal.Broadcast]*resumedBroadcast {
	p.mu.Lock()
	defer p.mu.Unlock()
	byName := map[string]*poolNode{}
	for _, m := range p.fleet.Members() {
		if !m.State().Over() {
			byName[m.Node.Name()] = nodeOf(m)
		}
	}
	broadcasts := map[*journal.Broadcast]*resumedBroadcast{}
	for _, t := range r.order {
		b := t.pending.Broadcast
		if _, known := broadcasts[b]; known || b == nil {
			continue
		}
		broadcasts[b] = nil
		if nodes := nodesNamed(byName, b.Members); nodes != nil {
			broadcasts[b] = &resumedBroadcast{nodes, sync.OnceValue(func() *worker.Members { return membersOf(nodes) })}
		}
	}
	return broadcasts
}

// nodesNamed returns the nodes of these names, or nil if one is missing.
func nodesNamed(byName map[string]*poolNode, names []string) (nodes []*poolNode) {
	for _, name := range names {
		n := byName[name]
		if n == nil {
			return nil
		}
		nodes = append(nodes, n)
	}
	return nodes
}

// pin gives a unit of a broadcast the node of this name. It reports false if the broadcast, which
// may be nil, does not have that node at the unit's index.
func (b *resumedBroadcast) pin(u *unit, name string) bool {
	if b == nil || u.index < 0 || u.index >= len(b.nodes) || b.nodes[u.index].Node.Name() != name {
		return false
	}
	u.pinTo(b.nodes[u.index], b.nodes, b.cluster)
	return true
}
