package report

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputrain/gputrain/internal/groupname"
	"github.com/gputrain/gputrain/observe"
)

// addNodes computes what each node has cost and done.
func (s *summary) addNodes() {
	work := s.work()
	concurrency := map[string]int{}
	for _, p := range s.run.Pools {
		if p.Spec != nil {
			concurrency[p.ID] = p.Spec.Concurrency
		}
	}
	s.OtherUSD = s.SpentUSD
	for i := range s.run.Nodes {
		n := &s.run.Nodes[i]
		life := s.clip(interval{cmp.Or(n.Launched, n.ReadyAt, n.Since, s.From), n.Gone})
		sum := nodeSummary{Node: n, From: life.Began, To: life.Ended, USD: finite(n.SpentUSD), Tasks: len(work[n.Key])}
		s.OtherUSD -= sum.USD
		ready := life
		if ready.Began = later(n.ReadyAt, life.Began); n.ReadyAt.IsZero() || n.ReadyAt.After(life.Ended) {
			ready.Began = life.Ended
		}
		var all []interval
		for _, w := range work[n.Key] {
			w.Began, w.Ended = later(w.Began, ready.Began), earlier(w.Ended, ready.Ended)
			all = append(all, w)
		}
		sum.Work = union(all)
		busy := time.Duration(0)
		for _, w := range sum.Work {
			busy += w.length()
		}
		if n.Ended > sum.Tasks { // the Run has not kept all of its tasks
			busy = max(busy, min(ready.length(), n.BusyTime/time.Duration(max(concurrency[n.Pool], 1))))
		}
		if whole := life.length(); whole > 0 {
			sum.Bootstrap = 100 * float64(whole-ready.length()) / float64(whole)
			sum.Busy = 100 * float64(busy) / float64(whole)
			sum.Idle = 100 - sum.Bootstrap - sum.Busy
			if sum.Idle < 1e-9 {
				sum.Idle = 0
			}
		}
		s.byKey[n.Key] = len(s.Nodes)
		s.Nodes = append(s.Nodes, sum)
	}
}

// work returns the times of all attempts, by the keys of nodes.
func (s *summary) work() map[string][]interval {
	all := map[string][]interval{}
	for _, t := range s.run.Tasks {
		for _, a := range attempts(t) {
			for _, key := range nodesOf(a) {
				all[key] = append(all[key], s.clip(interval{a.Began, a.Ended}))
			}
		}
	}
	return all
}

// nodesOf returns the keys of the nodes of an attempt: those of a training are several.
func nodesOf(a observe.Attempt) []string {
	if a.Node == "" {
		return a.Nodes
	}
	return []string{a.Node}
}

// attempts returns the attempts at a task that have begun.
func attempts(t observe.Task) []observe.Attempt {
	all := t.Attempts
	if len(all) == 0 && !t.Started.IsZero() {
		all = []observe.Attempt{{Number: t.Attempt, Node: t.Node, Slot: t.Slot, Began: t.Started, Ended: t.Ended, ExitCode: t.ExitCode, Cause: t.Cause, Err: t.Err}}
	}
	return slices.DeleteFunc(slices.Clone(all), func(a observe.Attempt) bool { return a.Began.IsZero() })
}

// addNames sums up the tasks by the name of their group. Groups of several pools that have one name are together.
func (s *summary) addNames() {
	index := map[string]int{}
	of := func(name string) *nameSummary {
		i, ok := index[name]
		if !ok {
			i = len(s.Names)
			index[name] = i
			s.Names = append(s.Names, nameSummary{Name: name})
		}
		return &s.Names[i]
	}
	for _, g := range s.run.Groups { // of tasks that have ended
		n := of(g.Name)
		n.Done, n.Failed, n.Cancelled = n.Done+g.Done, n.Failed+g.Failed, n.Cancelled+g.Cancelled
		n.Attempts, n.Time, n.USD = n.Attempts+g.Attempts, n.Time+g.Time, n.USD+finite(g.SpentUSD)
	}
	for _, t := range s.run.Tasks {
		ended := isOver(t)
		if ended && s.run.Groups != nil {
			continue
		}
		n := of(groupname.Of(t.Name))
		switch t.State {
		case "done":
			n.Done++
		case "failed":
			n.Failed++
		case "cancelled":
			n.Cancelled++
		default:
			n.Open++
		}
		for _, a := range attempts(t) {
			if s.run.Groups == nil || a.Ended.IsZero() { // a group has those that have ended
				n.Attempts++
				n.Time += s.clip(interval{a.Began, a.Ended}).length()
			}
		}
		n.USD += finite(t.SpentUSD)
	}
	s.NoTaskUSD = s.SpentUSD
	for _, n := range s.Names {
		s.NoTaskUSD -= n.USD
	}
	slices.SortStableFunc(s.Names, func(a, b nameSummary) int {
		return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Time, a.Time))
	})
}

func isOver(t observe.Task) bool {
	return t.State == "done" || t.State == "failed" || t.State == "cancelled"
}

// addStates divides the cost by what it was paid for. The cost of a task is divided among its attempts by their times.
func (s *summary) addStates() {
	var bootstrap, idle, repeated float64
	for _, n := range s.Nodes {
		bootstrap += n.USD * n.Bootstrap / 100
		idle += n.USD * n.Idle / 100
	}
	tasks := map[string]float64{}
	unkept := 0.0
	for _, g := range s.run.Groups {
		unkept += finite(g.SpentUSD)
	}
	for _, t := range s.run.Tasks {
		usd, again := finite(t.SpentUSD), 0.0
		if all := attempts(t); len(all) > 0 {
			var whole, last time.Duration
			for _, a := range all {
				last = s.clip(interval{a.Began, a.Ended}).length()
				whole += last
			}
			if t.State == "retrying" {
				last = 0
			}
			if whole > 0 {
				again = usd * float64(whole-last) / float64(whole)
			}
		}
		repeated += again
		state := "running"
		if isOver(t) {
			state = t.State
			unkept -= usd
		}
		tasks[state] += usd - again
	}
	if s.run.Groups == nil || unkept < 1e-6 { // rounding
		unkept = 0
	}
	s.States = []stateCost{
		{"bootstrap of nodes", bootstrap},
		{"tasks that are done", tasks["done"]},
		{"tasks that failed", tasks["failed"]},
		{"tasks that were cancelled", tasks["cancelled"]},
		{"tasks that have not ended", tasks["running"]},
		{"attempts that were repeated", repeated},
		{"tasks of which only the sum is kept", unkept},
		{"idle nodes", idle},
	}
	rest := s.SpentUSD
	for _, c := range s.States {
		rest -= c.USD
	}
	s.States = append(s.States, stateCost{"other: free slots, volumes, traffic, rounding", rest})
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
