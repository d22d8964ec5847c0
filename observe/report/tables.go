package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gputrain/gputrain/observe"
)

func text(name string) column   { return column{Name: name} }
func number(name string) column { return column{Name: name, Number: true} }

// nodeTable has the costs by node. If there are too many, it has those that cost most.
func (s *summary) nodeTable() table {
	t := table{
		Caption: "Cost by node",
		Columns: []column{text("Node"), text("Machine"), text("State"), number("$/h"), number("Time"), number("Bootstrap"), number("Busy"), number("Idle"), number("Tasks"), number("Cost")},
	}
	shown := make([]*nodeSummary, len(s.Nodes))
	for i := range s.Nodes {
		shown[i] = &s.Nodes[i]
	}
	if len(shown) > mostNodes {
		slices.SortStableFunc(shown, func(a, b *nodeSummary) int { return cmp.Compare(b.USD, a.USD) })
		rest := 0.0
		for _, n := range shown[mostNodes:] {
			rest += n.USD
		}
		t.More = sumRow(len(t.Columns), fmt.Sprintf("and %d more", len(shown)-mostNodes), rest)
		shown = shown[:mostNodes]
	}
	for _, n := range shown {
		bootstrap, busy, idle := percent(n.Bootstrap), percent(n.Busy), percent(n.Idle)
		if !n.To.After(n.From) {
			bootstrap, busy, idle = "", "", ""
		}
		cost := usd(n.USD)
		if !n.Known {
			cost = "unknown"
		}
		t.Rows = append(t.Rows, []string{
			s.nodeName(n.Key, n.Rank), machine(n.Node), cleanLine(n.State), price(n.Node),
			took(n.To.Sub(n.From)), bootstrap, busy, idle, fmt.Sprint(max(n.Tasks, n.Ended)), cost,
		})
	}
	if usd(s.OtherUSD) != usd(0) {
		t.Rows = append(t.Rows, sumRow(len(t.Columns), "other: volumes, traffic, rounding", s.OtherUSD))
	}
	t.Total = sumRow(len(t.Columns), "total", s.SpentUSD)
	return t
}

// sumRow returns a row that has only a name, and an amount at its end.
func sumRow(cells int, name string, amount float64) []string {
	row := make([]string, cells)
	row[0], row[cells-1] = name, usd(amount)
	return row
}

// machine describes what was rented.
func machine(n *observe.Node) string {
	parts := []string{n.Provider, n.InstanceType, n.Region}
	parts = slices.DeleteFunc(parts, func(s string) bool { return s == "" })
	return cleanLine(strings.Join(parts, " "))
}

func price(n *observe.Node) string {
	perHour, known := n.HourlyUSD.USD()
	if !known {
		return "unknown"
	}
	return usd(perHour)
}

// nameTable has the costs by task name.
func (s *summary) nameTable() table {
	t := table{
		Caption: "Cost by task name",
		Columns: []column{text("Task"), number("Done"), number("Failed"), number("Cancelled"), number("Not ended"), number("Attempts"), number("Time"), number("Cost")},
	}
	rest, more := 0.0, 0
	for i, n := range s.Names {
		if i >= mostNames {
			rest, more = rest+n.USD, more+1
			continue
		}
		t.Rows = append(t.Rows, []string{
			cmp.Or(cleanLine(n.Name), "(no name)"), fmt.Sprint(n.Done), fmt.Sprint(n.Failed), fmt.Sprint(n.Cancelled), fmt.Sprint(n.Open),
			fmt.Sprint(n.Attempts), took(n.Time), usd(n.USD),
		})
	}
	if more > 0 {
		t.More = sumRow(len(t.Columns), fmt.Sprintf("and %d more", more), rest)
	}
	if usd(s.NoTaskUSD) != usd(0) {
		t.Rows = append(t.Rows, sumRow(len(t.Columns), "no task: bootstrap, idle, shared", s.NoTaskUSD))
	}
	t.Total = sumRow(len(t.Columns), "total", s.SpentUSD)
	return t
}

