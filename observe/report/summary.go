package report

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// A summary has the numbers of a Run that several outputs need. Its costs are finite.
type summary struct {
	run observe.Run
	// From and To are the time that the report covers. To is after From.
	From, To time.Time

	SpentUSD float64
	// Nodes are in the order of the Run. Their costs and OtherUSD add up to SpentUSD.
	Nodes    []nodeSummary
	OtherUSD float64
	// Names are by cost, the highest first. Their costs and NoTaskUSD add up to SpentUSD.
	Names     []nameSummary
	NoTaskUSD float64
	// States divide SpentUSD by what it was paid for.
	States []stateCost

	Slowest []observe.Phase // the longest first
	Retried []observe.Task  // those with more than one attempt, most attempts first

	byKey map[string]int // indexes of Nodes
}

// A nodeSummary describes what one node has cost and done.
type nodeSummary struct {
	*observe.Node
	// From and To bound its time: from its launch until it was gone, or until now.
	From, To time.Time
	USD      float64
	// Bootstrap, Busy and Idle divide its time, in percent. All are 0 if it has lasted no time.
	Bootstrap, Busy, Idle float64
	// Work are the times in which at least one task ran, without overlaps.
	Work  []interval
	Tasks int // attempts that ran on it, as far as they are known
}

// A nameSummary sums up the tasks of one name.
type nameSummary struct {
	Name                                    string
	Done, Failed, Cancelled, Open, Attempts int           // Open are those that have not ended
	Time                                    time.Duration // of all attempts
	USD                                     float64
}

// A stateCost is the part of the cost that was paid for one state.
type stateCost struct {
	State string
	USD   float64
}

// An interval is a time from Began until before Ended.
type interval struct{ Began, Ended time.Time }

func (i interval) length() time.Duration { return max(i.Ended.Sub(i.Began), 0) }

func summarize(run observe.Run) *summary {
	s := &summary{run: run, SpentUSD: finite(run.SpentUSD), byKey: map[string]int{}}
	s.From, s.To = span(run)
	s.addNodes()
	s.addNames()
	s.addStates()
	for _, p := range run.Phases {
		if !p.Began.IsZero() && p.State != "cached" {
			s.Slowest = append(s.Slowest, p)
		}
	}
	slices.SortStableFunc(s.Slowest, func(a, b observe.Phase) int { return cmp.Compare(s.took(b), s.took(a)) })
	for _, t := range run.Tasks {
		if len(t.Attempts) > 1 || t.Attempt > 1 {
			s.Retried = append(s.Retried, t)
		}
	}
	slices.SortStableFunc(s.Retried, func(a, b observe.Task) int { return cmp.Compare(attemptsOf(b), attemptsOf(a)) })
	return s
}

// longestRun bounds what can be the time of a run: more is a clock that was wrong.
const longestRun = 10 * 365 * 24 * time.Hour

// span returns the time that a Run covers.
func span(run observe.Run) (from, to time.Time) {
	from, to = run.Began, run.At
	note := func(t time.Time) {
		if t.IsZero() {
			return
		}
		if run.Began.IsZero() && (from.IsZero() || t.Before(from)) {
			from = t
		}
		if run.At.IsZero() && t.After(to) {
			to = t
		}
	}
	for _, p := range run.Pools {
		note(p.Opened)
		note(p.Closed)
	}
	for _, n := range run.Nodes {
		note(n.Launched)
		note(n.Gone)
	}
	for _, t := range run.Tasks {
		note(t.Queued)
		note(t.Ended)
	}
	for _, f := range run.Failures {
		note(f.At)
	}
	if from.IsZero() || to.Sub(from) > longestRun {
		from = to.Add(-time.Second)
	}
	if !to.After(from) {
		to = from.Add(time.Second)
	}
	return from, to
}

// took returns how long a phase took, or has lasted.
func (s *summary) took(p observe.Phase) time.Duration {
	return s.clip(interval{p.Began, p.Ended}).length()
}

// clip returns an interval within the report's time. A zero end means that it has not ended.
func (s *summary) clip(i interval) interval {
	if i.Ended.IsZero() {
		i.Ended = s.To
	}
	i.Began = earlier(later(i.Began, s.From), s.To)
	i.Ended = later(earlier(i.Ended, s.To), i.Began)
	return i
}

// elapsed returns the time that the report covers.
func (s *summary) elapsed() time.Duration { return s.To.Sub(s.From) }

// node returns the node of a key, or nil.
func (s *summary) node(key string) *nodeSummary {
	if i, ok := s.byKey[key]; ok {
		return &s.Nodes[i]
	}
	return nil
}

// attemptsOf returns how many attempts a task has had.
func attemptsOf(t observe.Task) int { return max(len(t.Attempts), t.Attempt) }

// union returns sorted intervals that cover the same time without overlaps.
func union(all []interval) []interval {
	slices.SortFunc(all, func(a, b interval) int { return a.Began.Compare(b.Began) })
	var merged []interval
	for _, i := range all {
		if i.length() == 0 {
			continue
		}
		if n := len(merged); n > 0 && !i.Began.After(merged[n-1].Ended) {
			if i.Ended.After(merged[n-1].Ended) {
				merged[n-1].Ended = i.Ended
			}
			continue
		}
		merged = append(merged, i)
	}
	return merged
}

// finite returns a number, or 0 for what is none.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
