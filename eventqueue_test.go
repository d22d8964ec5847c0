package gputrain

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gputrain/gputrain/internal/bubble"
)

// A function of WithEvents that does not return holds a bounded number of events, loses
// none of those of nodes, and learns how many were left out.
func TestStuckEventsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var got []Event
		e := newEvents("p", func(ev Event) {
			<-stuck
			got = append(got, ev)
		}, nil)
		const tasks = 3 * BacklogEvents
		for i := range tasks {
			ev := Event{Kind: EventTask, State: "queued", Attempt: i}
			if i%5 == 0 {
				ev.State, ev.Err = "failed", errors.New("it failed")
			}
			e.emit(ev)
			if i%1000 == 0 {
				e.emit(Event{Kind: EventNode, State: "ready", Attempt: i, Err: fmt.Errorf("leak %d", i)})
			}
		}
		if n := len(e.queue.events) - e.queue.head; n > BacklogEvents+BacklogFailures+tasks/1000+1 {
			t.Errorf("%d events wait", n)
		}
		close(stuck)
		e.close()
		var nodes, omitted, told, last, lastNode int
		for i, ev := range got {
			switch ev.Kind {
			case EventOmitted:
				omitted += ev.Omitted
				if ev.Pool != "p" || ev.Time.IsZero() || ev.Node != -1 {
					t.Errorf("the event is %+v", ev)
				}
				continue
			case EventNode:
				nodes++
				if ev.Attempt < lastNode {
					t.Fatalf("event %d is out of order", i)
				}
				lastNode = ev.Attempt
				continue
			}
			told++
			if ev.Attempt < last {
				t.Fatalf("event %d is out of order", i)
			}
			last = ev.Attempt
		}
		if nodes != tasks/1000 || told+omitted != tasks || omitted == 0 || last != tasks-1 {
			t.Errorf("%d of nodes, %d of tasks and %d left out of %d; the last is %d", nodes, told, omitted, tasks, last)
		}
	})
}

// A function that keeps up learns of every event.
func TestEventsAreWholeWhenTheyAreTaken(t *testing.T) {
	var q eventQueue
	for i := range 5 * BacklogEvents {
		q.push(Event{Kind: EventTask, Attempt: i})
		if i%3 == 0 {
			q.push(Event{Kind: EventRetry, Attempt: i})
		}
		for n := range 2 {
			if ev, ok := q.pop(); n == 0 && (!ok || ev.Kind == EventOmitted) {
				t.Fatalf("event %d is lost", i)
			}
		}
	}
	if ev, ok := q.pop(); ok || len(q.events) > 5000 || q.counts != [eventSorts]int{} {
		t.Errorf("%+v is left, of %d", ev, len(q.events))
	}
}
