package gputrain

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gputrain/gputrain/internal/opening"
	"github.com/gputrain/gputrain/internal/output"
	"github.com/gputrain/gputrain/internal/printable"
	"github.com/gputrain/gputrain/internal/tally"
	"github.com/gputrain/gputrain/internal/transfer"
	"github.com/gputrain/gputrain/internal/watchdog"
)

// An Event is one change: of a pool, a node, a phase of its bootstrap, a task, or what the pool costs. Its Kind says which
// fields it has beside the first ones.
type Event struct {
	// Seq numbers the events of a pool in a program, from 1. If events were left out, numbers are missing: see
	// [EventOmitted], [EventProgress] and [WithSampledEvents].
	Seq  int64
	Time time.Time
	// Pool is the pool's ID.
	Pool string
	Kind EventKind
	// State is the state that was reached, a word that stays the same: each kind lists its own.
	State string
	// Node is the rank of the node that the event is about, or -1 if there is none. At is that node as it was then; its ID is
	// empty while no machine is known.
	Node int
	At   Node
	// Err is the error, without secrets and without characters that control a terminal.
	Err error

	// Elapsed is how long it took, if it is over; for EventWait, EventTransfer and "idle", how long it has lasted; for
	// EventPreemption, how long the node has left; for "queued" and "started" of EventTask, how long ago that was, if
	// [WithSampledEvents] has it later.
	Elapsed time.Duration
	// Until is when the wait ends at the latest, for EventWait; when the pool ends, for "idle"; and when the node ends itself
	// unless its lease is renewed, for "ready" of EventNode. Zero means that there is no such time.
	Until time.Time

	// For EventTask, EventRetry, EventStep, and EventTransfer of a task's Outputs and Checkpoints, Task is the task's ID,
	// which is unique in the pool, Name its name, and Attempt the number of the attempt. For EventTraining, and
	// for EventStep and "lagging" of a training, Name is the training's, and Attempt the gang's, from 1.
	Task, Name string
	Attempt    int
	// Ended says how an attempt at a task has ended: for EventRetry, the last EventTask of a task that has run, and "restarting"
	// and "done" of EventTraining.
	Ended *AttemptEnd
	// Nodes are the ranks of the nodes that a gang runs on, by its own ranks, for "running" of EventTraining. It must not be
	// changed.
	Nodes []int

	// Phase is the phase of the bootstrap, for EventPhase and EventProgress, "build for" a platform, "baked image" for
	// what a node takes over from the image that it was started from, or "bake" for [Bake]'s own. For
	// EventTransfer of an Image's files it is "files".
	Phase string
	// Usual is how long the phase usually takes, for "started" of EventPhase: the median of its last five runs with the same
	// content, one for each pool of this state directory. Zero means unknown.
	Usual time.Duration
	// Progress is how far a phase has come, for EventProgress.
	Progress Progress
	// HostKey and HostKeySource are the node's, as [Node] has them, for EventNode in the
	// states "bootstrapping" and "ready".
	HostKey       string
	HostKeySource HostKeySource

	// For EventTransfer, Path is the path on the node, as the call named it; it is empty for an Image's
	// files and a task's Outputs, and the name of one of its Checkpoints. Bytes have moved so far, of TotalBytes: of content
	// that was not on the other side before. TotalBytes is 0 if the whole is not known, as for a folder that is
	// downloaded. BytesPerSecond is the rate since the last event of the transfer, and in the last event that
	// of all of it. A transfer that starts again after a lost connection counts again too.
	Path              string
	Bytes, TotalBytes int64
	BytesPerSecond    float64

	// Offer is what was offered, for EventOffer.
	Offer *Offer
	// Cost is what the pool costs, for EventCost, and for "closed" and "detached" of EventPool, which alone have its Nodes.
	Cost *Cost
	// Spec is the pool's spec, without the values of secrets: for "opening" and "attaching" of EventPool. It must not be changed.
	Spec *Spec

	// Step is what a task reported, for EventStep.
	Step Step
	// Usage describes what the node does, for EventUsage of state "sample".
	Usage Usage
	// Omitted is how many events were left out, for EventOmitted.
	Omitted int
	// Tally counts tasks that are not reported one by one, for EventTally.
	Tally *Tally
}

