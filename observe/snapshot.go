package observe

import (
	"cmp"
	"slices"
	"time"

	"github.com/gputrain/gputrain"
)

// run returns what is known, as of a time.
func (s *state) run(at time.Time) Run {
	if at.Before(s.at) {
		at = s.at
	}
	r := Run{Began: s.began, At: at, Seq: s.seq, Omitted: s.omitted, Bounded: true}
	open := 0
	for _, p := range s.pools {
		r.Pools = append(r.Pools, p.Pool)
		usd, hourly := p.cost(at)
		r.SpentUSD += usd
		r.HourlyUSD += hourly
		if p.Spec != nil {
			r.BudgetUSD += p.Spec.BudgetUSD
		}
		if p.Closed.IsZero() {
			open++
			r.AtMostUSD += usd + max(p.Cost.AtMostUSD-p.Cost.USD, 0) // what may follow is as much later as when it was told, or less
			r.Bounded = r.Bounded && (p.Cost.Bounded || p.CostAt.IsZero())
		} else {
			r.AtMostUSD += usd
		}
		s.nodesOf(p, at, &r)
		r.Counts.Waiting += p.waiting
		r.Counts.Running += p.running
		r.Counts.Busy = min(r.Counts.Busy+p.running, r.Counts.Slots)
		r.Counts.Done += p.done
		r.Counts.Failed += p.failed
		r.Counts.Cancelled += p.cancelled
		r.Counts.Retries += p.retries
	}
	if slices.ContainsFunc(s.pools, func(p *pool) bool { return p.Spec == nil || p.Spec.BudgetUSD == 0 }) {
		r.BudgetUSD = 0
	}
	if !r.Bounded {
		r.AtMostUSD = 0
	}
	for _, t := range s.tasks.all {
		switch t.State {
		case "queued", "retrying":
			r.Counts.Waiting++
		case "started", "silent":
			r.Counts.Running++
		}
	}
	r.Tasks = lastTasks(s.tasks.all, s.lines)
	for _, g := range s.groups {
		r.Groups = append(r.Groups, *g)
	}
	r.Phases = copied(last(s.phases.all, keptPhases))
	for i := range r.Phases {
		r.Phases[i].Lines = lastLines(r.Phases[i].Lines, s.lines)
	}
	r.Transfers, r.Failures, r.Offers = copied(last(s.transfers.all, keptTransfers)), copied(last(s.failures.all, keptFailures)), copied(last(s.offers.all, keptOffers))
	return r
}

// slots returns how many slots each node has.
func (p *pool) slots() int {
	if p.Spec == nil {
		return 1
	}
	return max(p.Spec.Concurrency, 1)
}

// nodesOf adds the nodes of a pool, the ones that are there first, and counts them.
func (s *state) nodesOf(p *pool, at time.Time, r *Run) {
	nodes := slices.Clone(p.nodes)
	slices.SortStableFunc(nodes, func(a, b *node) int {
		aGone, bGone := isOver(a.State), isOver(b.State)
		switch {
		case aGone != bGone && aGone:
			return 1
		case aGone != bGone:
			return -1
		}
		return cmp.Compare(a.Rank, b.Rank)
	})
	slots := p.slots()
	for _, n := range nodes {
		shown := n.Node
		shown.Tasks = slices.Clip(n.Tasks)
		shown.Load = slices.Clip(n.Load)
		shown.SpentUSD, shown.Known = n.spent(p, at)
		r.Nodes = append(r.Nodes, shown)
		switch n.State {
		case gputrain.NodeReady.String():
			r.Counts.Ready++
			r.Counts.Slots += slots
			if slices.ContainsFunc(n.Tasks, isTraining) {
				r.Counts.Busy += slots
			} else {
				r.Counts.Busy += min(len(n.Tasks), slots)
			}
		case gputrain.NodeUnreachable.String(), gputrain.NodeFailed.String():
			r.Counts.Broken++
		case gputrain.NodeLost.String(), gputrain.NodeTerminated.String():
			r.Counts.Gone++
		default:
			r.Counts.Starting++
		}
	}
}

// lastTasks returns copies of the tasks, with the last lines of each.
func lastTasks(tasks []*task, lines int) []Task {
	all := make([]Task, len(tasks))
	for i, t := range tasks {
		all[i] = t.Task
		all[i].Lines = lastLines(t.Lines, lines)
		all[i].Attempts = slices.Clip(t.Attempts)
	}
	return all
}

func lastLines(lines []gputrain.Line, most int) []gputrain.Line {
	return slices.Clip(lines[max(len(lines)-most, 0):])
}

func last[T any](all []T, most int) []T { return all[max(len(all)-most, 0):] }

// copied returns the values of pointers.
func copied[T any](all []*T) []T {
	values := make([]T, len(all))
	for i, v := range all {
		values[i] = *v
	}
	return values
}
