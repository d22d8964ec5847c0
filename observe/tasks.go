package observe

import (
	"slices"
	"time"

	"github.com/gputrain/gputrain"
)

func (s *state) taskChanged(p *pool, ev *gputrain.Event) {
	t := p.tasks[ev.Task]
	if t == nil {
		t = &task{Task: Task{Pool: p.ID, ID: ev.Task, Name: ev.Name, Queued: ev.Time, Rank: -1}}
		p.tasks[ev.Task] = t
		s.keep(p, t)
	}
	switch {
	case ev.Kind == gputrain.EventRetry:
		t.over(p, ev, "retrying")
		p.retries++
		s.ended(p, t, ev, ev.Ended != nil)
		s.fail(p, ev, "task")
		return
	case ev.State == "silent":
		t.State = "silent"
		return
	case ev.State == "queued":
		t.State, t.Queued = "queued", ev.Time.Add(-ev.Elapsed)
		return
	case ev.State == "started":
		t.start(p, ev)
		return
	}
	t.over(p, ev, ev.State)
	t.Ended = ev.Time
	g := s.ended(p, t, ev, ev.Ended != nil)
	switch ev.State {
	case "failed":
		p.failed++
		g.Failed++
		s.fail(p, ev, "task")
	case "cancelled":
		p.cancelled++
		g.Cancelled++
	default:
		p.done++
		g.Done++
	}
}

// keep keeps a task among the others.
func (s *state) keep(p *pool, t *task) {
	failed := 0
	for _, p := range s.pools {
		failed += p.failed
	}
	s.tasks.add(t, keptEnded, func(old *task) bool {
		gone := old.State == "done" || old.State == "cancelled" || old.State == "failed" && failed > keptFailed
		if gone {
			delete(s.byID[old.Pool].tasks, old.ID)
		}
		return gone
	})
}

// start begins an attempt.
func (t *task) start(p *pool, ev *gputrain.Event) {
	began := ev.Time.Add(-ev.Elapsed)
	t.State, t.Attempt, t.Started, t.Ended = "started", ev.Attempt, began, time.Time{}
	t.Rank, t.Node = ev.Node, p.keyOf(ev)
	t.Step, t.StepAt, t.PerSecond, t.rate = gputrain.Step{}, time.Time{}, 0, rate{}
	a := Attempt{Number: ev.Attempt, Node: t.Node, Slot: -1, Began: began}
	if n := p.node(ev); n != nil {
		n.Tasks = append(slices.Clip(n.Tasks), t.ID)
	}
	for _, rank := range ev.Nodes {
		if n := p.ranks[rank]; n != nil && !slices.Contains(n.Tasks, t.ID) {
			a.Nodes = append(a.Nodes, n.Key)
			n.Tasks = append(slices.Clip(n.Tasks), t.ID)
		}
	}
	t.Attempts = append(slices.Clip(t.Attempts), a)
}

// over ends an attempt, if there is one.
func (t *task) over(p *pool, ev *gputrain.Event, state string) {
	running := t.State == "started" || t.State == "silent"
	t.State = state
	t.Err = textOf(ev.Err)
	if e := ev.Ended; e != nil {
		t.ExitCode, t.Cause, t.Slot = e.ExitCode, "", e.Slot
		if ev.Err != nil {
			t.Cause = e.Cause.String()
		}
		t.SpentUSD, _ = e.CostUSD.USD()
	}
	if ev.Kind != gputrain.EventRetry { // whose Elapsed is the pause
		t.Elapsed = ev.Elapsed
	} else {
		t.Elapsed = ev.Time.Sub(t.Started)
	}
	if len(t.Attempts) > 0 && running {
		t.Attempts = slices.Clone(t.Attempts)
		a := &t.Attempts[len(t.Attempts)-1]
		a.Ended, a.ExitCode, a.Cause, a.Err, a.Slot = ev.Time, t.ExitCode, t.Cause, t.Err, t.Slot
	}
	slots := 1
	if isTraining(t.ID) {
		slots = p.slots()
	}
	for _, n := range p.nodes {
		if n.Key != t.Node && !isTraining(t.ID) {
			continue
		}
		if i := slices.Index(n.Tasks, t.ID); i >= 0 {
			n.Tasks = append(n.Tasks[:i:i], n.Tasks[i+1:]...)
			n.Ended++
			n.BusyTime += time.Duration(slots) * ev.Time.Sub(t.Started)
		}
	}
}

// ended adds an attempt that has run to its group, and after the last one the cost of all.
func (s *state) ended(p *pool, t *task, ev *gputrain.Event, ran bool) *Group {
	g := s.group(p, t.Name)
	if ran {
		g.Attempts++
		g.Time += t.Elapsed
	}
	if ev.Ended != nil && ev.Kind != gputrain.EventRetry {
		g.SpentUSD += t.SpentUSD
	}
	return g
}

// counted adds tasks that are not recorded one by one.
func (s *state) counted(p *pool, t *gputrain.Tally) {
	p.waiting, p.running = t.Waiting, t.Running
	for _, e := range t.Ended {
		g := s.group(p, e.Name)
		g.Done += e.Done
		g.Cancelled += e.Cancelled
		g.Attempts += e.Attempts
		g.Time += e.Elapsed
		g.SpentUSD += e.CostUSD
		p.done += e.Done
		p.cancelled += e.Cancelled
		if n := p.ranks[e.Node]; n != nil {
			n.Ended += e.Attempts
			n.BusyTime += e.Elapsed
		}
	}
}

// A rate is how fast steps come: a moving average over ten seconds.
type rate struct{ past []mark }

type mark struct {
	at time.Time
	n  int64
}

// rateTime is the time over which a rate is taken.
const rateTime = 10 * time.Second

// add notes a step, and returns the steps per second. A step that is not greater begins anew.
func (r *rate) add(at time.Time, n int64) float64 {
	if len(r.past) > 0 && n <= r.past[len(r.past)-1].n {
		r.past = nil
	}
	r.past = append(r.past, mark{at, n})
	for len(r.past) > 2 && at.Sub(r.past[1].at) >= rateTime {
		r.past = r.past[1:]
	}
	first := r.past[0]
	took := at.Sub(first.at).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(n-first.n) / took
}
