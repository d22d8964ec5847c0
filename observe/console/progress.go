package console

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/gputrain/gputrain/observe"
)

func isRunning(p observe.Phase) bool { return p.State == "started" && p.Ended.IsZero() }

func phaseKey(p observe.Phase) string {
	return fmt.Sprintf("phase\x00%s\x00%s\x00%s\x00%d", p.Pool, p.Node, p.Name, p.Began.UnixNano())
}

// phaseWork returns the name of a phase and how far it has come.
func phaseWork(ph observe.Phase, p *paces, d display, now time.Time) string {
	name := clean(ph.Name)
	if what := clean(ph.Progress.What); what != "" {
		name += " " + what
	}
	g := ph.Progress
	text := name + " " + progress(p, phaseKey(ph), g.Done, g.Total, g.Unit, ph.Began, d, now)
	if g.Total <= 0 && ph.Usual > 0 {
		text += ", usually " + span(ph.Usual)
	}
	return text
}

// A display of barFrom columns has bars.
const barFrom = 70

// progress returns a bar with its ETA, or how long something has lasted if its end is not known.
func progress(p *paces, key string, done, total int64, unit string, began time.Time, d display, now time.Time) string {
	elapsed := span(now.Sub(began))
	if total <= 0 {
		if done > 0 {
			return amount(done, unit) + " " + elapsed
		}
		return elapsed
	}
	part := float64(done) / float64(total)
	text := fmt.Sprintf("%.0f%%", min(max(part, 0), 1)*100)
	switch {
	case d.columns >= placeFrom:
		text = bar(part, 20, d.unicode) + " " + text
	case d.columns >= barFrom:
		text = bar(part, 10, d.unicode) + " " + text
	}
	if p.isStalled(key, now) {
		text += " stalled"
	} else if eta, ok := p.eta(key, done, total, now); ok {
		text += " ETA " + span(eta)
	} else {
		text += " " + elapsed
	}
	if counted := of(done, total, unit); counted != "" {
		text += " " + counted
	}
	if perSecond := p.perSecond(key, now); unit == "By" && perSecond > 0 {
		text += " " + amount(int64(perSecond), "By") + "/s"
	}
	return text
}

// A move is a transfer, or all that move the same to or from several nodes.
type move struct {
	key, pool, head string
	began           time.Time
	bytes, total    int64 // total is 0 if it is not known
	nodes           int
	rank            int
}

// transfers returns what moves, in the order in which it began.
func transfers(run observe.Run) (moves []*move) {
	byKey := map[string]*move{}
	add := func(t observe.Transfer, one *move) {
		one.nodes++
		one.bytes += t.Bytes
		if t.Total <= 0 || one.nodes > 1 && one.total == 0 {
			one.total = 0
		} else {
			one.total += t.Total
		}
	}
	keyOf := func(t observe.Transfer) string {
		return fmt.Sprintf("transfer\x00%s\x00%s\x00%s", t.Pool, t.Task, t.What)
	}
	for _, t := range run.Transfers {
		if t.State != "sending" && t.State != "receiving" {
			continue
		}
		key := keyOf(t)
		one := byKey[key]
		if one == nil {
			head := t.State + " " + clean(t.What)
			if t.Task != "" {
				head += " of " + clean(nameOf(t.Name, t.Task))
			}
			one = &move{key: key, pool: t.Pool, head: head, began: t.Began, rank: t.Rank}
			byKey[key] = one
			moves = append(moves, one)
		}
		if t.Began.Before(one.began) {
			one.began = t.Began
		}
		add(t, one)
	}
	for _, t := range run.Transfers { // those that are over on other nodes, so that the whole does not go back
		if t.State != "done" {
			continue
		}
		if one := byKey[keyOf(t)]; one != nil && !t.At.Before(one.began) {
			add(t, one)
		}
	}
	return moves
}

// moveItems returns the items about transfers, and about builds, which belong to no node.
func moveItems(run observe.Run, p *paces, d display, open map[string]bool) (items []item) {
	for _, ph := range run.Phases {
		if ph.Node == "" && isRunning(ph) && open[ph.Pool] {
			items = append(items, item{group: startingGroup, pool: ph.Pool, head: "program", work: phaseWork(ph, p, d, run.At)})
		}
	}
	for _, m := range transfers(run) {
		if !open[m.pool] {
			continue
		}
		it := item{group: startingGroup, pool: m.pool, head: count(m.nodes, "node")}
		if m.nodes == 1 {
			it.head = fmt.Sprintf("node %d", m.rank)
		}
		it.work = m.head + " " + progress(p, m.key, m.bytes, m.total, "By", m.began, d, run.At)
		if p.isStalled(m.key, run.At) {
			it.tone = warnTone
		}
		items = append(items, it)
	}
	return items
}

// nameOf returns the name of a task, or its ID.
func nameOf(name, id string) string {
	if name != "" {
		return name
	}
	return id
}

// A task's row has at most shownValues of its step's values.
const shownValues = 2

// taskWork returns a task and how far it has come.
func taskWork(t *observe.Task, now time.Time) string {
	text := fit(clean(nameOf(t.Name, t.ID)), 24)
	if t.Attempt > 1 {
		text += fmt.Sprintf(" (attempt %d)", t.Attempt)
	}
	switch {
	case t.StepAt.IsZero():
		text += " " + span(now.Sub(t.Started))
		if t.State == "silent" {
			text += " silent"
		}
		return text
	case t.Step.Of > 0:
		text += fmt.Sprintf(" %d/%d", t.Step.N, t.Step.Of)
	default:
		text += fmt.Sprintf(" step %d", t.Step.N)
	}
	if at, ok := t.ETA(now); ok {
		text += " ETA " + span(at.Sub(now))
	} else if t.IsStalled(now) {
		text += " stalled"
	}
	if t.State == "silent" {
		text += " silent"
	}
	for i, name := range slices.Sorted(maps.Keys(t.Step.Values)) {
		if i == shownValues {
			break
		}
		text += fmt.Sprintf(" %s=%.4g", fit(clean(name), 12), t.Step.Values[name])
	}
	return text
}
