package scheduler

import "time"

// MaxNodeLosses is how many nodes may be lost under a task before it fails.
const MaxNodeLosses = 3

// Work does a task. The scheduler calls Attempt, Cancelled and Stranded without
// its lock, and never two of them at a time; Queued and Refused are called with it.
type Work interface {
	// Queued is called when the task was accepted.
	Queued()
	// Attempt makes one attempt in a slot of a node, or with units of it: Node.Units then returns those for the number
	// in place of a slot's. If the work goes on after that, gone is closed when it is over, and what it holds is not used
	// before; else gone is nil.
	Attempt(n *Node, slot int) (o Outcome, gone <-chan struct{})
	// Cancelled ends a task that waited when its context ended.
	Cancelled()
	// Stranded ends a task that waited, and that no node will run. n is the node that it
	// was pinned to, or nil.
	Stranded(n *Node, why error)
	// Refused ends a task that came after Close.
	Refused()
}

// An Outcome is the result of one attempt at a task. The attempt ends with Again or End.
type Outcome interface {
	// Failure returns how the attempt failed.
	Failure() Failure
	// Again records that another attempt follows. It reports false if none can.
	Again(wait time.Duration) bool
	// End makes the outcome the task's.
	End()
}

// A Failure is the effect of a failed attempt on the next one.
type Failure int

const (
	// None is success: the task ends.
	None Failure = iota
	// Final ends the task whatever its retries are.
	Final
	// Failed counts against the task's retries.
	Failed
	// Lost counts against MaxNodeLosses, and ends a task that is pinned to a node.
	Lost
)

// A Task is one task of a batch, from its submission to its end. Batch.Add makes it one.
type Task struct {
	// Attempts counts how often the task was started, Failures how often it failed by itself,
	// and Losses how often its node was lost. They belong to the goroutine that runs the task.
	Attempts, Failures, Losses int

	work    Work
	batch   *Batch
	index   int
	retries int
	target  Target
	pin     *Node         // the node that must run it; nil if others may
	over    chan struct{} // closed when the result is certain

	units  int32  // how many it holds on its node; zero for a slot
	queued bool   // it waits in a queue; guarded by the scheduler's lock
	turn   uint64 // that of its batch when it started last, zero before; guarded by the scheduler's lock
}

// PinTo makes the task run on one node only. It is called before the task is submitted, or by the attempt at it.
func (t *Task) PinTo(n *Node) { t.pin = n }

// Over is closed when the task's result is certain.
func (t *Task) Over() <-chan struct{} { return t.over }

// IsOver reports whether the task's result is certain.
func (t *Task) IsOver() bool {
	select {
	case <-t.over:
		return true
	default:
		return false
	}
}

// End records that the task's result is certain, and that so many bytes of it are about to wait until Batch.Taken. It
// is called once.
func (t *Task) End(bytes int64) {
	close(t.over)
	t.batch.unread.add(bytes)
}

// IsLast reports whether an attempt that fails so is the task's last one.
func (t *Task) IsLast(f Failure) bool {
	switch f {
	case Lost:
		return t.pin != nil || t.Losses >= MaxNodeLosses
	case Failed:
		return t.Failures >= t.retries
	}
	return true
}

// again decides whether another attempt follows one that failed, and after which pause.
func (t *Task) again(f Failure) (pause time.Duration, again bool) {
	again = !t.IsLast(f)
	switch f {
	case Lost:
		t.Losses++
	case Failed:
		t.Failures++
		pause = pauseAfter(t.Failures)
	}
	return pause, again && t.batch.ctx.Err() == nil
}

// pauseAfter grows from half a second to half a minute.
func pauseAfter(failures int) time.Duration {
	return min(500*time.Millisecond<<min(failures-1, 10), 30*time.Second)
}
