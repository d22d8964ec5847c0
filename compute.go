package gputrain

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
)

// Compute is a pool of nodes: what [Open] returns. Its methods can be called
// at the same time.
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

// CostUSD returns what the pool's nodes have cost so far, as far as their
// prices are known.
func (c *Compute) CostUSD() float64 { return c.p.costUSD() }

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
// order of the tasks, whatever finished first. The error joins those of the
// tasks that failed; every task has its result all the same. A mistake in any of
// the tasks is an error without results, and nothing runs.
func (c *Compute) Gather(tasks ...Task) ([]Result, error) {
	b, err := c.batch(tasks)
	if err != nil {
		return nil, err
	}
	defer b.close()
	b.submit()
	return b.collect()
}

// Broadcast runs the task on every node that is ready, at the same time as far
// as slots are free, and returns the results in rank order. The error joins those that
// failed. A node that is lost meanwhile fails its share: it is not done twice.
func (c *Compute) Broadcast(task Task) ([]Result, error) {
	if err := c.check(task); err != nil {
		return nil, err
	}
	b := c.newBatch()
	defer b.close()
	if err := b.everywhere(task); err != nil {
		return nil, err
	}
	return b.collect()
}

// Stream runs the tasks, each on one node, and yields every result with its
// error as tasks finish. Leaving the loop cancels the rest, and returns when
// that has been done on the nodes. A mistake in a task is yielded once, with an
// empty result of index -1, and nothing runs.
func (c *Compute) Stream(tasks ...Task) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		b, err := c.batch(tasks)
		if err != nil {
			yield(Result{Index: -1}, err)
			return
		}
		defer b.close()
		b.submit()
		for range b.units {
			r := <-b.results
			if !yield(r, r.Err) {
				return
			}
		}
	}
}

// Start begins a task in the background. A mistake in the task is what the
// job's Wait returns.
func (c *Compute) Start(task Task) *Job {
	j := &Job{done: make(chan struct{})}
	b, err := c.batch([]Task{task})
	if err != nil {
		j.result = Result{Index: -1, Err: err}
		j.cancel = func() {}
		close(j.done)
		return j
	}
	j.id, j.cancel = b.units[0].id, b.cancel
	b.submit()
	c.p.background.Go(func() {
		defer close(j.done)
		defer b.close()
		j.result = <-b.results
	})
	return j
}

// A Job is a task that runs in the background.
type Job struct {
	id     string
	cancel func()
	done   chan struct{}
	result Result
}

// ID returns the task's id, unique in the pool. It is empty where the task was refused.
func (j *Job) ID() string { return j.id }

// Done is closed when the job is over.
func (j *Job) Done() <-chan struct{} { return j.done }

// Cancel ends the job, on the node too. Wait returns once that is done.
func (j *Job) Cancel() { j.cancel() }

// Wait returns the job's result when it is over, with the result's Err.
func (j *Job) Wait() (Result, error) {
	<-j.done
	return j.result, j.result.Err
}

// check reports what is wrong with tasks before any of them is queued.
func (c *Compute) check(tasks ...Task) error {
	if err := context.Cause(c.p.ctx); err != nil {
		return c.p.closedError()
	}
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	var errs []error
	for i, t := range tasks {
		err := t.Validate()
		if err == nil && t.call != nil {
			err = functionReady(t.call.function)
		}
		if err == nil && t.call != nil {
			if _, encErr := t.call.encode(); encErr != nil {
				err = &Error{Op: "call " + t.call.function, Kind: ErrInvalid, Err: fmt.Errorf("argument: %w", encErr)}
			}
		}
		if err != nil && len(tasks) > 1 {
			err = fmt.Errorf("%s: %w", t.label(i), err)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// A batch is the tasks of one call.
type batch struct {
	c       *Compute
	ctx     context.Context
	cancel  func()
	stop    func() bool
	units   []*unit
	results chan Result // has room for every unit
}

func (c *Compute) newBatch() *batch {
	ctx, cancel := context.WithCancelCause(c.ctx)
	b := &batch{c: c, ctx: ctx, cancel: func() { cancel(context.Canceled) }}
	b.stop = context.AfterFunc(c.p.ctx, func() { cancel(context.Cause(c.p.ctx)) })
	return b
}

func (c *Compute) batch(tasks []Task) (*batch, error) {
	if err := c.check(tasks...); err != nil {
		return nil, err
	}
	b := c.newBatch()
	b.results = make(chan Result, len(tasks))
	for i, t := range tasks {
		b.units = append(b.units, b.unit(i, t))
	}
	return b, nil
}

func (b *batch) unit(index int, t Task) *unit {
	return &unit{
		id: b.c.p.nextTask(), index: index, task: t, label: t.label(index),
		ctx: b.ctx, results: b.results, over: make(chan struct{}),
	}
}

func (b *batch) submit() { b.c.p.submit(b.units) }

// everywhere queues the task on each node that is ready now.
func (b *batch) everywhere(t Task) error {
	p := b.c.p
	p.mu.Lock()
	defer p.mu.Unlock()
	members := p.readyLocked()
	if len(members) == 0 {
		return p.noNodesLocked()
	}
	b.results = make(chan Result, len(members))
	for i, n := range members {
		u := b.unit(i, t)
		u.pin, u.members = n, members
		if t.Name == "" {
			u.label = fmt.Sprintf("node %d", n.rank)
		}
		b.units = append(b.units, u)
	}
	p.submitLocked(b.units)
	return nil
}

// collect waits for every unit.
func (b *batch) collect() ([]Result, error) {
	results := make([]Result, len(b.units))
	errs := make([]error, len(b.units))
	for range b.units {
		r := <-b.results
		results[r.Index], errs[r.Index] = r, r.Err
	}
	return results, errors.Join(slices.DeleteFunc(errs, func(e error) bool { return e == nil })...)
}

// close cancels what has not finished and waits until it has.
func (b *batch) close() {
	b.cancel()
	for _, u := range b.units {
		<-u.over
	}
	b.stop()
}
