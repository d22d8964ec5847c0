package status

import (
	"context"
	"crypto/rand"
	"fmt"
	"iter"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/accelerators"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
)

// A fakeSource has the Run that a test sets.
type fakeSource struct {
	mu    sync.Mutex
	run   observe.Run
	came  chan struct{} // closed when Seq becomes greater
	asked int           // calls of Run
	ended bool
}

func newFake(r observe.Run) *fakeSource { return &fakeSource{run: r, came: make(chan struct{})} }

func (f *fakeSource) Run() observe.Run {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.run
}

// change makes the next Run. The change must replace what it changes.
func (f *fakeSource) change(change func(*observe.Run)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.run.Seq++
	change(&f.run)
	close(f.came)
	f.came = make(chan struct{})
}

// close is what a Recorder's Close does: nothing comes any more.
func (f *fakeSource) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ended = true
	close(f.came)
}

func (f *fakeSource) Events(ctx context.Context, after int64) iter.Seq[observe.Entry] {
	return func(yield func(observe.Entry) bool) {
		for ctx.Err() == nil {
			f.mu.Lock()
			seq, came, ended := f.run.Seq, f.came, f.ended
			f.mu.Unlock()
			for ; after < seq; after++ {
				if !yield(observe.Entry{Seq: after + 1}) {
					return
				}
			}
			if ended {
				return
			}
			select {
			case <-came:
			case <-ctx.Done():
			}
		}
	}
}

var began = time.Date(2026, 11, 27, 3, 0, 0, 0, time.UTC)

// aRun is a Run with so many nodes and tasks, as of a moment.
func aRun(nodes, tasks int, at time.Time) observe.Run {
	r := observe.Run{
		Began: began, At: at, Seq: 1000, SpentUSD: 3.217, HourlyUSD: 0.71 * float64(nodes), BudgetUSD: 5, AtMostUSD: 4.05, Bounded: true,
		Pools: []observe.Pool{{
			ID: "digits-k3f9", State: "ready", Opened: at.Add(-14 * time.Minute), ReadyAt: at.Add(-11 * time.Minute), CostAt: at,
			Spec: &gputrain.Spec{Nodes: nodes, Accelerator: accelerators.L4(), Concurrency: 2, BudgetUSD: 5}, Cost: gputrain.Cost{USD: 3.217, HourlyUSD: 2.84, Bounded: true, AtMostUSD: 4.05},
		}},
	}
	for i := range nodes {
		r.Nodes = append(r.Nodes, aNode(i, at))
		r.Counts.Ready++
		r.Counts.Slots += 2
	}
	for i := range tasks {
		t := aTask(i, tasks, nodes, at)
		r.Tasks = append(r.Tasks, t)
		switch t.State {
		case "queued":
			r.Counts.Waiting++
		case "started":
			r.Counts.Running++
			r.Counts.Busy++
			n := &r.Nodes[t.Rank]
			n.Tasks = append(n.Tasks, t.ID)
		case "failed":
			r.Counts.Failed++
			r.Failures = append(r.Failures, observe.Failure{
				Seq: int64(i), At: t.Ended, Pool: t.Pool, Kind: "task", Node: t.Node, Rank: t.Rank, Task: t.ID, Name: t.Name, Attempt: 1, Cause: t.Cause, Err: t.Err,
				Tail: "RuntimeError: CUDA error: out of memory\n",
			})
		default:
			r.Counts.Done++
		}
	}
	return r
}

func aNode(i int, at time.Time) observe.Node {
	return observe.Node{
		Node: gputrain.Node{
			Rank: i, ID: fmt.Sprintf("i-%04x", i), Name: fmt.Sprintf("digits-k3f9-%d", i), Provider: "gcp", Region: "europe-west4", InstanceType: "g2-standard-8",
			HourlyUSD: driver.USD(0.71), Accelerator: accelerators.L4(), OS: "linux", Arch: "amd64", VCPUs: 8, MemoryGiB: 32, PublicAddr: "203.0.113.7",
		},
		Pool: "digits-k3f9", Key: fmt.Sprintf("digits-k3f9/%d", i), State: "ready", Since: at.Add(-11 * time.Minute), Launched: at.Add(-14 * time.Minute), ReadyAt: at.Add(-11 * time.Minute),
		Usage: []gputrain.AcceleratorSample{{
			Device: "0000:3b:00.0", Utilization: float64(40 + i*13%60), MemoryGiB: 11.2, MemoryTotalGiB: 22.5, Celsius: 61, Watts: 66, ClockMHz: math.NaN(), Uncorrected: -1,
		}},
		Host: &gputrain.HostSample{CPU: 37, MemoryGiB: 9.4, MemoryTotalGiB: 31.2, DiskGiB: 20, DiskTotalGiB: 100}, UsageAt: at, Ended: 3, SpentUSD: 0.16, Known: true,
	}
}

