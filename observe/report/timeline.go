package report

import (
	"cmp"
	"fmt"
	"html"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/observe"
)

// These bound the timeline.
const (
	mostRows    = 60   // nodes
	mostLanes   = 4    // tasks side by side on a node
	mostTitles  = 4000 // bars with a text of their own
	titledWidth = 8.0  // the least width of such a bar
)

// A timelineRow is one node of the timeline.
type timelineRow struct {
	name  string
	node  *nodeSummary
	lanes int
	bars  []bar
}

// A bar is one phase or attempt in a row, from x for a width.
type bar struct {
	x, width float64
	class    string // of the style sheet
	lane     int    // -1 for the whole height
	what     string
	n        int // how many it stands for
}

// timeline draws the nodes as rows, with their phases and tasks as bars. It is "" without nodes.
func timeline(s *summary) string {
	if len(s.Nodes) == 0 {
		return ""
	}
	scale := timeScale{s.From, s.To}
	rows, left := s.timelineRows(scale)
	var b strings.Builder
	top, height, pitch := 24.0, 14.0, 18.0
	bottom := top + pitch*float64(len(rows))
	b.WriteString(legend(12, [2]string{box("life"), "node is there"}, [2]string{box("phase"), "phase"}, [2]string{box("task"), "task"},
		[2]string{box("again"), "attempt that was repeated or cancelled"}, [2]string{box("bad"), "failed"},
		[2]string{"<g transform=\"translate(%s %s)\">" + preemptionSign(8, -10) + "</g>\n", "preemption"}, [2]string{"<g transform=\"translate(%s %s)\">" + lossSign(8, -4) + "</g>\n", "lost or failed node"}))
	b.WriteString(scale.axis(top, bottom))
	titles := 0
	for i, row := range rows {
		row.draw(&b, scale, top+pitch*float64(i), height, &titles)
	}
	end := bottom + 20
	if left > 0 {
		end += 18
		b.WriteString(label(leftMargin, bottom+32, "start", fmt.Sprintf("and %d more nodes", left)))
	}
	description := fmt.Sprintf("%s over %s, each with its phases and tasks as bars. The tables below have the same in numbers.", count(len(rows), "node"), took(s.elapsed()))
	return svg("timeline-figure", end, "Timeline of the nodes", description, b.String())
}

// timelineRows returns the rows, and how many nodes have none. Nodes with trouble come before others if there are too many.
func (s *summary) timelineRows(scale timeScale) (rows []timelineRow, left int) {
	var shown []*nodeSummary
	for i := range s.Nodes {
		shown = append(shown, &s.Nodes[i])
	}
	if len(shown) > mostRows {
		left = len(shown) - mostRows
		troubled := func(n *nodeSummary) int {
			if n.Err != "" || isLost(n) || !n.Preempt.IsZero() {
				return 0
			}
			return 1
		}
		slices.SortStableFunc(shown, func(a, b *nodeSummary) int { return cmp.Compare(troubled(a), troubled(b)) })
		shown = shown[:mostRows]
	}
	slices.SortStableFunc(shown, func(a, b *nodeSummary) int {
		return cmp.Or(cmp.Compare(a.Pool, b.Pool), cmp.Compare(a.Rank, b.Rank), a.From.Compare(b.From))
	})
	index := map[string]*timelineRow{}
	rows = make([]timelineRow, len(shown))
	for i, n := range shown {
		rows[i] = timelineRow{name: fmt.Sprintf("node %d", n.Rank), node: n, lanes: 1}
		index[n.Key] = &rows[i]
	}
	for _, p := range s.run.Phases {
		if row := index[p.Node]; row != nil && !p.Began.IsZero() {
			class := "phase"
			if p.State == "failed" {
				class = "bad"
			}
			row.add(scale, s.clip(interval{p.Began, p.Ended}), bar{class: class, lane: -1, what: "phase " + p.Name})
		}
	}
	for _, t := range s.run.Tasks {
		all := attempts(t)
		for i, a := range all {
			what := "task " + t.ID
			if t.Name != "" && t.Name != t.ID {
				what += " (" + t.Name + ")"
			}
			if a.Number > 1 {
				what += fmt.Sprintf(", attempt %d", a.Number)
			}
			lane := max(a.Slot, 0) % mostLanes
			for _, key := range nodesOf(a) {
				if row := index[key]; row != nil {
					row.lanes = max(row.lanes, lane+1)
					row.add(scale, s.clip(interval{a.Began, a.Ended}), bar{class: barClass(t, i == len(all)-1), lane: lane, what: what})
				}
			}
		}
	}
	for i := range rows {
		rows[i].bars = mergeBars(rows[i].bars)
	}
	return rows, left
}