// A Tally counts the tasks of which [WithSampledEvents] reports no events.
type Tally struct {
	// Waiting and Running are how many of them wait and run now.
	Waiting, Running int
	// Ended are those that have ended since the last Tally, by name and node.
	Ended []TallyEnded
}

// A TallyEnded sums up tasks that have ended.
type TallyEnded struct {
	// Name is their name. If very many names end at a time, it is empty for some.
	Name string
	// Node is the rank of the node that they ran on, or -1 for tasks that were cancelled before they ran.
	Node int
	// Done and Cancelled are how many there are, and Attempts how many have run.
	Done, Cancelled, Attempts int
	// Elapsed is the sum of their times, and CostUSD of what is known of their costs.
	Elapsed time.Duration
	CostUSD float64
}

// An AttemptEnd says how an attempt at a task has ended.
type AttemptEnd struct {
	// Cause is why it failed, if the event has an Err.
	Cause Cause
	// ExitCode is the command's, or -1 if there is none.
	ExitCode int
	// Slot is the slot of the node that it held.
	Slot int
	// CostUSD is the cost of all attempts at the task so far, or unknown.
	CostUSD Price
}

// Progress is how far something has come that has a known end: Done of Total, counted in Unit.
type Progress struct {
	// What names it: "download", "install", "pull".
	What string
	// Done of Total are over. Total is zero if it is not known.
	Done, Total int64
	// Unit is what is counted: "packages", "layers", "By" for bytes, "%".
	Unit string
}

// An EventKind says what an Event is about.
type EventKind int

const (
	// EventPool is a change of the pool as a whole: "opening", or "attaching" by [Attach]; "ready"; "spent" if its budget is
	// spent; "closing", with Err if it could not be opened, or ends by itself; and as the last event "closed", or "detached" if [Compute.Detach] leaves it.
	EventPool EventKind = iota
	// EventNode is a change of a node. State is a NodeState's name. A node of an elastic pool that gets another
	// rank reports its state once more, and so does a ready one with every tenth renewal of its lease.
	EventNode
	// EventPhase is a phase of a node's bootstrap, or of building the program
	// that nodes of another platform run: "started", "cached", "done" or "failed".
	EventPhase
	// EventTask is a change of a task: "queued", "started", also by [Attach] which has found that it runs, "done", "failed" or "cancelled", or "silent" (see
	// Task.StallTimeout).
	EventTask
	// EventRetry is a task that will be started again, and why.
	EventRetry
	// EventCost reports what the pool has cost so far, and costs at most, whenever the billing of a node begins or ends, or
	// its price changes, a node has its lease, or a task holds one.
	EventCost
	// EventPreemption reports that a node's provider will take it back, and how soon, as Elapsed: "notice", then "done"
	// or "failed" of Spec.OnPreemption, or "spared" if the machine was not taken back.
	EventPreemption
	// EventTransfer reports how far an Upload, a Download, the files of an Image or a task's Outputs have
	// come, on one node: twice a second at most, once the transfer has lasted a second, and then its
	// end. It also reports, with Err, that Outputs could not come while their task runs: see
	// Task.SyncEvery. State is "sending" or "receiving", and then "done" or "failed".
	EventTransfer
	// EventTraining is a change of a [Training]: "waiting", "starting", "running" with the checkpoint that it goes on from as
	// Path, "failing" with the root cause as Err, "restarting" or "done"; "checkpoint" once one is on this computer, whose
	// name is Path, or with Err if it could not come; and "preflight" for what may slow the gang down.
	EventTraining
	// EventStep is a step that a task or a training has reported: one a second at most.
	EventStep
	// EventUsage is a "sample" of what a node's accelerators do, every ten seconds, and of its processors, see [WithUsage]; a
	// "fault" with Err as soon as an accelerator fails, or may fail soon; "lagging" for a process that is behind the others,
	// or a device that is slower than they are; or "idle" after half of Spec.IdleTimeout.
	EventUsage
	// EventOmitted takes the place of events that were left out because too many waited for
	// a slow function of WithEvents: see [WithEvents].
	EventOmitted
	// EventOffer is an offer that is tried for machines: "trying", then "taken" if it has had room for some, or "refused" with
	// Err.
	EventOffer
	// EventProgress is how far a phase has come that can say it: four times a second at most, after the first four. Of those that wait for a slow
	// function of WithEvents, it gets the newest of each phase.
	EventProgress
	// EventWait says what the pool waits for, as Err: "capacity" while nodes wait for room, quota or a price, see
	// Spec.WaitForCapacity; "settling" while it waits to see what a call without a clean answer has made or, if Err is nil,
	// until the provider's lists are complete; "launching" while offers refuse, with how many were tried; "machine" with each
	// new reason that the provider gives for a Node's machine that has not come up, such as its place in a queue.
	EventWait
	// EventTally counts the tasks that are not reported one by one: see [WithSampledEvents].
	EventTally
	// EventTrouble reports a failure that no call returns. State says of what: "audit" if the
	// provider's list could not be compared with the pool's, or a stray machine not be ended
	// yet; "stranger" if a machine that has the pool's tag is not the pool's, see [Reap], and was left alone;
	// "ledger", "journal", "history" or "ssh config" if these
	// could not be written; "upload" if files vanished from a folder while it was sent, and were left out; "forward" if a connection of a [Forwarding] could not be led to its node;
	// "guardian" if none can end the pool should this program die, see
	// [WithoutGuardian]; "member" if a member of [Cheapest] or [FirstOf] is left out; "accelerator" if a node's driver
	// says something of a device that the node goes without; "image" if nodes
	// start from the usual image, since the baked one is gone. Without Err, "guardian" says that there is one.
	EventTrouble
)

