package gputrain

// While the function of [WithEvents], or a logger, is slower than events come, so many of
// them wait: BacklogEvents that are routine (a task that is queued, started, done or
// cancelled, a phase that succeeds, what the pool costs) and BacklogFailures that are a
// task's failure or its retry. Of more, the oldest half of that sort is left out, and an
// [EventOmitted] in its place counts them. All other events, of the pool, of nodes, of
// preemptions and of what went wrong there, wait without a bound.
const (
	BacklogEvents   = 100_000
	BacklogFailures = 10_000
)

// An eventQueue is events that wait for delivery, with a bound on those that may be many.
// Its zero value is empty.
type eventQueue struct {
	events []Event
	head   int // events before it are gone
	counts [eventSorts]int
}

// An eventSort is how dispensable an event is.
type eventSort int

const (
	eventKept eventSort = iota
	eventRoutine
	eventFailure
	eventSorts = iota
)

var eventBounds = [eventSorts]int{eventRoutine: BacklogEvents, eventFailure: BacklogFailures}

func (ev *Event) sort() eventSort {
	switch {
	case ev.Kind == EventTask && (ev.Err == nil || ev.State == "cancelled"), ev.Kind == EventPhase && ev.Err == nil, ev.Kind == EventCost:
		return eventRoutine
	case ev.Kind == EventTask, ev.Kind == EventRetry:
		return eventFailure
	}
	return eventKept
}

func (q *eventQueue) push(ev Event) {
	q.events = append(q.events, ev)
	sort := ev.sort()
	if q.counts[sort]++; sort != eventKept && q.counts[sort] > eventBounds[sort] {
		q.omit(sort, q.counts[sort]/2)
	}
}

func (q *eventQueue) pop() (Event, bool) {
	if q.head == len(q.events) {
		return Event{}, false
	}
	ev := q.events[q.head]
	q.events[q.head] = Event{}
	q.counts[ev.sort()]--
	if q.head++; q.head > 1024 && q.head > len(q.events)/2 { // what is gone is not kept
		q.events = append(q.events[:0:0], q.events[q.head:]...)
		q.head = 0
	}
	return ev, true
}

// omit leaves out the n oldest events of a sort. One event counts all that were left out
// of the queue, in the place of the first.
func (q *eventQueue) omit(sort eventSort, n int) {
	kept := make([]Event, 0, len(q.events)-q.head-n+1)
	at := -1
	mark := func(ev Event, omitted int) {
		if at < 0 {
			at = len(kept)
			kept = append(kept, Event{Time: ev.Time, Pool: ev.Pool, Kind: EventOmitted, Node: -1})
		}
		kept[at].Omitted += omitted
	}
	for _, ev := range q.events[q.head:] {
		switch {
		case ev.Kind == EventOmitted:
			q.counts[eventKept]--
			mark(ev, ev.Omitted)
		case n > 0 && ev.sort() == sort:
			n--
			q.counts[sort]--
			mark(ev, 1)
		default:
			kept = append(kept, ev)
		}
	}
	if at >= 0 {
		q.counts[eventKept]++
	}
	q.events, q.head = kept, 0
}
