package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/observe"
)

// A display is what a terminal can show.
type display struct {
	columns, rows int
	color         bool
	unicode       bool
}

// A tone is how a row is coloured.
type tone int

const (
	plainTone tone = iota
	badTone
	warnTone
	busyTone
	faintTone
	strongTone
)

// A row is one row of the block.
type row struct {
	text string
	tone tone
}

// A group says which items come first.
type group int

const (
	brokenGroup group = iota
	startingGroup
	busyGroup
	groups
)

// An item is a row about a node, a phase, a transfer or a pool, in columns.
type item struct {
	group                   group
	pool                    string
	head, place, price, use string
	work                    string
	tone                    tone
}

// frame returns the rows of the block: a third of the display's at most, and none unless a pool is open.
func frame(run observe.Run, p *paces, d display) []row {
	open := openPools(run)
	if len(open) == 0 {
		return nil
	}
	items, ready := itemsOf(run, p, d, open)
	var waits []row
	for _, pool := range run.Pools {
		if open[pool.ID] && pool.Waiting != "" {
			waits = append(waits, row{prefix(run, pool.ID) + "waiting: " + clean(pool.Waiting), warnTone})
		}
	}
	free := max(d.rows/3, 1) - 1 // without the last row
	total := len(items) + len(waits)
	if ready > 0 {
		total++
	}
	shown, waiting := len(items), len(waits)
	if total > free {
		waiting = min(len(waits), max(1, free/4), free/2)
		shown = min(len(items), max(free-waiting-1, 0))
	}
	rows := layOut(items[:shown], len(run.Pools) > 1, d)
	rows = append(rows, waits[:waiting]...)
	if text := more(items[shown:], len(waits)-waiting, ready, len(rows) > 0); text != "" && free > 0 {
		rows = append(rows, row{text, faintTone})
	}
	rows = append(rows, row{lastLine(run, d.columns), strongTone})
	for i, r := range rows {
		if !d.unicode {
			r.text = ascii(r.text)
		}
		r.text = strings.TrimRight(fit(r.text, d.columns), " ")
		if !d.unicode {
			r.text = ascii(r.text)
		}
		rows[i] = r
	}
	return rows
}

// openPools returns the IDs of the pools that have not ended.
func openPools(run observe.Run) map[string]bool {
	open := map[string]bool{}
	for _, p := range run.Pools {
		if p.Closed.IsZero() {
			open[p.ID] = true
		}
	}
	return open
}

// prefix names the pool in a line, if there are several.
func prefix(run observe.Run, pool string) string {
	if len(run.Pools) < 2 || pool == "" {
		return ""
	}
	return fit(clean(pool), 16) + " "
}

// more says what has no row of its own.
func more(items []item, waits, ready int, after bool) string {
	var counts [groups]int
	for _, it := range items {
		counts[it.group]++
	}
	var parts []string
	for g, word := range [groups]string{"failed", "starting", "busy"} {
		if counts[g] > 0 {
			parts = append(parts, fmt.Sprintf("%d more %s", counts[g], word))
		}
	}
	if waits > 0 {
		parts = append(parts, fmt.Sprintf("%d more waiting", waits))
	}
	switch {
	case ready > 0 && (after || len(parts) > 0):
		parts = append(parts, fmt.Sprintf("%d more ready", ready))
	case ready > 0:
		return count(ready, "node") + " ready"
	case len(parts) == 0:
		return ""
	}
	return "and " + strings.Join(parts, ", ")
}

// The columns of a display from which a column of the table is shown.
const (
	priceFrom = 60
	useFrom   = 100
	placeFrom = 120
)

// layOut puts the items' fields into columns.
func layOut(items []item, pools bool, d display) []row {
	columns := []struct {
		from, most int
		of         func(item) string
	}{
		{0, 16, func(it item) string {
			if !pools {
				return ""
			}
			return clean(it.pool)
		}},
		{0, max(d.columns/2, 14), func(it item) string { return it.head }},
		{placeFrom, 24, func(it item) string { return it.place }},
		{priceFrom, 12, func(it item) string { return it.price }},
		{useFrom, 22, func(it item) string { return it.use }},
	}
	texts := make([]strings.Builder, len(items))
	for _, c := range columns {
		width := 0
		for _, it := range items {
			width = max(width, widths.StringWidth(c.of(it)))
		}
		if width == 0 || d.columns < c.from {
			continue
		}
		for i, it := range items {
			texts[i].WriteString(pad(c.of(it), min(width, c.most)) + "  ")
		}
	}
	rows := make([]row, len(items))
	for i, it := range items {
		rows[i] = row{texts[i].String() + it.work, it.tone}
	}
	return rows
}

// itemsOf returns the items in order, and how many nodes are ready and do nothing.
func itemsOf(run observe.Run, p *paces, d display, open map[string]bool) (items []item, ready int) {
	for _, pool := range run.Pools {
		if open[pool.ID] {
			items = append(items, poolItems(run, pool)...)
		}
	}
	nodes, ready := nodeItems(run, p, d, open)
	items = append(items, nodes...)
	items = append(items, moveItems(run, p, d, open)...)
	slices.SortStableFunc(items, func(a, b item) int { return cmp.Compare(a.group, b.group) })
	return items, ready
}