// String returns the kind in lower case: "node".
func (k EventKind) String() string {
	return nameOf(k, "pool", "node", "phase", "task", "retry", "cost", "preemption", "transfer", "training", "step", "usage", "omitted", "offer", "progress", "wait", "tally", "trouble")
}

// These bound how many events of a kind may wait for the function of [WithEvents].
const (
	backlogEvents   = 100_000 // routine ones, and as many others
	backlogFailures = 10_000  // failures and retries of tasks
)

// Of eventKept there are a few of each pool, and none is left out.
const eventKept, eventRoutine, eventFailure, eventOther output.Class = 0, 1, 2, 3

// eventBacklog says which events are left out if too many wait.
var eventBacklog = output.Backlog[Event]{
	Most:  []int{eventKept: 0, eventRoutine: backlogEvents, eventFailure: backlogFailures, eventOther: backlogEvents},
	Class: (*Event).class,
	Mark: func(first *Event) Event {
		return Event{Seq: first.Seq, Time: first.Time, Pool: first.Pool, Kind: EventOmitted, Node: -1}
	},
	Omitted: func(ev *Event) *int {
		if ev.Kind != EventOmitted {
			return nil
		}
		return &ev.Omitted
	},
	Item: (*Event).item,
}

// item returns what an EventProgress has the newest report of, and "" for other events.
func (ev *Event) item() string {
	if ev.Kind != EventProgress {
		return ""
	}
	return strconv.Itoa(ev.Node) + " " + ev.Phase
}

func (ev *Event) class() output.Class {
	switch {
	case ev.Kind == EventTask && (ev.Err == nil || ev.State == "cancelled"), ev.Kind == EventPhase && ev.Err == nil, ev.Kind == EventCost, ev.Kind == EventTransfer, ev.Kind == EventStep, ev.Kind == EventProgress,
		ev.Kind == EventUsage && ev.Err == nil, ev.Kind == EventOffer && ev.Err == nil:
		return eventRoutine
	case ev.Kind == EventTask, ev.Kind == EventRetry:
		return eventFailure
	case ev.Kind == EventPool, ev.Kind == EventOmitted:
		return eventKept
	}
	return eventOther
}

