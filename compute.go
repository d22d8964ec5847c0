package gputrain

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/gputrain/gputrain/internal/worker"
)

// Compute is a pool of nodes: what [Open] returns. Its methods can be called
// at the same time.
//
// The calls of a pool share it: whenever a slot of a node is free, three kinds of tasks
// that wait for it take turns, shares of a Broadcast, tasks with a [Target], and tasks that
// may run on any node. Within a kind the calls take turns, one task each: a Run, Gather,
// Stream, Start or Broadcast is a call. Within a call tasks start in their order, also one
// that is started again. So a Run waits for one task of a Gather that came before, not for
// all of it, and no kind of task keeps another one from running. Tasks that wait for one
// another belong in a Broadcast: those of a Gather may have to run one by one.
type Compute struct {
	p   *pool
	ctx context.Context // the pool's own, or that of WithContext
}

// ID returns the pool's ID, by which everything made for it is tagged.
func (c *Compute) ID() string { return c.p.id }

// WithContext returns the same pool with another context for what is called
// through it: when ctx ends, those tasks are cancelled, on the nodes too. The
// pool itself goes on.
func (c *Compute) WithContext(ctx context.Context) *Compute {
	if ctx == nil {
		ctx = c.p.ctx
	}
	return &Compute{p: c.p, ctx: ctx}
}

// Nodes returns the nodes in rank order, as they are now.
func (c *Compute) Nodes() []Node { return c.p.snapshot() }

// CostUSD returns what the pool has cost so far, as far as prices are known.
func (c *Compute) CostUSD() float64 { return c.p.costUSD() }

// Cost returns what the pool costs, node by node, and what it costs at most
// should this program die now.
func (c *Compute) Cost() Cost { return c.p.cost() }

// Close ends the pool: its tasks are cancelled, every machine is terminated and
// everything made for it removed. It returns when the provider has confirmed
// that, or a *LeakError that names what is left. Machines that were adopted are
// left as they were found. Closing twice is the same as once.
func (c *Compute) Close() error { return c.p.close() }

// Run runs one task on one node and returns what became of it. The error is
// mostly a [*TaskError], and the result then holds what is known all the same.
func (c *Compute) Run(task Task) (Result, error) {
	results, err := c.Gather(task)
	if len(results) == 0 {
		return Result{}, err
	}
	return results[0], results[0].Err
}

// Gather runs the tasks, each on one node, and returns their results in the
// order of the tasks, whatever finished first. The error wraps those of all
// tasks that failed, for errors.Is and errors.As; of more than ten its text has a count
// and a line for each of the first ten. Every task has its result all the same, and all
// results are in memory at the end: see Stream for many that are large. A mistake in any
// of the tasks is an error without results, and nothing runs.
func (c *Compute) Gather(tasks ...Task) ([]Result, error) {
	b, err := c.batch(tasks)
	if err != nil {
		return nil, err
	}
	defer b.close()
	b.run()
	defer b.handOver()
	return b.collect()
}

// Broadcast runs the task on every node that is ready and that its Target
// allows, at the same time as far as slots are free, and returns the results in
// rank order. The error is like Gather's. A node that is lost meanwhile
// fails its share: it is not done twice. Where no such node is ready, that is an
// error without results: [ErrNodeLost] where all were lost, and [ErrUnavailable]
// where one is still on its way up, which is not waited for. Only an elastic pool
// that has none gets a node first, or as many as a Target by rank asks for.
func (c *Compute) Broadcast(task Task) ([]Result, error) {
	if err := c.check(task); err != nil {
		return nil, err
	}
	b := c.newBatch()
	defer b.close()
	tasks, err := b.resolved(task)
	if err != nil {
		return nil, err
	}
	if err := c.p.wake(c.ctx, task.Target); err != nil {
		return nil, err
	}
	if err := b.everywhere(tasks[0]); err != nil {
		return nil, err
	}
	defer b.handOver()
	return b.collect()
}

