package gputrain

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/gputrain/gputrain/internal/invalid"
)

// Compute is a pool of nodes, as [Open] returns it. Its methods can be called concurrently.
//
// The calls of a pool share its slots. When a slot of a node is free, three kinds of waiting tasks
// take turns: shares of a Broadcast, tasks with a [Target], and tasks that may run on any node.
// Within a kind the calls take turns, one task each; each Run, Gather, Stream, Start or Broadcast
// is a call. Within a call tasks start in their order, and a task that is started again keeps its
// place. So a Run waits for one task of an earlier Gather, not for all of it, and no kind of task
// keeps another one from running. Tasks that wait for one another belong in a Broadcast: the tasks
// of a Gather may have to run one by one.
//
// A task with [Task].Accelerators holds devices instead of a slot, and a task in a slot holds the slot's part of the
// devices. It starts on the first node, by rank, that has as many free. Tasks that need less may overtake it, also those
// of its own call, but only until it is the oldest: of the tasks that share its Target the one whose turn it is. Then the
// node that has most devices free of those that are large enough is reserved for it, and nothing else starts there until
// it has started, there or on another node. So it waits, once it is the oldest, for the tasks that run on one node at
// most. A task in a slot, whose devices are in use, does the same.
type Compute struct {
	p   *pool
	ctx context.Context // the pool's own, or that of WithContext
}

// ID returns the pool's ID, by which everything made for it is tagged.
func (c *Compute) ID() string { return c.p.id }

// WithContext returns the same pool with another context for the tasks that are called through it:
// when ctx ends, those tasks are cancelled, on the nodes too. The pool itself goes on.
//
// Calls return at once then, within half a second, whatever the nodes do. What a call has begun on the nodes
// ends without it: its slots are free once it has ended, Close waits for that, and [Attach] does not go on with
// it. A result that has not come by then is that of a cancelled task. Two kinds of calls may take longer. A
// task with Outputs that come in any case (DropIfCancelled is not set), or with Checkpoints, has asked for
// files, and its call waits for them: a minute at most. [Compute.Train] waits three seconds at most for nodes
// that answer. [Job.Wait] returns once the job is over. If ctx is nil, all calls fail.
func (c *Compute) WithContext(ctx context.Context) *Compute {
	return &Compute{p: c.p, ctx: invalid.OrEnded("call", ctx)}
}

// Sync returns once the functions of [WithEvents], [WithLines] and the like have all that was to be told before the call, such as
// the end of a task whose result a call has returned: they run beside the calls. It is not for such a function itself, which
// would wait for its own end. The error is that of the context.
func (c *Compute) Sync() error {
	for _, t := range c.p.lines.takers {
		if err := t.Sync(c.ctx); err != nil {
			return err
		}
	}
	return c.p.events.sync(c.ctx)
}

// Nodes returns the nodes in rank order, as they are now.
func (c *Compute) Nodes() []Node { return c.p.snapshot() }

// CostUSD returns what the pool has cost so far, as far as prices are known.
func (c *Compute) CostUSD() float64 { return c.p.spending.USD() }

// Cost returns what the pool costs, node by node, and what it costs at most if this program dies
// now.
func (c *Compute) Cost() Cost { return c.p.cost() }

// Close ends the pool: its tasks are cancelled, every machine is terminated and
// everything made for it removed. It returns when the provider has confirmed
// that, or a *LeakError that names what is left. Machines that were adopted are
// left as they were found. Closing twice is the same as once.
//
// If tasks with [Task].Outputs run, Close first waits for their end and for those files, for a
// minute at most, during which the machines are billed. Task.DropIfCancelled does without.
func (c *Compute) Close() error { return c.p.close() }

// Resize changes the number of nodes. It returns when n nodes are ready and no more are left. Ranks
// whose node was lost or failed for good are tried again. If the pool becomes smaller, idle nodes
// end first, and the others once they have finished what they run; which nodes keep their ranks is
// not specified. In an elastic pool n replaces Spec.Nodes: nodes above n end by Spec.IdleTimeout.
func (c *Compute) Resize(n int) error {
	if n < 0 || n == 0 && c.p.spec.MaxNodes == 0 {
		return &Error{Op: "resize", Kind: ErrInvalid, Err: fmt.Errorf("a pool of %d nodes; Close ends it, and with Spec.MaxNodes it can be empty", n)}
	}
	if err := c.check(); err != nil {
		return err
	}
	return c.p.fleet.Resize(c.ctx, n)
}