// barClass returns how an attempt at a task is shown.
func barClass(t observe.Task, last bool) string {
	switch {
	case !last, t.State == "retrying", t.State == "cancelled":
		return "again"
	case t.State == "failed":
		return "bad"
	}
	return "task"
}

func (r *timelineRow) add(scale timeScale, i interval, b bar) {
	b.x, b.n = scale.x(i.Began), 1
	b.width = max(scale.x(i.Ended)-b.x, 0)
	r.bars = append(r.bars, b)
}

// mergeBars replaces bars of one class and lane that are less than a pixel wide and less than a pixel apart by one. The result
// is by lane and class, those that failed last.
func mergeBars(bars []bar) (merged []bar) {
	slices.SortStableFunc(bars, func(a, b bar) int {
		return cmp.Or(cmp.Compare(a.lane, b.lane), cmp.Compare(order(a), order(b)), cmp.Compare(a.x, b.x))
	})
	small := false // the last one of merged consists of bars below a pixel
	for _, b := range bars {
		if n := len(merged); n > 0 {
			last := &merged[n-1]
			if last.lane == b.lane && last.class == b.class && b.x-(last.x+last.width) < 1 && (b.width < 1 && small || b.x+b.width <= last.x+last.width) {
				last.width = max(last.width, b.x+b.width-last.x)
				last.n += b.n
				continue
			}
		}
		merged, small = append(merged, b), b.width < 1
	}
	for i := range merged {
		merged[i].width = max(merged[i].width, 1)
	}
	return merged
}

// order returns which classes are drawn later, and so on top.
func order(b bar) int {
	return slices.Index([]string{"life", "phase", "task", "again", "bad"}, b.class)
}

// draw writes a row whose top is y. Narrow bars of a class share one path, so that many of them take little space.
func (r timelineRow) draw(b *strings.Builder, scale timeScale, y, height float64, titles *int) {
	b.WriteString(label(leftMargin-8, y+height-3, "end", r.name))
	from, to := scale.x(r.node.From), scale.x(r.node.To)
	fmt.Fprintf(b, "<rect class=\"life\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"><title>%s</title></rect>\n",
		coordinate(from), coordinate(y), coordinate(max(to-from, 1)), coordinate(height), html.EscapeString(cleanLine(r.name+", "+r.node.State+", "+machine(r.node.Node))))
	class, path := "", ""
	flush := func() {
		if path != "" {
			fmt.Fprintf(b, "<path class=\"%s\" d=\"%s\"/>\n", class, path)
		}
		path = ""
	}
	for _, bar := range r.bars {
		top, tall := y+2, height-4
		if bar.lane >= 0 {
			tall /= float64(r.lanes)
			top += tall * float64(bar.lane)
		}
		width := bar.width
		if width > 2 {
			width -= 0.5 // keeps neighbours apart
		}
		if bar.class != class {
			flush()
			class = bar.class
		}
		if bar.width < titledWidth || *titles >= mostTitles {
			path += fmt.Sprintf("M%s %sh%sv%sh-%[3]sz", coordinate(bar.x), coordinate(top), coordinate(width), coordinate(tall))
			continue
		}
		*titles++
		fmt.Fprintf(b, "<rect class=\"%s\" x=\"%s\" y=\"%s\" width=\"%s\" height=\"%s\"><title>%s</title></rect>\n",
			bar.class, coordinate(bar.x), coordinate(top), coordinate(width), coordinate(tall), html.EscapeString(cleanLine(bar.text())))
	}
	flush()
	if !r.node.Preempt.IsZero() {
		b.WriteString(preemptionSign(scale.x(r.node.Preempt), y))
	}
	if isLost(r.node) {
		b.WriteString(lossSign(to, y+height/2))
	}
}

// text describes a bar.
func (b bar) text() string {
	if b.n > 1 {
		return fmt.Sprintf("%s and %d more", b.what, b.n-1)
	}
	return b.what
}

func isLost(n *nodeSummary) bool { return n.State == "lost" || n.State == "failed" }

// preemptionSign is a triangle whose point is below x, y.
func preemptionSign(x, y float64) string {
	return fmt.Sprintf("<path class=\"sign\" d=\"M%s %sh10l-5 9z\"><title>the provider takes the machine back</title></path>\n", coordinate(x-5), coordinate(y))
}

// lossSign is a cross around x, y.
func lossSign(x, y float64) string {
	return fmt.Sprintf("<path class=\"mark\" d=\"M%s %sl8 8m0 -8l-8 8\"><title>the node was lost or failed</title></path>\n", coordinate(x-4), coordinate(y-4))
}
