package output

// A Class is a set of events that are left out together if too many of them wait. It is an index into Backlog.Most.
type Class int

// A Backlog bounds how many events of type E may wait for a slow function, and counts those that are left out.
type Backlog[E any] struct {
	// Most has for each class how many of its events may wait. Zero means no bound.
	Most []int
	// Class returns the class of an event.
	Class func(*E) Class
	// Mark returns an event that stands for omitted ones, of which the first is given. Its class must have no bound.
	Mark func(first *E) E
	// Omitted returns where a mark counts the events that it stands for, or nil if the event is not a mark.
	Omitted func(*E) *int
}

// An eventQueue holds events that wait for delivery. If too many of one class do, it leaves out the older half of that
// class.
type eventQueue[E any] struct {
	backlog Backlog[E]
	events  []E
	head    int   // events before it are gone
	counts  []int // by class
}

func newEventQueue[E any](b Backlog[E]) *eventQueue[E] {
	return &eventQueue[E]{backlog: b, counts: make([]int, len(b.Most))}
}

func (q *eventQueue[E]) push(ev E) {
	q.events = append(q.events, ev)
	class := q.backlog.Class(&q.events[len(q.events)-1])
	q.counts[class]++
	if most := q.backlog.Most[class]; most > 0 && q.counts[class] > most {
		q.omit(class, q.counts[class]/2)
	}
}

func (q *eventQueue[E]) pop() (ev E, ok bool) {
	if q.head == len(q.events) {
		return ev, false
	}
	q.counts[q.backlog.Class(&q.events[q.head])]--
	ev, q.events[q.head] = q.events[q.head], ev
	if q.head++; q.head > 1024 && q.head > len(q.events)/2 { // frees the memory of delivered events
		q.events = append(q.events[:0:0], q.events[q.head:]...)
		q.head = 0
	}
	return ev, true
}

// omit leaves out the n oldest events of a class. One mark, in place of the first of them, counts all that were left out
// of the queue.
func (q *eventQueue[E]) omit(class Class, n int) {
	kept := make([]E, 0, len(q.events)-q.head-n+1)
	at := -1
	mark := func(first *E, omitted int) {
		if at < 0 {
			at = len(kept)
			kept = append(kept, q.backlog.Mark(first))
			q.counts[q.backlog.Class(&kept[at])]++
		}
		*q.backlog.Omitted(&kept[at]) += omitted
	}
	for i := q.head; i < len(q.events); i++ {
		ev := &q.events[i]
		c := q.backlog.Class(ev)
		switch omitted := q.backlog.Omitted(ev); {
		case omitted != nil:
			q.counts[c]--
			mark(ev, *omitted)
		case n > 0 && c == class:
			n--
			q.counts[c]--
			mark(ev, 1)
		default:
			kept = append(kept, *ev)
		}
	}
	q.events, q.head = kept, 0
}
