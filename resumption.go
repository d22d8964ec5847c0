package gputrain

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"

	"github.com/gputrain/gputrain/internal/attempt"
	"github.com/gputrain/gputrain/internal/calls"
	"github.com/gputrain/gputrain/internal/journal"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/scheduler"
	"github.com/gputrain/gputrain/internal/supervisor"
	"github.com/gputrain/gputrain/internal/worker"
)

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
	p.trainings.resume(p, state.Trainings)
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
			r.Task, r.Name = u.id, u.label
			u.End(r.size())
			job.show(output.Reopen(output.Kept{Head: r.Stdout, Bytes: r.StdoutBytes, File: r.StdoutFile}), output.Reopen(output.Kept{Head: r.Stderr, Bytes: r.StderrBytes, File: r.StderrFile}))
			b.results <- r
		}
		t := &resumedTask{unit: u, pending: pending, taken: pending.Outcome != nil}
		p.resumption.tasks[u.id] = t
		p.resumption.order = append(p.resumption.order, t)
		job.follow(b)
	}
	p.resumption.rejoin()
}

// rejoin makes the tasks of each call with a critical task belong together again. If such a task has failed, they are
// cancelled now.
func (r *resumption) rejoin() {
	calls := map[string][]*unit{}
	for _, t := range r.order {
		if call := t.pending.Call; call != "" {
			calls[call] = append(calls[call], t.unit)
		}
	}
	for _, units := range calls {
		var batches []*scheduler.Batch
		for _, u := range units {
			batches = append(batches, u.batch.Batch)
		}
		for _, u := range units {
			u.siblings = batches
		}
	}
	for _, t := range r.order {
		if o := t.pending.Outcome; o != nil && t.unit.task.Critical {
			if failed, ok := resultOf(o, t.unit.index, Node{}, "").Err.(*TaskError); ok && failed.Cause != CauseCancelled {
				t.unit.failCall(failed)
			}
		}
	}
}

// resumedUnit returns the unit that a task was in the earlier program.
func (b *batch) resumedUnit(t *journal.Pending) *unit {
	task, missing := taskOf(t.Task, b.c.p.opts.secrets)
	if missing == nil {
		missing = b.c.p.given.refuses(task)
	}
	u := b.unit(t.Unit.Index, task)
	u.id, u.label, u.kept, u.missing = t.Unit.ID, t.Unit.Label, true, missing
	u.Attempts, u.Failures, u.Losses, u.usd, u.unpriced = t.Tries.Attempts, t.Tries.Failures, t.Tries.Losses, t.Tries.USD, t.Tries.Unpriced
	u.brought = outputsOf(t.Tries.Brought)
	return u
}

// nodeIDPattern matches unit.nodeID: the task, the attempt, and the slot or the units.
var nodeIDPattern = regexp.MustCompile(`^(t[0-9]+)-a([0-9]+)-(?:s([0-9]+)|d([0-9a-z]+))$`)

// take resumes what was found on a node, before the node takes anything new.
func (n *poolNode) take(found []supervisor.Found) {
	for _, f := range found {
		if n.takeTraining(f) {
			continue
		}
		if m := nodeIDPattern.FindStringSubmatch(f.ID); m != nil {
			n.takeTask(f, attemptFound{m[1], number(m[2]), number(m[3]), scheduler.ParseUnits(m[4]), f.Over})
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

// An attemptFound is an attempt that was found on a node: it holds a slot or units, unless it is over.
type attemptFound struct {
	task          string
	attempt, slot int
	units         []int // nil if it has a slot
	over          bool
}

// claim gives a task that was found on the node its slot again, or its units and the number that it has in place of a
// slot's. It returns nil if the task is not wanted. A task that is over holds nothing, which another task may have.
func (n *poolNode) claim(f attemptFound) (t *resumedTask, slot int) {
	p := n.p
	p.mu.Lock()
	defer p.mu.Unlock()
	t, slot = p.resumption.tasks[f.task], f.slot
	if t == nil || t.taken || f.attempt <= t.unit.Attempts || len(f.units) != t.unit.task.Accelerators {
		return nil, 0
	}
	ok := f.over
	switch {
	case f.over:
	case f.units != nil:
		slot, ok = p.fleet.Tasks.TakeUnits(n.Slots, f.units)
	default:
		ok = p.fleet.Tasks.Take(n.Slots, f.slot)
	}
	if !ok {
		return nil, 0
	}
	t.taken = true
	t.unit.Attempts = f.attempt
	if t.pending.Unit.Pin != "" {
		t.unit.pinTo(n, nil, nil) // a broadcast's share stays on its node
	}
	return t, slot
}

// takeTask follows a command that was found on the node.
func (n *poolNode) takeTask(f supervisor.Found, found attemptFound) {
	p := n.p
	t, slot := n.claim(found)
	if t == nil {
		n.Node.Supervisor().End(f.ID)
		return
	}
	u := t.unit
	n.started(u)
	p.running.Go(func() {
		if u.task.HoldsLease && !f.Over {
			p.spending.Hold(1)
			defer p.spending.Hold(-1)
		}
		c := u.command(n, slot)
		c.NodeID, c.Started = f.ID, func() {} // which was reported
		result, failure, release, _ := u.result(n, p.attempts.Resume(u.batch.context(n), newAttemptNode(n), n.Node.Supervisor(), c, t.pending.Since()))
		if !f.Over { // a command that is over has no slot
			p.fleet.Tasks.Free(n.Slots, slot)
		}
		p.fleet.Tasks.Conclude(&u.Task, u.outcome(n, result, failure, release))
	})
}

// claimCall resumes a call that was found in a worker. It returns nil if the call is not wanted.
func (n *poolNode) claimCall(held worker.HeldCall) *calls.Claim {
	t, slot := n.claim(attemptFound{held.Place.TaskID, held.Place.Attempt, held.Place.Slot, scheduler.ParseUnits(held.Place.Units), held.Finished})
	if t == nil {
		return nil
	}
	u, tasks := t.unit, n.p.fleet.Tasks
	n.started(u)
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
