package observe

import (
	"errors"
	"strings"

	"github.com/gputrain/gputrain"
)

// trainingID returns the ID under which a training is among the tasks.
func trainingID(name string) string { return trainingPrefix + name }

const trainingPrefix = "training "

func isTraining(id string) bool { return strings.HasPrefix(id, trainingPrefix) }

// trainingChanged shows a training as a task whose attempts are the gang's. It is on all of the gang's nodes, so it has none.
func (s *state) trainingChanged(p *pool, ev *gputrain.Event) {
	id := trainingID(ev.Name)
	t := p.tasks[id]
	if t == nil || !t.Ended.IsZero() {
		t = &task{Task: Task{Pool: p.ID, ID: id, Name: ev.Name, State: "queued", Queued: ev.Time, Rank: -1, Slot: -1}}
		p.tasks[id] = t
		s.keep(p, t)
	}
	ran := t.State == "started"
	attempt := *ev
	attempt.Task, attempt.Node = id, -1
	switch ev.State {
	case "waiting", "starting":
		if t.State != "started" {
			t.State = "queued"
		}
	case "running":
		t.start(p, &attempt)
	case "failing":
		t.Err = textOf(ev.Err)
		s.fail(p, ev, "training")
	case "restarting":
		if t.Err != "" { // the one of "failing"
			attempt.Err = errors.New(t.Err)
		}
		attempt.Kind = gputrain.EventRetry
		t.over(p, &attempt, "retrying")
		p.retries++
		s.ended(p, t, &attempt, ran)
	case "done":
		state := "done"
		if ev.Err != nil {
			state = "failed"
			s.fail(p, ev, "training")
		}
		t.over(p, &attempt, state)
		t.Ended = ev.Time
		if !t.Started.IsZero() {
			t.Elapsed = ev.Time.Sub(t.Started)
		}
		if g := s.ended(p, t, ev, ran); ev.Err != nil {
			p.failed++
			g.Failed++
		} else {
			p.done++
			g.Done++
		}
	default: // "checkpoint" and "preflight"
		if ev.Err != nil {
			s.fail(p, ev, "training")
		}
	}
}
