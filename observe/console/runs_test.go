package console

import (
	"context"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
)

// A fake is a source of which a test says what it knows.
type fake struct {
	mu      sync.Mutex
	run     observe.Run
	entries []observe.Entry
	came    chan struct{}
	closed  bool
}

func newFake(run observe.Run) *fake { return &fake{run: run, came: make(chan struct{})} }

func (f *fake) Run() observe.Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.run
}

// set changes the run, and has events tell of it.
func (f *fake) set(run observe.Run, events ...gputrain.Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(events) == 0 {
		events = append(events, gputrain.Event{Kind: gputrain.EventStep})
	}
	for _, ev := range events {
		f.entries = append(f.entries, observe.Entry{Seq: int64(len(f.entries) + 1), Event: &ev})
	}
	f.run = run
	f.run.Seq = int64(len(f.entries))
	close(f.came)
	f.came = make(chan struct{})
}

// end closes the recording.
func (f *fake) end() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	close(f.came)
	f.came = make(chan struct{})
}

func (f *fake) Events(ctx context.Context, after int64) iter.Seq[observe.Entry] {
	return func(yield func(observe.Entry) bool) {
		for ctx.Err() == nil {
			f.mu.Lock()
			entries, came, closed := f.entries[min(after, int64(len(f.entries))):], f.came, f.closed
			f.mu.Unlock()
			for _, e := range entries {
				if !yield(e) {
					return
				}
				after = e.Seq
			}
			if len(entries) > 0 {
				continue
			}
			if closed {
				return
			}
			select {
			case <-came:
			case <-ctx.Done():
			}
		}
	}
}

// now is the moment of the runs in tests.
var now = time.Date(2026, 11, 27, 12, 4, 5, 0, time.UTC)

func ago(d time.Duration) time.Time { return now.Add(-d) }

func machine(pool string, rank int, state string) observe.Node {
	n := observe.Node{Pool: pool, Key: fmt.Sprintf("%s/%d", pool, rank), State: state, Since: ago(42 * time.Second), Launched: ago(10 * time.Minute)}
	n.Rank, n.ID, n.InstanceType, n.Region, n.HourlyUSD = rank, fmt.Sprint("i-", rank), "g2-standard-4", "europe-west4", driver.USD(0.71)
	n.Accelerator = accelerators.L4()
	return n
}

// working has a node run tasks.
func working(run *observe.Run, n observe.Node, tasks ...observe.Task) observe.Node {
	for _, t := range tasks {
		t.Pool, t.State, t.Node = n.Pool, "started", n.Key
		if t.Started.IsZero() {
			t.Started = ago(90 * time.Second)
		}
		run.Tasks = append(run.Tasks, t)
		n.Tasks = append(n.Tasks, t.ID)
	}
	n.UsageAt = ago(5 * time.Second)
	n.Usage = []gputrain.AcceleratorSample{{Utilization: 97, MemoryGiB: 18, MemoryTotalGiB: 24}}
	return n
}

// usual is a pool in which everything is going on.
func usual() observe.Run {
	run := observe.Run{
		Began: ago(12 * time.Minute), At: now, SpentUSD: 0.31, HourlyUSD: 2.84, BudgetUSD: 5, AtMostUSD: 0.71, Bounded: true,
		Counts: observe.Counts{Ready: 3, Starting: 2, Broken: 1, Slots: 3, Busy: 2, Waiting: 2, Running: 3, Done: 12, Failed: 1},
		Pools: []observe.Pool{{
			ID: "digits", State: "ready", Opened: ago(12 * time.Minute), ReadyAt: ago(10 * time.Minute),
			Waiting: "capacity: no room for L4 in europe-west4",
		}},
	}
	step := gputrain.Step{N: 120, Of: 1000, Values: map[string]float64{"loss": 2.31, "lr": 0.0003, "tokens": 1e6}}
	a := working(&run, machine("digits", 0, "ready"), observe.Task{ID: "t14", Name: "train-a", Step: step, StepAt: ago(time.Second), PerSecond: 4})
	b := working(&run, machine("digits", 1, "ready"), observe.Task{ID: "t15", Name: "eval", Started: ago(12 * time.Second)}, observe.Task{ID: "t16", Attempt: 2, Step: gputrain.Step{N: 3}, StepAt: ago(time.Minute)})
	b.Usage[0].Utilization = math.NaN()
	lost := machine("digits", 3, "unreachable")
	lost.Err = "read tcp: connection reset by peer"
	boot := machine("digits", 4, "bootstrapping")
	launch := machine("digits", 5, "launching")
	run.Nodes = []observe.Node{a, b, machine("digits", 2, "ready"), lost, boot, launch}
	run.Phases = []observe.Phase{{
		Pool: "digits", Node: boot.Key, Rank: 4, Name: "apt", State: "started", Began: ago(20 * time.Second),
		Progress: gputrain.Progress{What: "install", Done: 12, Total: 27, Unit: "packages"},
	}, {Pool: "digits", Node: a.Key, Name: "python", State: "done", Began: ago(time.Minute), Ended: now}}
	for _, rank := range []int{0, 1} {
		run.Transfers = append(run.Transfers, observe.Transfer{
			Pool: "digits", Node: fmt.Sprintf("digits/%d", rank), Rank: rank, What: "data", State: "sending", Began: ago(8 * time.Second), At: now, Bytes: 30 << 20, Total: 100 << 20,
		})
	}
	for i := range 13 {
		state := "done"
		if i == 12 {
			state = "failed"
		}
		run.Tasks = append(run.Tasks, observe.Task{Pool: "digits", ID: fmt.Sprint("t", i), State: state, Started: ago(10 * time.Minute), Ended: ago(time.Duration(i) * 40 * time.Second)})
	}
	return run
}