// Stream runs the tasks, each on one node, and yields every result with its
// error as tasks finish. Nothing runs before the loop begins. Leaving the loop cancels
// the rest, and returns when that has been done on the nodes. A mistake in a task is
// yielded once, with an empty result of index -1, and nothing runs.
//
// A loop that is slower than the tasks slows them down: while [UnreadResults] results,
// or results of [UnreadBytes], wait for it, no further task of the stream starts. Slots
// are free for other calls meanwhile, also for calls from within the loop.
func (c *Compute) Stream(tasks ...Task) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		b, err := c.batch(tasks)
		if err != nil {
			yield(Result{Index: -1}, err)
			return
		}
		defer b.handOver()
		defer b.close()
		b.unread = &unread{}
		b.submit()
		for range b.units {
			r := <-b.results
			if b.unread.take(&r) {
				c.p.resume(b.unread)
			}
			if !yield(r, r.Err) {
				return
			}
			c.p.handed(b.units[r.Index])
		}
	}
}

// check reports what is wrong with tasks before any of them is queued.
func (c *Compute) check(tasks ...Task) error {
	if err := context.Cause(c.p.ctx); err != nil {
		return c.p.closedError()
	}
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	if err := context.Cause(c.p.tasksCtx); err != nil && len(tasks) > 0 {
		return err
	}
	var errs []error
	ready := ""          // a function that can be called
	possible := Target{} // a Target that some node has
	for i, t := range tasks {
		err := t.Validate()
		if err == nil && t.call != nil {
			err = t.call.refused
		}
		if err == nil && t.call != nil && t.call.function != ready {
			if err = functionReady(t.call.function); err == nil {
				ready = t.call.function
			}
		}
		if err == nil && t.call != nil {
			if _, encErr := t.call.encode(); encErr != nil {
				err = &Error{Op: "call " + t.call.function, Kind: ErrInvalid, Err: fmt.Errorf("argument: %w", encErr)}
			}
		}
		if err == nil && !t.Target.equal(possible) {
			if err = c.p.impossible(t.Target); err == nil {
				possible = t.Target
			}
		}
		if err != nil && len(tasks) > 1 {
			err = fmt.Errorf("%s: %w", t.label(i), err)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return joinTasks(errs, len(tasks), "are refused")
}

// A batch is the tasks of one call.
type batch struct {
	c       *Compute
	ctx     context.Context
	cancel  func()
	units   []*unit
	results chan Result   // has room for every unit
	unread  *unread       // of a stream; nil otherwise
	unwatch func() bool   // stops watching for the end of the context, unless it has come
	watched chan struct{} // closed when that has been seen to

	mu    sync.Mutex
	on    map[*poolNode]context.Context // ctx, until the node is given up
	stops []func() bool                 // of what watches the pool and the nodes
}

func (c *Compute) newBatch() *batch {
	parent := c.ctx
	if parent == c.p.ctx {
		parent = c.p.tasksCtx
	}
	ctx, cancel := context.WithCancelCause(parent)
	b := &batch{c: c, ctx: ctx, cancel: func() { cancel(context.Canceled) }}
	if parent != c.p.tasksCtx {
		b.stops = append(b.stops, context.AfterFunc(c.p.tasksCtx, func() { cancel(context.Cause(c.p.tasksCtx)) }))
	}
	return b
}

func (c *Compute) batch(tasks []Task) (*batch, error) {
	if err := c.check(tasks...); err != nil {
		return nil, err
	}
	b := c.newBatch()
	tasks, err := b.resolved(tasks...)
	if err != nil {
		b.close()
		return nil, err
	}
	b.results = make(chan Result, len(tasks))
	b.units = make([]*unit, len(tasks))
	for i, t := range tasks {
		b.units[i] = b.unit(i, t)
	}
	return b, nil
}

// resolved returns the tasks with the secrets that theirs refer to. The caller's own
// are left as they are.
func (b *batch) resolved(tasks ...Task) ([]Task, error) {
	if !slices.ContainsFunc(tasks, func(t Task) bool { return len(t.Secrets) > 0 }) {
		return tasks, nil
	}
	tasks = slices.Clone(tasks)
	known := map[Secret]Secret{}
	for i := range tasks {
		secrets, err := resolveSecrets(b.ctx, tasks[i].Secrets, known)
		switch {
		case err != nil && b.ctx.Err() != nil:
			return nil, cmp.Or(b.c.check(), err) // as if it had ended before the call
		case err != nil && len(tasks) > 1:
			return nil, fmt.Errorf("%s: %w", tasks[i].label(i), err)
		case err != nil:
			return nil, err
		}
		tasks[i].Secrets = secrets
	}
	return tasks, nil
}

func (b *batch) unit(index int, t Task) *unit {
	return &unit{
		id: b.c.p.nextTask(), index: index, task: t, label: t.label(index),
		ctx: b.ctx, batch: b, results: b.results, over: make(chan struct{}),
	}
}

// handOver notes that the program has the results, or does not want them.
func (b *batch) handOver() { b.c.p.handed(b.units...) }

// handed notes that the program has the results of units: what was kept for them is of
// no use any more.
func (p *pool) handed(units ...*unit) {
	for _, u := range units {
		u.share.giveBack()
	}
	p.journal.handed(units...)
}

func (b *batch) submit() {
	b.c.p.journal.tasks(b.units, false)
	b.enqueue()
}

func (b *batch) enqueue() {
	b.c.p.submit(b.units)
	b.watch()
}

// run is submit, for somebody who waits for the results. Where they are that of
// one call, for which a slot is free, the caller's goroutine makes the attempt:
// handing it to another one costs as much as the call.
func (b *batch) run() {
	b.c.p.journal.tasks(b.units, true)
	if len(b.units) == 1 && b.units[0].task.call != nil {
		u := b.units[0]
		if n, slot := b.c.p.claim(u); n != nil {
			b.c.p.lead(u, n, slot)
			if !b.isOver() { // another attempt follows
				b.watch()
			}
			return
		}
	}
	b.enqueue()
}

// watch takes out of the queues what waits there when the context ends.
func (b *batch) watch() {
	b.watched = make(chan struct{})
	b.unwatch = context.AfterFunc(b.ctx, func() {
		defer close(b.watched)
		b.c.p.abandon(b.units)
	})
}

// context returns what ends with the batch or with the node.
func (b *batch) context(n *poolNode) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx := b.on[n]
	if ctx == nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(b.ctx)
		b.stops = append(b.stops, context.AfterFunc(n.ctx, func() { cancel(context.Cause(n.ctx)) }))
		if b.on == nil {
			b.on = map[*poolNode]context.Context{}
		}
		b.on[n] = ctx
	}
	return ctx
}

