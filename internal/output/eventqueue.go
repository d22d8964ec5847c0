package output

// A Class is a set of events that are left out together if too many of them wait. It is an index into Backlog.Most.
type Class int

// A Backlog bounds how many events of type E may wait for a slow function, and counts those that are left out.
type Backlog[E any] struct {
	// Most has for each class how many of its events may wait. Zero means no bound.
	Most []int
	// Bytes bounds what all events that wait have, by Size, but for marks. Zero means no bound, and needs no Size.
	Bytes int
	Size  func(*E) int
	// Class returns the class of an event.
	Class func(*E) Class
	// Mark returns an event that stands for omitted ones, of which the first is given. Its class must have no bound.
	Mark func(first *E) E
	// Omitted returns where a mark counts the events that it stands for, or nil if the event is not a mark.
	Omitted func(*E) *int
	// Item returns what an event has the newest report of, or "": while a newer one of the same item waits, the event is
	// not delivered. A mark is of no item. Nil means that there are no items.
	Item func(*E) string
}

// An eventQueue holds events that wait for delivery. If too many of one class do, it leaves out the older half of that
// class.
type eventQueue[E any] struct {
	backlog Backlog[E]
	events  []E
	head    int            // events before it are gone
	counts  []int          // by class
	items   map[string]int // how many events of an item wait
	bytes   int
}

func newEventQueue[E any](b Backlog[E]) *eventQueue[E] {
	return &eventQueue[E]{backlog: b, counts: make([]int, len(b.Most)), items: map[string]int{}}
}

func (q *eventQueue[E]) push(ev E) {
	q.events = append(q.events, ev)
	if item := q.item(&ev); item != "" {
		q.items[item]++
	}
	class := q.backlog.Class(&q.events[len(q.events)-1])
	q.counts[class]++
	q.bytes += q.size(&ev)
	if most := q.backlog.Most[class]; most > 0 && q.counts[class] > most {
		q.omit(class, q.counts[class]/2)
	}
	for q.bytes > q.backlog.Bytes && q.backlog.Bytes > 0 && q.backlog.Most[class] > 0 && q.counts[class] > 1 {
		q.omit(class, q.counts[class]/2)
	}
}

// pop returns the next event that none of its item is newer than.
func (q *eventQueue[E]) pop() (ev E, ok bool) {
	for q.head < len(q.events) {
		ev = q.next()
		if q.leaves(&ev) == 0 {
			return ev, true
		}
	}
	return ev, false
}

func (q *eventQueue[E]) item(ev *E) string {
	if q.backlog.Item == nil {
		return ""
	}
	return q.backlog.Item(ev)
}

func (q *eventQueue[E]) size(ev *E) int {
	if q.backlog.Bytes == 0 || q.backlog.Omitted(ev) != nil {
		return 0
	}
	return q.backlog.Size(ev)
}

// leaves notes that an event waits no longer, and returns how many of its item still do.
func (q *eventQueue[E]) leaves(ev *E) int {
	item := q.item(ev)
	if item == "" {
		return 0
	}
	if q.items[item]--; q.items[item] == 0 {
		delete(q.items, item)
	}
	return q.items[item]
}

// next takes the first event.
func (q *eventQueue[E]) next() (ev E) {
	q.counts[q.backlog.Class(&q.events[q.head])]--
	q.bytes -= q.size(&q.events[q.head])
	ev, q.events[q.head] = q.events[q.head], ev
	if q.head++; q.head > 1024 && q.head > len(q.events)/2 { // frees the memory of delivered events
		q.events = append(q.events[:0:0], q.events[q.head:]...)
		q.head = 0
	}
	return ev
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
			q.bytes -= q.size(ev)
			q.leaves(ev)
			mark(ev, 1)
		default:
			kept = append(kept, *ev)
		}
	}
	q.events, q.head = kept, 0
}