// pacesOf returns the paces of a run whose phases and transfers have advanced evenly for ten seconds.
func pacesOf(run observe.Run) *paces {
	p := &paces{}
	for back := 10; back >= 0; back -= 2 {
		then := run
		then.At = run.At.Add(-time.Duration(back) * time.Second)
		then.Phases = append([]observe.Phase(nil), run.Phases...)
		for i := range then.Phases {
			g := &then.Phases[i].Progress
			g.Done = g.Done * int64(20-back) / 20
		}
		then.Transfers = append([]observe.Transfer(nil), run.Transfers...)
		for i := range then.Transfers {
			then.Transfers[i].Bytes = then.Transfers[i].Bytes * int64(20-back) / 20
		}
		p.look(then)
	}
	return p
}

// many is a pool of 500 nodes.
func many() observe.Run {
	run := usual()
	run.Nodes, run.Phases, run.Transfers, run.Tasks = nil, nil, nil, nil
	run.Pools[0].Waiting = ""
	for rank := range 500 {
		n := machine("digits", rank, "ready")
		switch {
		case rank%50 == 7:
			n.State, n.Err = "unreachable", "no route to host"
		case rank%10 == 1:
			n.State = "connecting"
		case rank%2 == 0:
			n = working(&run, n, observe.Task{ID: fmt.Sprint("t", rank), Name: fmt.Sprint("trial ", rank)})
		}
		run.Nodes = append(run.Nodes, n)
	}
	run.Counts = observe.Counts{Ready: 440, Starting: 50, Broken: 10, Running: 250, Waiting: 12000, Done: 345678}
	run.Bounded = false
	return run
}

// several are two pools, and one that has ended.
func several() observe.Run {
	run := usual()
	run.Pools = append(run.Pools,
		observe.Pool{ID: "a pool with a very long name", State: "opening", Opened: ago(30 * time.Second), Waiting: "launching: 3 offers refused"},
		observe.Pool{ID: "old", State: "closed", Opened: ago(time.Hour), Closed: ago(30 * time.Minute), Err: "it is over"})
	run.Offers = []observe.Offer{{Pool: "a pool with a very long name", InstanceType: "g6.xlarge", Region: "us-east-1", HourlyUSD: 0.8, Known: true, State: "trying"}}
	gone := machine("old", 0, "failed")
	gone.Gone = ago(30 * time.Minute)
	run.Nodes = append(run.Nodes, gone)
	return run
}

// hostile has everything in its texts that could do harm.
func hostile() observe.Run {
	const bad = "\x1b[2J\x1b]0;title\a\r\nnew line\ttab \u202egnp.exe \u009b31m\xff\xfe end"
	run := usual()
	run.Pools[0].ID, run.Pools[0].Waiting, run.Pools[0].Err = bad, bad, bad
	for i := range run.Nodes {
		run.Nodes[i].Pool, run.Nodes[i].Region, run.Nodes[i].Err = bad, bad, bad
	}
	for i := range run.Phases {
		run.Phases[i].Pool, run.Phases[i].Name, run.Phases[i].Progress = bad, bad, gputrain.Progress{What: bad, Done: -5, Total: 3, Unit: bad}
	}
	for i := range run.Tasks {
		run.Tasks[i].Pool, run.Tasks[i].Name = bad, bad
		run.Tasks[i].Step.Values = map[string]float64{bad: math.Inf(1)}
	}
	for i := range run.Transfers {
		run.Transfers[i].Pool, run.Transfers[i].What, run.Transfers[i].Bytes = bad, bad, math.MaxInt64/2
	}
	run.SpentUSD, run.HourlyUSD, run.AtMostUSD = math.Inf(1), math.NaN(), -1
	return run
}

// wide has characters of two columns and of none.
func wide() observe.Run {
	run := usual()
	run.Pools[0].Waiting = "容量不足：ヨーロッパ西部に空きがありません"
	run.Tasks[0].Name = "学習タスク番号一"
	run.Tasks[1].Name = "👩‍🔬 e\u0301valuation"
	for i := range run.Nodes {
		run.Nodes[i].Region = "東京リージョン"
	}
	return run
}