// stateTable has the costs by what they were paid for.
func (s *summary) stateTable() table {
	t := table{Caption: "Cost by state", Columns: []column{text("Paid for"), number("Share"), number("Cost")}}
	for _, c := range s.States {
		if usd(c.USD) != usd(0) {
			t.Rows = append(t.Rows, []string{c.State, s.share(c.USD), usd(c.USD)})
		}
	}
	t.Total = []string{"total", s.share(s.SpentUSD), usd(s.SpentUSD)}
	return t
}

// share returns an amount in percent of the whole.
func (s *summary) share(v float64) string {
	if s.SpentUSD == 0 {
		return ""
	}
	return percent(100 * v / s.SpentUSD)
}

// phaseTable has the phases that took longest.
func (s *summary) phaseTable() table {
	t := table{Caption: "Slowest phases of the nodes' bootstrap", Columns: []column{text("Phase"), text("Node"), text("State"), text("Began"), number("Took")}}
	for _, p := range s.Slowest[:min(len(s.Slowest), mostPhases)] {
		t.Rows = append(t.Rows, []string{cleanLine(p.Name), s.nodeName(p.Node, p.Rank), cleanLine(p.State), clock(p.Began), took(s.took(p))})
	}
	t.andMore(len(s.Slowest))
	return t
}

// andMore adds a row that counts those of so many that have none.
func (t *table) andMore(all int) {
	if all > len(t.Rows) {
		t.More = make([]string, len(t.Columns))
		t.More[0] = fmt.Sprintf("and %d more", all-len(t.Rows))
	}
}

// retryTable has the tasks with several attempts.
func (s *summary) retryTable() table {
	t := table{Caption: "Tasks with several attempts", Columns: []column{text("Task"), text("Name"), text("State"), number("Attempts"), text("Why"), number("Cost")}}
	for _, task := range s.Retried[:min(len(s.Retried), mostRetried)] {
		var why []string
		for _, a := range task.Attempts {
			if a.Cause != "" || a.Err != "" {
				why = append(why, strings.TrimSpace(fmt.Sprintf("%d: %s %s", a.Number, cleanLine(a.Cause), onNode(s.nodeName(a.Node, -1)))))
			}
		}
		t.Rows = append(t.Rows, []string{cleanLine(task.ID), cleanLine(task.Name), cleanLine(task.State), fmt.Sprint(attemptsOf(task)), cut(strings.Join(why, "; "), longestLine), usd(task.SpentUSD)})
	}
	t.andMore(len(s.Retried))
	return t
}

func onNode(name string) string {
	if name == "" {
		return ""
	}
	return "on " + name
}

// offerTable has the offers that were tried. Those that are alike share a row.
func (s *summary) offerTable() table {
	t := table{Caption: "Offers that were tried, and why not", Columns: []column{text("Provider"), text("Machine"), text("Region"), number("$/h"), text("State"), number("Times"), text("Why")}}
	type alike struct{ provider, machine, region, price, state, why string }
	index := map[alike]int{}
	var all []alike
	var times []int
	for _, o := range s.run.Offers {
		price := "unknown"
		if o.Known {
			price = usd(o.HourlyUSD)
		}
		if o.Spot {
			price += " spot"
		}
		a := alike{cleanLine(o.Provider), cleanLine(o.InstanceType), cleanLine(o.Region), price, cleanLine(o.State), firstLine(o.Err)}
		i, ok := index[a]
		if !ok {
			i = len(all)
			index[a] = i
			all, times = append(all, a), append(times, 0)
		}
		times[i]++
	}
	for i, a := range all[:min(len(all), mostOffers)] {
		t.Rows = append(t.Rows, []string{a.provider, a.machine, a.region, a.price, a.state, fmt.Sprint(times[i]), a.why})
	}
	t.andMore(len(all))
	return t
}
