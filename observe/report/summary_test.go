package report

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/observe"
)

func near(a, b float64) bool { return math.Abs(a-b) < 1e-6 }

func TestSharesAreParts(t *testing.T) {
	s := summarize(sampleRun())
	for i, want := range [][3]float64{{15, 75, 10}, {20, 40, 40}, {100.0 / 3, 500.0 / 9, 100.0 / 9}, {20, 60, 20}} {
		n := s.Nodes[i]
		if !near(n.Bootstrap, want[0]) || !near(n.Busy, want[1]) || !near(n.Idle, want[2]) {
			t.Errorf("node %d: bootstrap %v, busy %v, idle %v, want %v", i, n.Bootstrap, n.Busy, n.Idle, want)
		}
	}
}

// checkSums checks that shares and costs add up.
func checkSums(t *testing.T, run observe.Run) {
	t.Helper()
	s := summarize(run)
	nodes, names, states := s.OtherUSD, s.NoTaskUSD, 0.0
	for _, n := range s.Nodes {
		nodes += n.USD
		whole := n.Bootstrap + n.Busy + n.Idle
		if n.Bootstrap < 0 || n.Busy < 0 || n.Idle < 0 || !near(whole, 100) && (whole != 0 || n.To.After(n.From)) {
			t.Errorf("node %s: %v %% and %v %% and %v %%", n.Key, n.Bootstrap, n.Busy, n.Idle)
		}
	}
	for _, n := range s.Names {
		names += n.USD
	}
	for _, c := range s.States {
		states += c.USD
	}
	if !near(nodes, s.SpentUSD) || !near(names, s.SpentUSD) || !near(states, s.SpentUSD) {
		t.Errorf("of $%v: nodes $%v, names $%v, states $%v", s.SpentUSD, nodes, names, states)
	}
	last := s.spentOver(plotPoints)
	if math.Abs(last[plotPoints-1]-max(s.SpentUSD, 0)) > 1e-6 {
		t.Errorf("the curve ends at $%v of $%v", last[plotPoints-1], s.SpentUSD)
	}
}

func TestSums(t *testing.T) {
	grouped := sampleRun()
	grouped.Groups = []observe.Group{{Pool: pool, Name: "train", Done: 500, Failed: 1, Attempts: 502, SpentUSD: 0.5, Time: time.Hour}}
	for name, run := range map[string]observe.Run{"empty": {}, "sample": sampleRun(), "large": largeRun(), "groups": grouped} {
		t.Run(name, func(t *testing.T) { checkSums(t, run) })
	}
}

// TestSumsOfOddRuns has times in any order, overlapping attempts, and numbers that are none.
func TestSumsOfOddRuns(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	when := func() time.Time {
		if random.IntN(4) == 0 {
			return time.Time{}
		}
		return at(time.Duration(random.IntN(3600)-600) * time.Second)
	}
	money := func() float64 {
		if random.IntN(5) == 0 {
			return []float64{math.NaN(), math.Inf(1), math.Inf(-1), 0}[random.IntN(4)]
		}
		return random.Float64()
	}
	for range 150 {
		run := observe.Run{Began: when(), At: when(), SpentUSD: 100 * random.Float64(), Seq: 1}
		for n := range random.IntN(4) {
			run.Nodes = append(run.Nodes, observe.Node{Key: key(n), Launched: when(), ReadyAt: when(), Gone: when(), Since: when(), Ended: random.IntN(9), BusyTime: time.Duration(random.IntN(1e12)), SpentUSD: money()})
			run.Nodes[n].Rank = n
		}
		for range random.IntN(9) {
			task := observe.Task{Name: "a", ID: "x", State: []string{"done", "failed", "cancelled", "retrying", "started", "", "odd"}[random.IntN(7)], SpentUSD: money(), Started: when(), Ended: when(), Node: key(random.IntN(4))}
			for i := range random.IntN(3) {
				task.Attempts = append(task.Attempts, observe.Attempt{Number: i, Node: key(random.IntN(5)), Slot: random.IntN(9) - 1, Began: when(), Ended: when()})
			}
			run.Tasks = append(run.Tasks, task)
		}
		checkSums(t, run)
		html := written(t, WriteHTML, run)
		checkHTML(t, html)
		if t.Failed() {
			t.Fatalf("%+v", run)
		}
	}
}

func TestGroupsHaveWhatTasksHaveNot(t *testing.T) {
	run := sampleRun()
	run.Groups = []observe.Group{{Pool: pool, Name: "train", Done: 99, Failed: 2, Cancelled: 1, Attempts: 110, Time: time.Hour, SpentUSD: 0.6}, {Pool: "other", Name: "train", Done: 1, Attempts: 1}}
	run.Tasks = append(run.Tasks, observe.Task{Pool: pool, ID: "9", Name: "train 9", State: "started", Node: key(1), Started: at(15 * time.Minute)})
	s := summarize(run)
	if len(s.Names) != 1 {
		t.Fatalf("%+v", s.Names)
	}
	n := s.Names[0]
	if n.Done != 100 || n.Failed != 2 || n.Cancelled != 1 || n.Open != 1 || n.Attempts != 112 || n.Time != time.Hour+5*time.Minute {
		t.Errorf("%+v", n)
	}
	if table := s.stateTable(); !strings.Contains(strings.Join(table.Rows[len(table.Rows)-3], " "), "only the sum is kept") {
		t.Errorf("%v", table.Rows)
	}
}

func TestMoneyAndTime(t *testing.T) {
	for v, want := range map[float64]string{0: "$0.00", 0.0012: "$0.0012", 0.00001: "$0.00", 0.05: "$0.05", 12.345: "$12.35", -0.5: "-$0.50", math.Inf(1): "$0.00"} {
		if got := usd(v); got != want {
			t.Errorf("usd(%v) = %q, want %q", v, got, want)
		}
	}
	for d, want := range map[time.Duration]string{0: "0s", -time.Second: "0s", 1234 * time.Microsecond: "1ms", 2345 * time.Millisecond: "2.3s", 131400 * time.Millisecond: "2m11s"} {
		if got := took(d); got != want {
			t.Errorf("took(%v) = %q, want %q", d, got, want)
		}
	}
}
