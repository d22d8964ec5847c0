package console

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

// A node that has failed or was lost, and that another one has replaced, is shown for lostFor.
const lostFor = time.Minute

// A sample of a node's load that is older than sampleAge is not shown.
const sampleAge = time.Minute

// poolItems returns the items about a pool as a whole.
func poolItems(run observe.Run, p observe.Pool) (items []item) {
	if p.Err != "" {
		items = append(items, item{group: brokenGroup, pool: p.ID, head: "pool " + clean(p.State), work: clean(p.Err), tone: badTone})
	}
	switch p.State {
	case "opening", "attaching", "closing":
	default:
		return items
	}
	it := item{group: startingGroup, pool: p.ID, head: "pool " + p.State}
	if p.State != "closing" {
		it.head += " " + span(run.At.Sub(p.Opened))
	}
	for i := len(run.Offers) - 1; i >= 0; i-- {
		if o := run.Offers[i]; o.Pool == p.ID {
			if o.State == "trying" {
				it.work = "trying " + offer(o)
			}
			break
		}
	}
	if it.work == "" && p.State != "closing" && hasNodes(run, p.ID) { // which say more
		return items
	}
	return append(items, it)
}

func hasNodes(run observe.Run, pool string) bool {
	for i := range run.Nodes {
		if run.Nodes[i].Pool == pool && run.Nodes[i].Gone.IsZero() {
			return true
		}
	}
	return false
}

func offer(o observe.Offer) string {
	text := clean(o.InstanceType + " " + o.Region)
	if o.Known {
		text += " " + usd(o.HourlyUSD) + "/h"
	}
	return text
}

// nodeItems returns the items about nodes, and how many nodes are ready and do nothing.
func nodeItems(run observe.Run, p *paces, d display, open map[string]bool) (items []item, idle int) {
	phases := map[string][]observe.Phase{}
	for _, ph := range run.Phases {
		if ph.Node != "" && isRunning(ph) {
			phases[ph.Node] = append(phases[ph.Node], ph)
		}
	}
	tasks := map[string]*observe.Task{}
	for i := range run.Tasks {
		if t := &run.Tasks[i]; t.State == "started" || t.State == "silent" {
			tasks[t.Pool+"\x00"+t.ID] = t
		}
	}
	type rank struct {
		pool string
		rank int
	}
	living := map[rank]bool{}
	for _, n := range run.Nodes {
		if n.Gone.IsZero() {
			living[rank{n.Pool, n.Rank}] = true
		}
	}
	for _, n := range run.Nodes {
		if !open[n.Pool] {
			continue
		}
		it := item{pool: n.Pool, place: place(n), price: price(n), use: use(n, run.At)}
		name := fmt.Sprintf("node %d ", n.Rank)
		switch n.State {
		case gputrain.NodeTerminated.String():
			continue
		case gputrain.NodeFailed.String(), gputrain.NodeLost.String(), gputrain.NodeUnreachable.String():
			over := n.State != gputrain.NodeUnreachable.String()
			if over && living[rank{n.Pool, n.Rank}] && run.At.Sub(n.Since) > lostFor {
				continue
			}
			it.group, it.tone, it.use = brokenGroup, badTone, ""
			if !over {
				it.tone = warnTone
			}
			it.head, it.work = name+n.State+" "+span(run.At.Sub(n.Since)), clean(n.Err)
			items = append(items, it)
		case gputrain.NodeReady.String():
			it.group, it.tone = busyGroup, busyTone
			it.work = work(n, tasks, run.At)
			running := phases[n.Key]
			switch {
			case !n.Preempt.IsZero():
				it.group, it.tone, it.head = brokenGroup, warnTone, name+"preempted in "+span(n.Preempt.Sub(run.At))
			case it.work == "" && len(running) > 0:
				it.group, it.tone = startingGroup, plainTone
				it.head, it.work = name+"ready", phaseWork(running[0], p, d, run.At)
			case it.work == "":
				idle++
				continue
			default:
				it.head = name + "busy"
			}
			items = append(items, it)
		default: // on its way up
			it.group = startingGroup
			it.head = name + clean(n.State) + " " + span(run.At.Sub(n.Since))
			running := phases[n.Key]
			if len(running) == 0 {
				it.work = clean(n.Err)
				items = append(items, it)
			}
			for i, ph := range running {
				if i > 0 {
					it.place, it.price, it.use = "", "", ""
				}
				it.work = phaseWork(ph, p, d, run.At)
				if p.isStalled(phaseKey(ph), run.At) {
					it.tone = warnTone
				}
				items = append(items, it)
			}
		}
	}
	return append(items, gangItems(tasks, open, run.At)...), idle
}

// gangItems returns the items about trainings that run, which are on several nodes.
func gangItems(tasks map[string]*observe.Task, open map[string]bool, now time.Time) (items []item) {
	for _, key := range slices.Sorted(maps.Keys(tasks)) {
		if t := tasks[key]; t.Node == "" && open[t.Pool] {
			items = append(items, item{group: busyGroup, pool: t.Pool, head: fmt.Sprintf("attempt %d", t.Attempt), work: taskWork(t, now), tone: busyTone})
		}
	}
	return items
}

// place returns what a node is and where: "L4 europe-west4".
func place(n observe.Node) string {
	kind := n.InstanceType
	if !n.Accelerator.IsZero() {
		kind = n.Accelerator.String()
	}
	return clean(kind + " " + n.Region)
}

// price returns what a node costs, or "" if that is not known.
func price(n observe.Node) string {
	if perHour, known := n.HourlyUSD.USD(); known {
		return usd(perHour) + "/h"
	}
	return ""
}

// use returns how much a node's accelerators do, or its processors if it has none.
func use(n observe.Node, now time.Time) string {
	if n.UsageAt.IsZero() || now.Sub(n.UsageAt) > sampleAge {
		return ""
	}
	if len(n.Usage) == 0 {
		if n.Host == nil {
			return ""
		}
		return load("cpu", n.Host.CPU, n.Host.MemoryGiB, n.Host.MemoryTotalGiB)
	}
	var sum, known, used, total float64
	for _, s := range n.Usage {
		if !math.IsNaN(s.Utilization) {
			sum += s.Utilization
			known++
		}
		used += s.MemoryGiB
		total += s.MemoryTotalGiB
	}
	return load("gpu", sum/known, used, total)
}

// load returns "gpu 97% 18/24GiB". What is NaN is not known.
func load(name string, percent, used, total float64) string {
	text := name
	if !math.IsNaN(percent) {
		text += fmt.Sprintf(" %.0f%%", min(max(percent, 0), 100))
	}
	if used >= 0 && total > 0 {
		text += fmt.Sprintf(" %.0f/%.0fGiB", used, total)
	}
	if text == name {
		return ""
	}
	return text
}

// A row names at most shownTasks tasks.
const shownTasks = 8

// work returns the tasks of a node.
func work(n observe.Node, tasks map[string]*observe.Task, now time.Time) string {
	var texts []string
	running := 0
	for _, id := range n.Tasks {
		running++
		if t := tasks[n.Pool+"\x00"+id]; len(texts) < shownTasks && t != nil {
			texts = append(texts, taskWork(t, now))
		}
	}
	text := strings.Join(texts, ", ")
	switch more := running - len(texts); {
	case running == 0:
		return ""
	case len(texts) == 0:
		return count(running, "task")
	case more > 0:
		return text + fmt.Sprintf(", %d more", more)
	}
	return text
}