// Run runs one task on one node and returns its result. The error is usually a [*TaskError], and
// the result then still holds what is known.
func (c *Compute) Run(task Task) (Result, error) {
	results, err := c.Gather(task)
	if len(results) == 0 {
		return Result{}, err
	}
	return results[0], results[0].Err
}

// Gather runs the tasks, each on one node, and returns their results in the order of the tasks. The
// error wraps the errors of all tasks that failed, for errors.Is and errors.As; if more than ten
// failed, its text has a count and a line for each of the first ten. Every task still has its
// result, and all results are in memory at the end: see Stream for many large results. A mistake in
// any of the tasks is an error without results, and nothing runs.
func (c *Compute) Gather(tasks ...Task) ([]Result, error) {
	b, err := c.batch(tasks)
	if err != nil {
		return nil, err
	}
	defer b.leave()
	b.run()
	return b.collect()
}

// Broadcast runs the task on every node that is ready and that its Target allows, at the same time
// as far as slots are free, and returns the results in rank order. The error is like Gather's. If a
// node is lost meanwhile, its share fails: it is not run again. If no such node is ready, Broadcast
// returns an error without results: [ErrNodeLost] if all were lost, and [ErrUnavailable] if one is
// still coming up, for which it does not wait. An elastic pool without nodes is the exception: it
// first gets one, or as many as a Target by rank asks for.
func (c *Compute) Broadcast(task Task) ([]Result, error) {
	if err := c.check(task); err != nil {
		return nil, err
	}
	if !task.Checkpoints.IsZero() {
		return nil, &Error{Op: "broadcast", Kind: ErrInvalid, Err: errors.New("its shares would all write the Checkpoints of one name"), Hint: "use Train, which joins the parts of all nodes"}
	}
	b := c.newBatch()
	defer b.leave()
	tasks, err := b.resolved(task)
	if err != nil {
		return nil, err
	}
	if err := c.p.fleet.Wake(c.ctx, task.Target.allows, task.Accelerators); err != nil {
		return nil, err
	}
	if err := b.everywhere(tasks[0]); err != nil {
		return nil, err
	}
	return b.collect()
}

// Stream runs the tasks, each on one node, and yields every result with its error as tasks finish.
// Nothing runs before the loop begins. Leaving the loop cancels the rest, and returns when the
// nodes have ended it. A mistake in a task is yielded once, with an empty result of index -1, and
// nothing runs.
//
// A loop that is slower than the tasks slows them down: while 1000 results, or results of 64 MiB,
// wait for it, no further task of the stream starts. Running tasks go on, and at most one more
// starts in each of their slots. A result's size is what it holds in memory: Stdout, Stderr and the
// value of a function. Meanwhile slots are free for other calls, also for calls from within the
// loop.
func (c *Compute) Stream(tasks ...Task) iter.Seq2[Result, error] {
	return func(yield func(Result, error) bool) {
		b, err := c.batch(tasks)
		if err != nil {
			yield(Result{Index: -1}, err)
			return
		}
		defer b.leave()
		b.Bound()
		b.submit()
		for range b.units {
			r := b.next()
			b.Taken(r.size())
			if !yield(r, r.Err) {
				return
			}
			if !b.caller.Gone() {
				c.p.handed(b.units[r.Index])
			}
		}
	}
}

// check returns an error for invalid tasks before any of them is queued.
func (c *Compute) check(tasks ...Task) error {
	if err := context.Cause(c.p.ctx); err != nil {
		return c.p.fleet.ClosedError()
	}
	if err := c.ctx.Err(); err != nil {
		return context.Cause(c.ctx)
	}
	if err := context.Cause(c.p.tasksCtx); err != nil && len(tasks) > 0 {
		return err
	}
	var errs []error
	ready := ""        // the last function that was found callable
	possible := Task{} // the last one whose Target and Accelerators were found possible
	for i, t := range tasks {
		err := t.Validate()
		if err == nil {
			err = c.p.given.check(t)
		}
		if err == nil && t.call != nil {
			err = t.call.refused
		}
		if err == nil && t.call != nil && t.call.function != ready {
			if err = functionReady(t.call.function); err == nil {
				ready = t.call.function
			}
		}
		if err == nil && t.call != nil {
			err = t.call.encodable()
		}
		if err == nil && (t.Accelerators != possible.Accelerators || !t.Target.allows.Equal(possible.Target.allows)) {
			if err = c.p.impossible(t); err == nil {
				possible = t
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