// aTask is one of many: the first half has ended, the next ones run, two on each node, and the others wait.
func aTask(i, tasks, nodes int, at time.Time) observe.Task {
	t := observe.Task{Pool: "digits-k3f9", ID: fmt.Sprintf("t%05d", i), Name: fmt.Sprintf("trial %d", i), State: "queued", Rank: -1, Queued: at.Add(-10 * time.Minute)}
	if i >= tasks/2+2*nodes {
		return t
	}
	t.State, t.Rank, t.Attempt, t.Started = "started", i%nodes, 1, at.Add(-90*time.Second)
	t.Node = fmt.Sprintf("digits-k3f9/%d", t.Rank)
	t.Step, t.StepAt, t.PerSecond = gputrain.Step{N: int64(20 + i%70), Of: 100, Values: map[string]float64{"loss": 0.4312, "accuracy": math.NaN()}}, at.Add(-time.Second), 0.8
	t.Attempts = []observe.Attempt{{Number: 1, Node: t.Node, Began: t.Started}}
	t.Lines = []gputrain.Line{{Time: at, Pool: t.Pool, Task: t.ID, Text: fmt.Sprintf("epoch 3 of trial %d", i)}, {Time: at, Stderr: true, Text: "a warning"}, {Attempt: 2, Text: "again"}}
	if i >= tasks/2 {
		return t
	}
	t.State, t.Ended, t.Elapsed, t.SpentUSD, t.PerSecond = "done", at.Add(-time.Duration(i)*time.Millisecond-time.Second), 80*time.Second, 0.015, 0
	t.Attempts[0].Ended = t.Ended
	if i%97 == 5 {
		t.State, t.Cause, t.ExitCode, t.Err = "failed", "exit", 1, fmt.Sprintf("gputrain: task %q: exit code 1", t.Name)
	}
	return t
}

// starting adds a node that comes up, its phases, a transfer and offers.
func starting(r observe.Run) observe.Run {
	at := r.At
	n := aNode(len(r.Nodes), at)
	n.State, n.Since, n.ReadyAt, n.Usage, n.Host, n.Phase = "bootstrapping", at.Add(-40*time.Second), time.Time{}, nil, nil, "apt"
	lost := aNode(len(r.Nodes)+1, at)
	lost.State, lost.Usage, lost.Host, lost.Err = "unreachable", nil, nil, "ssh: the connection to 203.0.113.9 was lost: read: connection reset by peer"
	r.Nodes = append(r.Nodes, n, lost)
	r.Counts.Starting, r.Counts.Broken = 1, 1
	r.Phases = []observe.Phase{
		{Pool: n.Pool, Node: n.Key, Rank: n.Rank, Name: "connect", State: "done", Began: at.Add(-40 * time.Second), Ended: at.Add(-38 * time.Second)},
		{Pool: n.Pool, Node: n.Key, Rank: n.Rank, Name: "apt", State: "started", Began: at.Add(-38 * time.Second), Progress: gputrain.Progress{What: "install", Done: 31, Total: 88, Unit: "packages"},
			Lines: []gputrain.Line{{Time: at, Phase: "apt", Text: "Setting up libc6"}}},
	}
	r.Transfers = []observe.Transfer{{Pool: n.Pool, Node: r.Nodes[0].Key, What: "data", State: "sending", Began: at.Add(-9 * time.Second), At: at, Bytes: 311 << 20, Total: 1200 << 20, BytesPerSecond: 34e6}}
	r.Offers = []observe.Offer{
		{At: at.Add(-15 * time.Minute), Pool: n.Pool, Provider: "gcp", InstanceType: "g2-standard-8", Region: "europe-west1", HourlyUSD: 0.69, Known: true, Spot: true, State: "refused", Err: "gcp: launch: no capacity: ZONE_RESOURCE_POOL_EXHAUSTED"},
		{At: at.Add(-14 * time.Minute), Pool: n.Pool, Provider: "gcp", InstanceType: "g2-standard-8", Region: "europe-west4", HourlyUSD: 0.71, Known: true, State: "taken"},
	}
	return r
}

func served(t *testing.T, s source) *Server {
	t.Helper()
	server, err := serve(newHandler(s), "", rand.Text())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server
}
