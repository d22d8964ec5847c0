package gputrain

import (
	"log/slog"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/printable"
)

// An Event is one change of state, of a pool, a node, a phase of its
// bootstrap, a task, or what the pool costs.
type Event struct {
	Time time.Time
	// Pool is the pool's ID.
	Pool string
	Kind EventKind
	// Node is the rank of the node that it is about, or -1: also where the program
	// is built for nodes of another platform.
	Node int
	// State is what was reached: a NodeState's name for EventNode, "opening",
	// "ready", "spent", "closing" or "closed" for EventPool, and "audit" where what
	// the provider holds could not be compared or ended yet, "settling" while it is waited
	// for what a call may have made that had no clean answer or, if Err is nil, for lists
	// that may lack what was made last, "launching" while offers refuse, with how many were
	// tried, "ledger" or
	// "journal" where these could not be written, "member" where one of a [Cheapest] or
	// [FirstOf] is left out; "started", "cached", "done" or
	// "failed" for EventPhase; "queued", "started", "done", "failed" or
	// "cancelled" for EventTask; "notice", then "done" or "failed" of Spec.OnPreemption,
	// or "spared" where nothing was taken back, for EventPreemption. A node of an elastic
	// pool that gets another rank tells its state once more.
	State string
	// Phase is the phase of the bootstrap, for EventPhase, or "build for" a
	// platform.
	Phase string
	// Task is the task's id, unique in the pool, Name what it is called, and
	// Attempt which attempt at it this is, for EventTask and EventRetry.
	Task, Name string
	Attempt    int
	// Elapsed is how long it took, where it is over; for EventPreemption, how long
	// the node has left.
	Elapsed time.Duration
	// HostKey and HostKeySource are the node's, as [Node] has them, for EventNode in the
	// states "bootstrapping" and "ready".
	HostKey       string
	HostKeySource HostKeySource
	// Until is when what is waited for is over at the latest, for "settling". Zero means
	// that there is no such time.
	Until time.Time
	// CostUSD is what the pool has cost so far, for EventCost.
	CostUSD float64
	// Omitted is how many events were left out, for EventOmitted.
	Omitted int
	// Err is what went wrong, without secrets and without what a terminal would act on.
	Err error
}

// An EventKind says what an Event is about.
type EventKind int

const (
	// EventPool is a change of the pool as a whole.
	EventPool EventKind = iota
	// EventNode is a change of a node.
	EventNode
	// EventPhase is a phase of a node's bootstrap, or of building the program
	// that nodes of another platform run.
	EventPhase
	// EventTask is a change of a task.
	EventTask
	// EventRetry is a task that will be started again, and why.
	EventRetry
	// EventCost says what the pool has cost so far: whenever a node begins or
	// ends to be paid for.
	EventCost
	// EventPreemption says that a node's provider will take it back, and in Elapsed
	// how soon.
	EventPreemption
	// EventOmitted stands where events were left out since too many waited for a slow
	// function of WithEvents: see [BacklogEvents].
	EventOmitted
)

// String returns the kind in lower case: "node".
func (k EventKind) String() string {
	return nameOf(k, "pool", "node", "phase", "task", "retry", "cost", "preemption", "omitted")
}

// events hands events to the user's callback and logger, one at a time, in
// order, without ever making the pool wait for them. What waits is bounded.
type events struct {
	pool string
	sink func(Event)
	log  *slog.Logger

	mu       sync.Mutex
	progress *openProgress // nil once the pool is open
	queue    eventQueue
	wake     chan struct{}
	closed   bool
	done     chan struct{}
}

func newEvents(pool string, sink func(Event), log *slog.Logger) *events {
	e := &events{pool: pool, sink: sink, log: log, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go e.deliver()
	return e
}

func (e *events) emit(ev Event) {
	ev.Time, ev.Pool = time.Now(), e.pool
	e.mu.Lock()
	progress := e.progress
	e.mu.Unlock()
	if progress != nil {
		progress.note(ev)
	}
	if e.sink == nil && e.log == nil {
		return
	}
	if ev.Err != nil {
		ev.Err = reworded(ev.Err, printable.Text(ev.Err.Error()))
	}
	if ev.Kind == EventPool || ev.Kind == EventCost {
		ev.Node = -1
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return
	}
	e.queue.push(ev)
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// opened ends the keeping of what an Open that is cut short would have waited for.
func (e *events) opened() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress = nil
}

// close returns when every event has been delivered.
func (e *events) close() {
	e.mu.Lock()
	if !e.closed {
		e.closed = true
		close(e.wake)
	}
	e.mu.Unlock()
	<-e.done
}

func (e *events) deliver() {
	defer close(e.done)
	for range e.wake {
		e.flush()
	}
	e.flush()
}

// flush hands over what has come. It holds no lock meanwhile: the callback may
// ask the pool for its nodes.
func (e *events) flush() {
	for {
		e.mu.Lock()
		ev, ok := e.queue.pop()
		e.mu.Unlock()
		if !ok {
			return
		}
		e.hand(ev)
	}
}

func (e *events) hand(ev Event) {
	if e.sink != nil {
		e.sink(ev)
	}
	if e.log != nil {
		ev.log(e.log)
	}
}

// log writes the event as a fixed message with attributes.
func (ev Event) log(l *slog.Logger) {
	attrs := []any{"pool", ev.Pool}
	add := func(key string, value any, on bool) {
		if on {
			attrs = append(attrs, key, value)
		}
	}
	add("rank", ev.Node, ev.Node >= 0)
	add("state", ev.State, ev.State != "")
	add("phase", ev.Phase, ev.Phase != "")
	add("hostKey", ev.HostKey, ev.HostKey != "")
	add("hostKeySource", ev.HostKeySource.String(), ev.HostKey != "")
	add("task", ev.Task, ev.Task != "")
	add("name", ev.Name, ev.Name != "")
	add("attempt", ev.Attempt, ev.Attempt > 0)
	add("elapsed", ev.Elapsed, ev.Elapsed > 0)
	add("until", ev.Until, !ev.Until.IsZero())
	add("usd", ev.CostUSD, ev.Kind == EventCost)
	add("omitted", ev.Omitted, ev.Omitted > 0)
	if ev.Err != nil {
		l.Warn(ev.Kind.String(), append(attrs, "error", ev.Err.Error())...)
		return
	}
	l.Info(ev.Kind.String(), attrs...)
}