// events hands a pool's events to the user's functions and logger: to each in order, and one at a time. Emitting one never
// blocks, and none of them waits for another.
type events struct {
	pool    string
	takers  []*output.Events[Event] // of all events
	sampled []*output.Events[Event] // of those of the tasks that tally shows
	tally   *tally.Tally            // nil without sampled
	silence watchdog.Silence        // of running tasks

	mu       sync.Mutex
	seq      int64
	progress *opening.Progress // nil after the pool has opened
}

func newEvents(pool string, sinks []func(Event), log *slog.Logger, sampled ...sample) *events {
	e := &events{pool: pool}
	for i, s := range sampled {
		if e.sampled = append(e.sampled, output.NewEvents(eventBacklog, s.f)); i == 0 || s.perSecond < sampled[0].perSecond {
			e.tally = tally.New(s.perSecond, e.tallied)
		}
	}
	for _, sink := range sinks {
		e.takers = append(e.takers, output.NewEvents(eventBacklog, sink)) // it may ask the pool for its nodes
	}
	if log != nil {
		e.takers = append(e.takers, output.NewEvents(eventBacklog, func(ev Event) { ev.log(log) }))
	}
	return e
}

// seen reports whether anyone takes events.
func (e *events) seen() bool { return len(e.takers)+len(e.sampled) > 0 }

// emit passes an event to all. What was counted before a change of the pool, or of a node, comes before it.
func (e *events) emit(ev Event) {
	if (ev.Kind == EventPool || ev.Kind == EventNode) && e.tally != nil {
		e.tally.Flush()
	}
	e.send(ev, true, true)
}

// tallied reports a count to those who get a sample of tasks.
func (e *events) tallied(c tally.Count) {
	t := &Tally{Waiting: c.Waiting, Running: c.Running}
	for _, one := range c.Ended {
		t.Ended = append(t.Ended, TallyEnded{one.Name, one.Node, one.Done, one.Cancelled, one.Attempts, one.Time, one.USD})
	}
	e.send(Event{Kind: EventTally, Node: -1, Tally: t}, false, true)
}

// send passes an event to those who get all events, to those who get a sample of tasks, or to both.
func (e *events) send(ev Event, all, sampled bool) {
	ev.Time, ev.Pool = time.Now(), e.pool
	if e.seen() {
		ev = ev.printable()
	}
	switch ev.Kind {
	case EventPool, EventCost, EventOffer, EventTrouble:
		ev.Node = -1
	}
	e.mu.Lock()
	defer e.mu.Unlock() // which gives every taker the same order
	e.seq++
	ev.Seq = e.seq
	if e.progress != nil {
		ev.noteIn(e.progress)
	}
	if all {
		for _, t := range e.takers {
			t.Emit(ev)
		}
	}
	if sampled {
		for _, t := range e.sampled {
			t.Emit(ev)
		}
	}
}

// printable returns the event with texts that can be shown and are not endless: any of them may be what a node or a provider says.
func (ev Event) printable() Event {
	err, spec := ev.Err, ev.Spec
	ev.Err, ev.Spec = nil, nil
	ev = printable.Each(ev, printable.Name)
	ev.At.labels = printable.Each(ev.At.labels, printable.Name)
	ev.Spec = printable.Each(spec, printable.Message) // commands have lines
	if ev.Err = err; err != nil {
		ev.Err = output.Reword(err, printable.Message(err.Error()))
	}
	return ev
}

// opened stops recording the progress that the error of a canceled Open reports.
func (e *events) opened() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.progress = nil
}

// sync returns once every event was delivered that was emitted before.
func (e *events) sync(ctx context.Context) error {
	if e.tally != nil {
		e.tally.Flush()
	}
	for _, t := range slices.Concat(e.takers, e.sampled) {
		if err := t.Sync(ctx); err != nil {
			return err
		}
	}
	return nil
}

