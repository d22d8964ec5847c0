package observe

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/groupname"
)

// How much a Run keeps.
const (
	keptEnded     = 10_000 // tasks that ended well or were cancelled
	keptFailed    = 1000   // tasks that failed
	keptPhases    = 10_000
	keptTransfers = 10_000
	keptFailures  = 1000
	keptOffers    = 1000
	keptGroups    = 1000
	keptLoad      = 500 // samples of each node
)

// A state is what is known from the entries so far. Slices that a Run shares are only appended to, or replaced: never changed.
type state struct {
	lines int // the last lines of a task and of a phase that are kept
	seq   int64
	began time.Time
	at    time.Time

	pools     []*pool
	byID      map[string]*pool
	tasks     kept[*task]
	phases    kept[*Phase]
	transfers kept[*Transfer]
	failures  kept[*Failure]
	offers    kept[*Offer]
	groups    []*Group
	omitted   int

	mostBytes, bytes int64 // of lines: see forget
}

// A pool is a Pool and what belongs to it.
type pool struct {
	Pool
	ranks     map[int]*node // the newest of each rank
	nodes     []*node
	tasks     map[string]*task     // by ID, those that are kept
	moving    map[string]*Transfer // that are under way
	tried     map[string]*Offer    // that are being tried
	groups    map[string]*Group
	waiting   int // tasks that are not recorded one by one
	running   int // such
	retries   int
	done      int
	failed    int
	cancelled int
}

// A node is a Node and what belongs to it.
type node struct {
	Node
	running map[string]*Phase // by name
	every   int               // of so many samples of load one is kept
	skipped int
}

// A task is a Task and what belongs to it.
type task struct {
	Task
	rate rate
}

// A kept holds the last of many.
type kept[T any] struct{ all []T }

// add adds one, and drops the oldest of those that may go if there are more than most.
func (k *kept[T]) add(v T, most int, mayGo func(T) bool) {
	k.all = append(k.all, v)
	if len(k.all) < 2*most {
		return
	}
	over := len(k.all) - most
	k.all = slices.DeleteFunc(k.all, func(v T) bool {
		if over == 0 || mayGo != nil && !mayGo(v) {
			return false
		}
		over--
		return true
	})
}

func newState(lines int) *state {
	return &state{lines: cmp.Or(lines, 200), mostBytes: usualMemory, byID: map[string]*pool{}}
}

// take takes an entry.
func (s *state) take(e Entry) {
	s.seq = e.Seq
	switch {
	case e.Event != nil:
		s.time(e.Event.Time)
		s.event(e.Event)
	case e.Line != nil:
		s.time(e.Line.Time)
		s.line(e.Line)
	}
}

func (s *state) time(t time.Time) {
	if s.began.IsZero() {
		s.began = t
	}
	if t.After(s.at) {
		s.at = t
	}
}

// pool returns the pool of an event. A pool of which nothing was seen yet is made.
func (s *state) pool(id string, at time.Time) *pool {
	p := s.byID[id]
	if p == nil {
		p = &pool{
			Pool: Pool{ID: id, Opened: at}, ranks: map[int]*node{}, tasks: map[string]*task{}, moving: map[string]*Transfer{}, tried: map[string]*Offer{},
			groups: map[string]*Group{},
		}
		s.byID[id] = p
		s.pools = append(s.pools, p)
	}
	return p
}

func (s *state) event(ev *gputrain.Event) {
	p := s.pool(ev.Pool, ev.Time)
	switch ev.Kind {
	case gputrain.EventPool:
		s.poolChanged(p, ev)
	case gputrain.EventNode:
		s.nodeChanged(p, ev)
	case gputrain.EventPhase:
		s.phaseChanged(p, ev)
	case gputrain.EventProgress:
		if n := p.node(ev); n != nil && n.running[ev.Phase] != nil {
			n.running[ev.Phase].Progress = ev.Progress
		}
	case gputrain.EventTask, gputrain.EventRetry:
		s.taskChanged(p, ev)
	case gputrain.EventTally:
		if ev.Tally != nil {
			s.counted(p, ev.Tally)
		}
	case gputrain.EventStep:
		id := ev.Task
		if id == "" {
			id = trainingID(ev.Name)
		}
		if t := p.tasks[id]; t != nil {
			t.Step, t.StepAt = ev.Step, ev.Time
			t.PerSecond = t.rate.add(ev.Time, ev.Step.N)
			if t.State == "silent" {
				t.State = "started"
			}
		}
	case gputrain.EventCost:
		p.charged(ev)
	case gputrain.EventPreemption:
		s.preempted(p, ev)
	case gputrain.EventTransfer:
		s.transferred(p, ev)
	case gputrain.EventUsage:
		s.used(p, ev)
	case gputrain.EventOffer:
		s.offered(p, ev)
	case gputrain.EventWait:
		p.Waiting = ev.State
		if ev.Node >= 0 { // a "machine"
			p.Waiting = fmt.Sprintf("node %d", ev.Node)
		}
		if ev.Err != nil {
			p.Waiting += ": " + textOf(ev.Err)
		}
	case gputrain.EventTraining:
		s.trainingChanged(p, ev)
	case gputrain.EventTrouble:
		if ev.Err != nil {
			s.fail(p, ev, ev.Kind.String())
		}
	case gputrain.EventOmitted:
		s.omitted += ev.Omitted
	}
}

