package scheduler

import (
	"context"
	"sync"
)

// A Batch is the tasks of one call, which share a context and take turns with other
// batches. It is filled by one goroutine, which then calls Submit or Run.
type Batch struct {
	s       *Scheduler
	ctx     context.Context
	cancel  context.CancelCauseFunc
	tasks   []*Task
	only    [1]*Task      // what tasks is in, if it is one
	unread  *unread       // nil unless Bound
	unwatch func() bool   // stops watching for the end of the context, unless it has come
	watched chan struct{} // closed when the tasks that waited then are cancelled

	mu       sync.Mutex
	contexts map[*Node]context.Context // ctx, until the node is given up
	stops    []func() bool             // of what watches the other context and the nodes
}

// NewBatch returns a batch without tasks, whose context ends with either of two.
func (s *Scheduler) NewBatch(ctx, also context.Context) *Batch {
	b := &Batch{s: s}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.tasks = b.only[:0]
	if also != ctx {
		b.stops = append(b.stops, context.AfterFunc(also, func() { b.cancel(context.Cause(also)) }))
	}
	return b
}

// Add makes t a task of the batch, which may fail by itself and be started again so often.
func (b *Batch) Add(t *Task, w Work, index, retries int, target Target) {
	t.work, t.batch, t.index, t.retries, t.target, t.over = w, b, index, retries, target, make(chan struct{})
	b.tasks = append(b.tasks, t)
}

// Bound keeps further tasks from starting while too many results wait for Taken: see UnreadResults.
func (b *Batch) Bound() { b.unread = &unread{} }

// Taken records that a result of so many bytes was taken, in a batch with Bound.
func (b *Batch) Taken(bytes int64) {
	if b.unread.take(bytes) {
		b.s.resume(b.unread)
	}
}

// Context ends with the batch.
func (b *Batch) Context() context.Context { return b.ctx }

// ContextOn returns what ends with the batch or with life, the context of a node.
func (b *Batch) ContextOn(n *Node, life context.Context) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	ctx := b.contexts[n]
	if ctx == nil {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(b.ctx)
		b.stops = append(b.stops, context.AfterFunc(life, func() { cancel(context.Cause(life)) }))
		if b.contexts == nil {
			b.contexts = map[*Node]context.Context{}
		}
		b.contexts[n] = ctx
	}
	return ctx
}

// Submit queues the tasks.
func (b *Batch) Submit() {
	b.s.Submit(b.tasks...)
	b.Watch()
}

// SubmitLocked is Submit for a caller that holds the scheduler's lock.
func (b *Batch) SubmitLocked() {
	b.s.submit(b.tasks)
	b.Watch()
}

// RunHere runs the only task of the batch in the caller's goroutine, if a slot is free now: passing a short task to
// another goroutine costs as much as the task. It returns after one attempt; a retry is queued. It reports false if no
// slot was free.
func (b *Batch) RunHere() bool {
	if len(b.tasks) != 1 || !b.s.runHere(b.tasks[0]) {
		return false
	}
	if !b.IsOver() { // another attempt follows
		b.Watch()
	}
	return true
}

// Watch makes the end of the context cancel the tasks that wait. Submit and RunHere call it; the caller calls it for
// tasks that run already, or that Scheduler.Submit is to queue.
func (b *Batch) Watch() {
	b.watched = make(chan struct{})
	b.unwatch = context.AfterFunc(b.ctx, func() {
		defer close(b.watched)
		b.abandon()
	})
}

// abandon cancels the tasks that wait.
func (b *Batch) abandon() {
	var waited []*Task
	b.s.lock.Lock()
	for _, t := range b.tasks {
		if t.queued {
			b.s.queues.leave(t)
			waited = append(waited, t)
		}
	}
	b.s.refill()
	b.s.lock.Unlock()
	for _, t := range waited {
		t.work.Cancelled()
	}
}

// IsOver reports whether every task is over.
func (b *Batch) IsOver() bool {
	for _, t := range b.tasks {
		if !t.IsOver() {
			return false
		}
	}
	return true
}

// Cancel ends the tasks, also those that run.
func (b *Batch) Cancel() { b.cancel(context.Canceled) }

// Fail ends the tasks because of one that failed. Why is then the cause of the end of the context, unless that has ended
// before.
func (b *Batch) Fail(why error) { b.cancel(why) }

// Close cancels what has not finished and waits for its end. It drops the batch's references to nodes: a batch that is
// kept would keep them, and their connections.
func (b *Batch) Close() {
	stopped := b.unwatch == nil || b.IsOver() && b.unwatch()
	b.Cancel()
	for _, t := range b.tasks {
		<-t.over
	}
	if !stopped && !b.unwatch() {
		<-b.watched
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, stop := range b.stops {
		stop()
	}
	b.contexts, b.stops = nil, nil
	for _, t := range b.tasks {
		t.pin = nil
	}
}