// everywhere queues the task on each node that is ready now.
func (b *batch) everywhere(t Task) error {
	p := b.c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	members := slices.DeleteFunc(p.readyLocked(), func(n *poolNode) bool {
		now, _ := t.Target.matchesLocked(n)
		return !now || n.leaves || !n.taken.IsZero()
	})
	if len(members) == 0 {
		return p.noneReadyLocked(t.Target)
	}
	b.results = make(chan Result, len(members))
	cluster := sync.OnceValue(func() *worker.Members { return membersOf(members) })
	for i, n := range members {
		u := b.unit(i, t)
		u.pin, u.members, u.cluster = n, members, cluster
		if t.Name == "" {
			u.label = fmt.Sprintf("node %d", n.rank())
		}
		b.units = append(b.units, u)
	}
	p.journal.tasks(b.units, false)
	p.submitLocked(b.units)
	b.watch()
	return nil
}

// collect waits for every unit.
func (b *batch) collect() ([]Result, error) {
	results := make([]Result, len(b.units))
	for range b.units {
		r := <-b.results
		results[r.Index] = r
	}
	var errs []error
	for i := range results {
		if err := results[i].Err; err != nil {
			errs = append(errs, err)
		}
	}
	return results, joinTasks(errs, len(results), "failed")
}

// isOver reports whether every unit is: mostly, and then nobody has to look for
// units that wait.
func (b *batch) isOver() bool {
	for _, u := range b.units {
		select {
		case <-u.over:
		default:
			return false
		}
	}
	return true
}

// close cancels what has not finished and waits until it has. It lets the nodes go: a job
// without a Wait would hold them, and their connections, for as long as the pool lives.
func (b *batch) close() {
	stopped := b.unwatch == nil || b.isOver() && b.unwatch()
	b.cancel()
	for _, u := range b.units {
		<-u.over
	}
	if !stopped && !b.unwatch() {
		<-b.watched
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stop := range b.stops {
		stop()
	}
	b.on, b.stops = nil, nil
	for _, u := range b.units {
		u.pin, u.members, u.cluster = nil, nil, nil
	}
}
