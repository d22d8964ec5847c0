package observe

import (
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
)

// mostText bounds a text of an error in a Run, and a stack, in bytes.
const mostText = 8 << 10

// cut returns a text, or its beginning and its end.
func cut(text string) string {
	if len(text) <= mostText {
		return text
	}
	return strings.ToValidUTF8(text[:mostText/2]+"\n...\n"+text[len(text)-mostText/2:], "")
}

// lineCost is what a line takes in memory beside its text, in bytes.
const lineCost = 200

// forget leaves out the oldest lines of all tasks and phases, if all lines have more bytes than the state keeps. Then half of that is
// left.
func (s *state) forget() {
	if s.bytes <= s.mostBytes {
		return
	}
	var all []*[]gputrain.Line
	for _, t := range s.tasks.all {
		all = append(all, &t.Lines)
	}
	for _, p := range s.phases.all {
		all = append(all, &p.Lines)
	}
	type sized struct {
		at   time.Time
		cost int64
	}
	var lines []sized
	s.bytes = 0
	for _, of := range all {
		for i := range *of {
			cost := lineCost + int64(len((*of)[i].Text))
			lines, s.bytes = append(lines, sized{(*of)[i].Time, cost}), s.bytes+cost
		}
	}
	slices.SortStableFunc(lines, func(a, b sized) int { return a.at.Compare(b.at) })
	var until time.Time // and then they are kept
	for _, l := range lines {
		if s.bytes <= s.mostBytes/2 {
			break
		}
		s.bytes -= l.cost
		until = l.at
	}
	for _, of := range all {
		kept := slices.DeleteFunc(slices.Clone(*of), func(l gputrain.Line) bool { return !l.Time.After(until) })
		if s.omitted += len(*of) - len(kept); len(kept) < len(*of) {
			*of = slices.Clone(kept) // of which the old ones have no part
		}
	}
}

// recent has the newest entries, without gaps.
type recent struct {
	entries []Entry
	sizes   []int64
	bytes   int64
	most    int64
}

func (r *recent) add(e Entry) {
	size := sizeOf(e)
	r.entries, r.sizes, r.bytes = append(r.entries, e), append(r.sizes, size), r.bytes+size
	if len(r.entries) < 2*keptEntries && r.bytes <= r.most {
		return
	}
	gone := max(len(r.entries)-keptEntries, 0)
	for i := range r.sizes {
		if i >= gone && r.bytes <= r.most/2 {
			gone = i
			break
		}
		r.bytes -= r.sizes[i]
		gone = max(gone, i+1)
	}
	r.entries, r.sizes = slices.Clone(r.entries[gone:]), slices.Clone(r.sizes[gone:])
}

// sizeOf returns about what an entry takes in memory, in bytes.
func sizeOf(e Entry) int64 {
	if e.Line != nil {
		return lineCost + int64(len(e.Line.Text))
	}
	ev := e.Event
	size := 1000 + len(ev.Path) + len(ev.Name) + 200*len(ev.Usage.Accelerators) + 100*len(ev.Step.Values)
	if ev.Err != nil {
		tail, stack := detailsOf(ev.Err)
		size += len(ev.Err.Error()) + len(tail) + len(stack)
	}
	if ev.Tally != nil {
		size += 200 * len(ev.Tally.Ended)
	}
	if ev.Spec != nil {
		size += 10_000
	}
	if ev.Cost != nil {
		size += 200 * len(ev.Cost.Nodes)
	}
	return int64(size)
}