func (s *state) poolChanged(p *pool, ev *gputrain.Event) {
	p.State = ev.State
	if ev.Spec != nil {
		p.Spec = ev.Spec
	}
	switch ev.State {
	case "ready":
		p.ReadyAt, p.Waiting = ev.Time, ""
	case "closed", "detached":
		p.Closed, p.Waiting = ev.Time, ""
		p.charged(ev)
		if ev.Cost != nil {
			p.Cost.Nodes = ev.Cost.Nodes
		}
	}
	if ev.Err != nil {
		p.Err = textOf(ev.Err)
		s.fail(p, ev, "pool")
	}
}

// charged takes what the pool costs.
func (p *pool) charged(ev *gputrain.Event) {
	if ev.Cost != nil {
		p.Cost, p.CostAt = *ev.Cost, ev.Time
	}
}

// cost returns what the pool has cost until a time, and costs per hour then.
func (p *pool) cost(at time.Time) (usd, hourly float64) {
	if !p.Closed.IsZero() || p.CostAt.IsZero() {
		return p.Cost.USD, 0
	}
	return p.Cost.USD + p.Cost.HourlyUSD*max(at.Sub(p.CostAt), 0).Hours(), p.Cost.HourlyUSD
}

func (s *state) preempted(p *pool, ev *gputrain.Event) {
	n := p.node(ev)
	if n == nil {
		return
	}
	switch ev.State {
	case "notice":
		n.Preempt = ev.Time.Add(ev.Elapsed)
	case "spared":
		n.Preempt = time.Time{}
	}
	if ev.Err != nil {
		s.fail(p, ev, "node")
	}
}

func (s *state) offered(p *pool, ev *gputrain.Event) {
	if ev.Offer == nil {
		return
	}
	o := *ev.Offer
	key := o.Provider + "\x00" + o.Account + "\x00" + o.ID + "\x00" + o.InstanceType + "\x00" + o.Region + "\x00" + fmt.Sprint(o.Spot)
	t := p.tried[key]
	if t == nil || ev.State == "trying" {
		usd, known := o.HourlyUSD.USD()
		t = &Offer{Pool: p.ID, Provider: o.Provider, InstanceType: o.InstanceType, Region: o.Region, HourlyUSD: usd, Known: known, Spot: o.Spot}
		s.offers.add(t, keptOffers, nil)
		p.tried[key] = t
	}
	t.At = ev.Time
	if t.State != "taken" || ev.State != "refused" {
		t.State = ev.State
	}
	if ev.Err != nil {
		t.Err = textOf(ev.Err)
	}
}

// fail adds a failure.
func (s *state) fail(p *pool, ev *gputrain.Event, kind string) {
	f := &Failure{
		Seq: s.seq, At: ev.Time, Pool: p.ID, Kind: kind, Rank: ev.Node, Task: ev.Task, Name: ev.Name, Phase: ev.Phase, Attempt: ev.Attempt,
		Retried: ev.Kind == gputrain.EventRetry, Err: textOf(ev.Err),
	}
	if n := p.node(ev); n != nil {
		f.Node = n.Key
	}
	f.Tail, f.Stack = detailsOf(ev.Err)
	f.Tail, f.Stack = cut(f.Tail), cut(f.Stack)
	if ev.Ended != nil {
		f.Cause = ev.Ended.Cause.String()
	}
	s.failures.add(f, keptFailures, nil)
}

func textOf(err error) string {
	if err == nil {
		return ""
	}
	return cut(err.Error())
}

// group returns the group of a task's name.
func (s *state) group(p *pool, name string) *Group {
	name = groupname.Of(name)
	g := p.groups[name]
	if g == nil && len(s.groups) >= keptGroups {
		name = ""
		g = p.groups[name]
	}
	if g == nil {
		g = &Group{Pool: p.ID, Name: name}
		p.groups[name] = g
		s.groups = append(s.groups, g)
	}
	return g
}

// lastOf appends a line to those that are kept, and returns the newest of them. What was returned before does not change.
func (s *state) lastOf(lines []gputrain.Line, l *gputrain.Line) []gputrain.Line {
	lines = append(lines, *l)
	if len(lines) > 2*s.lines {
		lines = slices.Clone(lines[len(lines)-s.lines:])
	}
	return lines
}

func (s *state) line(l *gputrain.Line) {
	s.omitted += l.Omitted
	p := s.byID[l.Pool]
	if p == nil || l.Omitted > 0 {
		return
	}
	defer s.forget()
	s.bytes += lineCost + int64(len(l.Text))
	if t := p.tasks[l.Task]; t != nil && l.Task != "" {
		t.Lines = s.lastOf(t.Lines, l)
		return
	}
	if n := p.ranks[l.Node]; n != nil && l.Phase != "" {
		if phase := s.phaseOf(p, n, l.Phase); phase != nil {
			phase.Lines = s.lastOf(phase.Lines, l)
		}
	}
}

// phaseOf returns a node's newest phase of a name, or nil. Its last lines may come after the event of its end.
func (s *state) phaseOf(p *pool, n *node, name string) *Phase {
	if phase := n.running[name]; phase != nil {
		return phase
	}
	for _, phase := range slices.Backward(s.phases.all) {
		if phase.Pool == p.ID && phase.Node == n.Key && phase.Name == name {
			return phase
		}
	}
	return nil
}