// close returns when every event was delivered.
func (e *events) close() {
	for _, t := range slices.Concat(e.takers, e.sampled) {
		t.Close()
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
	add("usual", ev.Usual, ev.Usual > 0)
	add("hostKey", ev.HostKey, ev.HostKey != "")
	add("hostKeySource", ev.HostKeySource.String(), ev.HostKey != "")
	add("task", ev.Task, ev.Task != "")
	add("name", ev.Name, ev.Name != "")
	add("attempt", ev.Attempt, ev.Attempt > 0)
	add("path", ev.Path, ev.Path != "")
	add("bytes", ev.Bytes, ev.Kind == EventTransfer && ev.Err == nil)
	add("totalBytes", ev.TotalBytes, ev.TotalBytes > 0)
	add("bytesPerSecond", int64(ev.BytesPerSecond), ev.BytesPerSecond > 0)
	add("elapsed", ev.Elapsed, ev.Elapsed > 0)
	add("until", ev.Until, !ev.Until.IsZero() && ev.Kind != EventNode)
	if ev.Cost != nil {
		add("usd", ev.Cost.USD, ev.Kind == EventCost)
		add("usdPerHour", ev.Cost.HourlyUSD, ev.Cost.HourlyUSD > 0)
	}
	if ev.Offer != nil {
		attrs = append(attrs, "provider", ev.Offer.Provider, "instanceType", ev.Offer.InstanceType, "region", ev.Offer.Region, "price", ev.Offer.HourlyUSD.String())
	}
	if ev.Ended != nil {
		attrs = append(attrs, "exitCode", ev.Ended.ExitCode)
		add("cause", ev.Ended.Cause.String(), ev.Err != nil)
	}
	add("what", ev.Progress.What, ev.Progress.What != "")
	add("done", ev.Progress.Done, ev.Kind == EventProgress)
	add("total", ev.Progress.Total, ev.Progress.Total > 0)
	add("unit", ev.Progress.Unit, ev.Progress.Unit != "")
	add("omitted", ev.Omitted, ev.Omitted > 0)
	add("step", ev.Step.N, ev.Kind == EventStep)
	add("steps", ev.Step.Of, ev.Step.Of > 0)
	add("values", ev.Step.Values, len(ev.Step.Values) > 0)
	add("accelerators", ev.Usage.Accelerators, len(ev.Usage.Accelerators) > 0)
	switch {
	case ev.Err != nil:
		l.Warn(ev.Kind.String(), append(attrs, "error", ev.Err.Error())...)
	case ev.Kind == EventTransfer && ev.State != "done", ev.Kind == EventStep, ev.Kind == EventUsage, ev.Kind == EventProgress:
		l.Debug(ev.Kind.String(), attrs...)
	default:
		l.Info(ev.Kind.String(), attrs...)
	}
}

// transfer returns what is told how far a transfer is, and what is called at its end. The event describes it.
func (e *events) transfer(ev Event) (transfer.Progress, func(error)) {
	if !e.seen() {
		return nil, func(error) {}
	}
	ev.Kind = EventTransfer
	return transfer.Reporting(func(r transfer.Report) {
		ev.Bytes, ev.TotalBytes, ev.BytesPerSecond, ev.Elapsed = r.Bytes, r.Total, r.PerSecond, r.Elapsed
		switch {
		case r.Failed:
			ev.State = "failed" // the call, or the task, returns why
		case r.Over:
			ev.State = "done"
		}
		e.emit(ev)
	})
}

// noteIn notes the event, if it is of what an Open waits for.
func (ev Event) noteIn(g *opening.Progress) {
	switch {
	case ev.Kind == EventWait && ev.Node < 0:
		g.Waits(opening.Wait{State: ev.State, Until: ev.Until, Err: ev.Err})
	case ev.Kind == EventNode && ev.Node >= 0:
		g.Node(ev.Node, ev.State, ev.Time, ev.Err)
	case ev.Kind == EventPhase && ev.Node >= 0:
		g.Phase(ev.Node, ev.Phase, ev.State, ev.Time, ev.Err)
	}
}
