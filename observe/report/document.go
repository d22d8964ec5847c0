package report

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/gputrain/gputrain/observe"
)

// A document is a report before it has a format. Its texts can be shown, and are not escaped.
type document struct {
	Title    string
	Facts    []fact
	Cause    []string // what went wrong first; nil if nothing did
	Sections []section
	sum      *summary
}

// A fact is a name and its value, at the top of the report.
type fact struct{ Name, Value string }

// A section is a part of a report: tables, or for formats that have pictures a figure, or outputs.
type section struct {
	ID, Title string
	Text      string // says how to read it, or why it is empty
	Tables    []table
	Figure    func(*summary) string // SVG
	Outputs   []printed
}

// A table is one table. Each row has as many cells as Columns.
type table struct {
	Caption string
	Columns []column
	Rows    [][]string
	// More is a row for those that were left out, and Total one for the sum. They are nil if there is none.
	More, Total []string
}

type column struct {
	Name   string
	Number bool // is aligned to the right
}

// printed are the last lines of something that failed.
type printed struct {
	Title string
	Err   string
	Lines []string
}

// These bound what is shown, so that the report of a large run can be opened.
const (
	mostNodes    = 100
	mostNames    = 50
	mostPhases   = 20
	mostRetried  = 50
	mostOffers   = 100
	mostFailures = 100
	mostOutputs  = 30 // with their last lines
	shownLines   = 30 // of each
)

func newDocument(run observe.Run) *document {
	s := summarize(run)
	d := &document{sum: s, Title: title(run), Facts: s.facts()}
	if c, ok := findCause(run); ok {
		d.Cause = c.text(false)
	}
	d.Sections = append(d.Sections,
		section{ID: "timeline", Title: "Timeline", Figure: timeline},
		section{ID: "cost", Title: "Cost", Text: s.costText(), Tables: []table{s.nodeTable(), s.nameTable(), s.stateTable()}, Figure: costPlot},
		section{ID: "use", Title: "Use of the nodes", Figure: usePlot},
		s.failureSection(),
		section{ID: "phases", Title: "Slowest phases", Tables: []table{s.phaseTable()}},
		section{ID: "retries", Title: "Retries", Tables: []table{s.retryTable()}},
		section{ID: "offers", Title: "Offers tried", Tables: []table{s.offerTable()}},
	)
	return d
}

// title names the pools.
func title(run observe.Run) string {
	var names []string
	for _, p := range run.Pools {
		if len(names) == 3 {
			names = append(names, fmt.Sprintf("and %d more", len(run.Pools)-3))
			break
		}
		names = append(names, cleanLine(p.ID))
	}
	if names == nil {
		return "gputrain report"
	}
	return "gputrain report: " + strings.Join(names, ", ")
}

func (s *summary) facts() []fact {
	run, c := s.run, s.run.Counts
	if run.Seq == 0 && run.Pools == nil && run.Tasks == nil && run.Nodes == nil {
		return []fact{{"Recorded", "nothing"}}
	}
	facts := []fact{
		{"Time", clock(s.From) + " to " + clock(s.To) + " UTC (" + took(s.elapsed()) + ")"},
		{"Pools", s.poolStates()},
		{"Nodes", fmt.Sprintf("%d ready, %d starting, %d failed or unreachable, %d gone", c.Ready, c.Starting, c.Broken, c.Gone)},
		{"Tasks", fmt.Sprintf("%d done, %d failed, %d cancelled, %d running, %d waiting, %s", c.Done, c.Failed, c.Cancelled, c.Running, c.Waiting, retries(c.Retries))},
		{"Spent", usd(s.SpentUSD) + s.unpriced()},
	}
	if finite(run.BudgetUSD) > 0 {
		facts = append(facts, fact{"Budget", fmt.Sprintf("%s, of which %s is spent", usd(run.BudgetUSD), percent(100*s.SpentUSD/run.BudgetUSD))})
	}
	if finite(run.HourlyUSD) != 0 {
		facts = append(facts, fact{"Cost per hour", usd(run.HourlyUSD)})
		most := "not bounded"
		if run.Bounded {
			most = "at most " + usd(run.AtMostUSD)
		}
		facts = append(facts, fact{"If the program dies now", most})
	}
	if run.Omitted > 0 {
		facts = append(facts, fact{"Not recorded", count(run.Omitted, "event or line") + ", because too many came at once"})
	}
	return facts
}

func retries(n int) string {
	if n == 1 {
		return "1 retry"
	}
	return fmt.Sprintf("%d retries", n)
}

// poolStates lists the states of the pools.
func (s *summary) poolStates() string {
	var all []string
	for i, p := range s.run.Pools {
		if i == 5 {
			all = append(all, fmt.Sprintf("and %d more", len(s.run.Pools)-i))
			break
		}
		text := cleanLine(p.ID) + " " + cmp.Or(cleanLine(p.State), "unknown")
		if p.Err != "" {
			text += " (" + firstLine(p.Err) + ")"
		}
		all = append(all, text)
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// unpriced says that the costs lack nodes.
func (s *summary) unpriced() string {
	n := 0
	for _, node := range s.Nodes {
		if !node.Known {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return ", without " + count(n, "node") + " whose price is not known"
}

func (s *summary) costText() string {
	return "These are estimates from prices and times; the provider's bill decides. Bootstrap, busy and idle are parts of a node's time: until it was ready, with at least one task, and ready without one."
}

// nodeName names a node by its rank and key.
func (s *summary) nodeName(key string, rank int) string {
	if n := s.node(key); n != nil {
		rank = n.Rank
	}
	if rank < 0 {
		return ""
	}
	same := 0
	for i := range s.Nodes {
		if s.Nodes[i].Rank == rank {
			same++
		}
	}
	if same > 1 { // several machines had this rank
		return fmt.Sprintf("node %d (%s)", rank, cleanLine(key))
	}
	return fmt.Sprintf("node %d", rank)
}
