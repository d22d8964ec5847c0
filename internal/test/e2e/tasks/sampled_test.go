package tasks

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/providers/sim"
)

// A sampled function gets the events of some tasks, and of each that fails or is tried again. The others are counted, all of them
// before the pool is closed. A function of WithEvents beside it gets all, and no counts.
func TestSampledEvents(t *testing.T) {
	e2etest.InCloud(t, sim.Options{}, func(t *testing.T, c *e2etest.SimCloud) {
		type seen struct {
			ended           map[string]int // tasks that were reported, by state
			retries         int
			tally           gputrain.Tally // the last
			done, cancelled int            // counted
			waiting         int            // at most
			after           []string       // kinds of events after "closed"
			closed          bool
			previous        int64
			first           map[string][]string // the first two states of each task
		}
		newSeen := func() *seen { return &seen{ended: map[string]int{}, first: map[string][]string{}} }
		take := func(s *seen) func(gputrain.Event) {
			return func(ev gputrain.Event) {
				if ev.Seq <= s.previous {
					t.Errorf("event %d comes after %d", ev.Seq, s.previous)
				}
				s.previous = ev.Seq
				if s.closed {
					s.after = append(s.after, ev.Kind.String())
				}
				switch ev.Kind {
				case gputrain.EventPool:
					s.closed = ev.State == "closed"
				case gputrain.EventTask:
					s.ended[ev.State]++
					if len(s.first[ev.Task]) < 2 {
						s.first[ev.Task] = append(s.first[ev.Task], ev.State)
					}
				case gputrain.EventRetry:
					s.retries++
				case gputrain.EventTally:
					s.tally, s.waiting = *ev.Tally, max(s.waiting, ev.Tally.Waiting)
					for _, e := range ev.Tally.Ended {
						s.done += e.Done
						s.cancelled += e.Cancelled
						if e.Done > 0 && (e.Name != "many" || e.Node != 0 || e.Attempts != e.Done || e.Elapsed != time.Duration(e.Done)*time.Second) {
							t.Errorf("%+v", e)
						}
					}
				}
			}
		}
		all, some := newSeen(), newSeen()
		p := c.Pool(t, gputrain.Spec{Concurrency: 10}, gputrain.WithEvents(take(all)), gputrain.WithSampledEvents(3, take(some)))
		tasks := make([]gputrain.Task, 100)
		for i := range tasks {
			tasks[i] = gputrain.Cmd("sleep", "1s")
			tasks[i].Name = "many"
		}
		for i := 60; i < 70; i++ { // more than have a report of their start
			tasks[i] = gputrain.Cmd("fail")
		}
		tasks[69].Retries = 1
		if _, err := p.Gather(tasks...); err == nil {
			t.Error("none has failed")
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second/2, cancel)
		long := gputrain.Cmd("sleep", "1h")
		if _, err := p.WithContext(ctx).Gather(long, long, long, long, long); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		c.CloseAndCheck(t, p)
		if all.ended["done"] != 90 || all.ended["failed"] != 10 || all.ended["cancelled"] != 5 || all.retries != 1 || all.done+all.cancelled+all.waiting != 0 {
			t.Errorf("all: %+v", all)
		}
		if some.ended["done"]+some.done != 90 || some.ended["failed"] != 10 || some.ended["cancelled"]+some.cancelled != 5 || some.retries != 1 {
			t.Errorf("some: %+v", some)
		}
		for _, s := range []*seen{all, some} {
			for id, first := range s.first {
				if len(first) < 2 || first[0] != "queued" || first[1] != "started" && first[1] != "cancelled" {
					t.Errorf("task %s begins with %q", id, first)
				}
			}
		}
		if some.ended["done"] < 3 || some.done < 50 || some.cancelled == 0 || some.waiting < 50 || some.tally.Waiting+some.tally.Running != 0 || some.after != nil {
			t.Errorf("some: %+v", some)
		}
	})
}
