package output

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

// A happening is an event, or a mark for omitted ones.
type happening struct {
	class   Class
	n       int
	mark    bool
	omitted int
}

func happenings(most ...int) Backlog[happening] {
	return Backlog[happening]{
		Most:  most,
		Class: func(h *happening) Class { return h.class },
		Mark:  func(first *happening) happening { return happening{n: first.n, mark: true} },
		Omitted: func(h *happening) *int {
			if !h.mark {
				return nil
			}
			return &h.omitted
		},
	}
}

// If the function hangs, events of a class with a bound are left out and counted in one mark, in place of the first. The
// other events are all delivered, in order.
func TestEventsOfASlowFunction(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var got []happening
		e := NewEvents(happenings(0, 100, 10), func(h happening) {
			<-stuck
			got = append(got, h)
		})
		const all = 3000
		for i := range all {
			e.Emit(happening{class: Class(i % 3), n: i})
		}
		close(stuck)
		e.Close()
		e.Close()
		e.Emit(happening{n: all}) // too late
		var delivered [3]int
		omitted, marks, last := 0, 0, -1
		for _, h := range got {
			if h.mark {
				marks, omitted = marks+1, omitted+h.omitted
				if h.n > 10 {
					t.Errorf("the mark is in place of event %d", h.n)
				}
				continue
			}
			if h.n <= last {
				t.Fatalf("event %d comes after event %d", h.n, last)
			}
			last = h.n
			delivered[h.class]++
		}
		if marks != 1 || delivered[0] != all/3 || delivered[1] > 101 || delivered[2] > 11 || last != all-1 {
			t.Errorf("%d marks, %v delivered, the last is %d", marks, delivered, last)
		}
		if n := delivered[0] + delivered[1] + delivered[2] + omitted; n != all {
			t.Errorf("%d of %d events were delivered or counted", n, all)
		}
	})
}

// A function that keeps up gets every event.
func TestEventsOfAFunctionThatKeepsUp(t *testing.T) {
	const most = 100_000
	q := newEventQueue(happenings(0, most, most/10))
	for i := range 5 * most {
		q.push(happening{class: 1, n: i})
		if i%3 == 0 {
			q.push(happening{class: 2, n: i})
		}
		for n := range 2 {
			if h, ok := q.pop(); n == 0 && (!ok || h.mark) {
				t.Fatalf("event %d is lost", i)
			}
		}
	}
	if h, ok := q.pop(); ok || len(q.events) > 5000 || q.counts[0]+q.counts[1]+q.counts[2] != 0 {
		t.Errorf("%+v is left, of %d", h, len(q.events))
	}
}

// Of the events of one item that wait, the newest is delivered, where it stands.
func TestEventsOfOneItem(t *testing.T) {
	b := happenings(0, 4)
	b.Item = func(h *happening) string {
		if h.mark {
			return ""
		}
		return []string{"", "a", "b"}[h.n/10]
	}
	q := newEventQueue(b)
	drain := func() (got []int) {
		for h, ok := q.pop(); ok; h, ok = q.pop() {
			got = append(got, h.n)
		}
		return got
	}
	push := func(class Class, all ...int) {
		for _, n := range all {
			q.push(happening{class: class, n: n})
		}
	}
	push(0, 1, 10, 20, 2, 11, 3, 12, 4)
	if got := drain(); !slices.Equal(got, []int{1, 20, 2, 3, 12, 4}) {
		t.Errorf("%v", got)
	}
	push(0, 13)
	if got := drain(); !slices.Equal(got, []int{13}) {
		t.Errorf("later %v", got)
	}
	push(1, 14, 15, 16, 17, 18) // two are left out
	if got := drain(); !slices.Equal(got, []int{14, 18}) || len(q.items) != 0 {
		t.Errorf("beyond the bound %v, and %v is counted", got, q.items)
	}
}

// Events that wait have a bound of bytes, too: the older half is left out, and counted.
func TestEventsHaveABoundOfBytes(t *testing.T) {
	b := happenings(0, 1000)
	b.Bytes, b.Size = 100, func(h *happening) int { return h.n }
	q := newEventQueue(b)
	for range 500 {
		q.push(happening{class: 1, n: 30})
		if waiting := q.counts[1]; waiting*30 > b.Bytes || q.bytes != waiting*30 {
			t.Fatalf("%d events of 30 bytes wait, and %d bytes are counted", waiting, q.bytes)
		}
	}
	q.push(happening{class: 1, n: 1 << 20}) // one alone waits
	omitted, delivered := 0, 0
	for {
		h, ok := q.pop()
		if !ok {
			break
		}
		if omitted += h.omitted; !h.mark {
			delivered++
		}
	}
	if omitted+delivered != 501 || delivered != 1 || q.bytes != 0 {
		t.Errorf("%d delivered, %d left out, %d bytes wait", delivered, omitted, q.bytes)
	}
}

// Sync returns once the function has had all that was emitted before, and at once if nothing waits. It gives up with its context.
func TestEventsSync(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		held := make(chan struct{})
		got := 0
		e := NewEvents(happenings(0, 100, 100), func(happening) {
			<-held
			got++
		})
		defer e.Close()
		if err := e.Sync(t.Context()); err != nil {
			t.Errorf("nothing waits: %v", err)
		}
		for range 3 {
			e.Emit(happening{})
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := e.Sync(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a function that hangs: %v", err)
		}
		close(held)
		if err := e.Sync(t.Context()); err != nil || got != 3 {
			t.Errorf("%d delivered, %v", got, err)
		}
		e.Close()
		if err := e.Sync(t.Context()); err != nil {
			t.Errorf("after the end: %v", err)
		}
	})
}
