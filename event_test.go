package gputrain

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/tally"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

// If the function of WithEvents hangs, a bounded number of events waits for it. None of the nodes'
// events is lost, and the function learns how many others were left out.
func TestStuckEventsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var got []Event
		e := newEvents("p", []func(Event){func(ev Event) {
			<-stuck
			got = append(got, ev)
		}}, nil)
		const tasks = 3 * backlogEvents
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
		close(stuck)
		e.close()
		if n := len(got) - 1; n > backlogEvents+backlogFailures+tasks/1000+1 {
			t.Errorf("%d events waited", n)
		}
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

// What each event costs before it is passed on.
func BenchmarkEventIsPrintable(b *testing.B) {
	ev := Event{Kind: EventTask, State: "started", Task: "t000017", Name: "trial 17", At: Node{ID: "i-0123", Name: "digits-0", Provider: "gcp", Region: "europe-west4", labels: map[string]string{"region": "europe-west4"}}}
	for b.Loop() {
		ev.printable()
	}
}

// What was counted on a node is told before the node is lost, and so before another machine can have its rank.
func TestCountsComeBeforeTheLossOfTheirNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var got []string
		e := newEvents("p", nil, nil, sample{0, func(ev Event) { got = append(got, ev.Kind.String()+" "+ev.State) }})
		var task tally.Task
		e.tally.Queued(&task)
		e.tally.Started(&task, true)
		e.tally.Ended(&task, tally.End{Name: "t", Attempts: 1})
		e.emit(Event{Kind: EventNode, State: "lost"})
		e.emit(Event{Kind: EventNode, State: "launching"})
		e.close()
		if want := []string{"tally ", "node lost", "node launching"}; !slices.Equal(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	})
}

// Of every kind of event, so many may wait for a slow function, and no more; but for those of a pool as a whole, which are few, and
// the one that says how many were left out.
func TestEveryKindOfEventHasABound(t *testing.T) {
	for kind := EventPool; !strings.Contains(kind.String(), "("); kind++ {
		for _, err := range []error{nil, errors.New("x")} {
			ev := Event{Kind: kind, Err: err}
			if most, few := eventBacklog.Most[ev.class()], kind == EventPool || kind == EventOmitted; (most == 0) != few {
				t.Errorf("%d events of kind %v may wait, with the error %v", most, kind, err)
			}
		}
	}
}
