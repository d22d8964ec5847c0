package report

import (
	"fmt"

	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/providers/driver"
)

// t0 is when the runs of tests begin.
var t0 = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

func at(d time.Duration) time.Time { return t0.Add(d) }

const pool = "digits-1a2b"

func key(n int) string { return fmt.Sprintf("%s/%d", pool, n) }

func printedLines(stderr bool, texts ...string) (lines []gputrain.Line) {
	for i, text := range texts {
		lines = append(lines, gputrain.Line{Time: at(5*time.Minute + time.Duration(i)*time.Second), Pool: pool, Stderr: stderr, Text: text})
	}
	return lines
}

// sampleRun is a run of 20 minutes with three nodes, of which one is preempted and replaced, and six tasks, of which one fails.
func sampleRun() observe.Run {
	const m = time.Minute
	run := observe.Run{
		Began: t0, At: at(20 * m), Seq: 4321,
		Pools: []observe.Pool{{
			ID: pool, State: "closed", Spec: &gputrain.Spec{Nodes: 3, BudgetUSD: 2, Concurrency: 2, Secrets: map[string]gputrain.Secret{"HF_TOKEN": "hf_thisisthesecretvalue0"}},
			Opened: t0, ReadyAt: at(3 * m), Closed: at(20 * m), Cost: gputrain.Cost{USD: 0.8, Parts: map[string]float64{"machine": 0.75, "disk": 0.05}, Bounded: true},
		}},
		SpentUSD: 0.8, BudgetUSD: 2, AtMostUSD: 0.9, Bounded: true,
		Counts: observe.Counts{Ready: 0, Gone: 4, Done: 5, Failed: 1, Retries: 1},
	}
	node := func(n, rank int, state string, launched, ready, gone time.Duration, usd float64) observe.Node {
		node := observe.Node{
			Node: gputrain.Node{Rank: rank, ID: fmt.Sprintf("i-%d", n), Name: fmt.Sprintf("digits-%d", rank), Provider: "acme", Region: "eu-1", InstanceType: "a100-1x", HourlyUSD: driver.USD(0.6)},
			Pool: pool, Key: key(n), State: state, Launched: at(launched), ReadyAt: at(ready), Gone: at(gone), SpentUSD: usd, Known: true,
		}
		for i := range 20 {
			when := at(launched + time.Duration(i)*(gone-launched)/20)
			node.Load = append(node.Load, observe.Load{At: when, Accelerators: float64(10 + i*37%80), CPU: float64(10 + i)})
		}
		return node
	}
	run.Nodes = []observe.Node{
		node(0, 0, "terminated", 0, 3*m, 20*m, 0.2), node(1, 1, "terminated", 0, 4*m, 20*m, 0.2),
		node(2, 2, "lost", 0, 3*m, 9*m, 0.15), node(3, 2, "terminated", 10*m, 12*m, 20*m, 0.2),
	}
	run.Nodes[2].Preempt, run.Nodes[2].Err = at(8*m), "the provider took the machine back"
	for n, node := range run.Nodes {
		for i, name := range []string{"packages", "python", "files"} {
			step := node.ReadyAt.Sub(node.Launched) / 3
			run.Phases = append(run.Phases, observe.Phase{
				Pool: pool, Node: node.Key, Rank: node.Rank, Name: name, State: "done", Began: node.Launched.Add(time.Duration(i) * step), Ended: node.Launched.Add(time.Duration(i+1) * step),
				Lines: printedLines(false, fmt.Sprintf("phase %s of %d", name, n)),
			})
		}
	}
	task := func(id, state string, attempts ...observe.Attempt) {
		last := attempts[len(attempts)-1]
		run.Tasks = append(run.Tasks, observe.Task{
			Pool: pool, ID: id, Name: "train " + id, State: state, Node: last.Node, Slot: last.Slot, Attempt: len(attempts), Queued: at(3 * m), Started: last.Began, Ended: last.Ended,
			Elapsed: last.Ended.Sub(last.Began), ExitCode: last.ExitCode, Cause: last.Cause, Err: last.Err, SpentUSD: 0.05, Attempts: attempts,
			Lines: printedLines(false, "epoch 1 | loss 0.4", "epoch 2 | loss 0.3"),
		})
	}
	attempt := func(number, node, slot int, began, ended time.Duration) observe.Attempt {
		return observe.Attempt{Number: number, Node: key(node), Slot: slot, Began: at(began), Ended: at(ended)}
	}
	task("0", "done", attempt(1, 0, 0, 3*m, 10*m))
	task("1", "done", attempt(1, 1, 0, 4*m, 11*m))
	lost := attempt(1, 2, 0, 4*m, 9*m)
	lost.Cause, lost.Err, lost.ExitCode = "node lost", "node 2: lost", -1
	task("2", "done", lost, attempt(2, 3, 0, 12*m, 18*m))
	failed := attempt(1, 0, 1, 6*m, 7*m)
	failed.Cause, failed.ExitCode, failed.Err = "exit", 3, "train 3 on node 0: exit code 3\n\tValueError: shapes do not match"
	task("3", "failed", failed)
	run.Tasks[3].Lines = append(printedLines(false, "loading"), printedLines(true, "Traceback (most recent call last):", "ValueError: shapes do not match")...)
	task("4", "done", attempt(1, 0, 0, 10*m, 18*m))
	task("5", "done", attempt(1, 1, 1, 5*m, 12*m))
	run.Failures = []observe.Failure{
		{Seq: 900, At: at(7 * m), Pool: pool, Kind: "task", Node: key(0), Rank: 0, Task: "3", Name: "train 3", Attempt: 1, Cause: "exit", Err: failed.Err, Tail: "ValueError: shapes do not match"},
		{Seq: 1200, At: at(9 * m), Pool: pool, Kind: "node", Node: key(2), Rank: 2, Err: "node 2: lost: preempted"},
		{Seq: 1201, At: at(9 * m), Pool: pool, Kind: "task", Node: key(2), Rank: 2, Task: "2", Name: "train 2", Attempt: 1, Cause: "node lost", Retried: true, Err: "node 2: lost"},
	}
	run.Offers = []observe.Offer{
		{At: t0, Pool: pool, Provider: "acme", InstanceType: "a100-1x", Region: "us-1", HourlyUSD: 0.5, Known: true, Spot: true, State: "refused", Err: "acme: no capacity: none left in us-1"},
		{At: at(time.Second), Pool: pool, Provider: "acme", InstanceType: "a100-1x", Region: "eu-1", HourlyUSD: 0.6, Known: true, State: "taken"},
	}
	return run
}

// largeRun has 500 nodes and 10 000 tasks.
func largeRun() observe.Run {
	run := observe.Run{Began: t0, At: at(time.Hour), Seq: 1, SpentUSD: 500}
	run.Pools = []observe.Pool{{ID: pool, State: "ready", Opened: t0}}
	for n := range 500 {
		run.Nodes = append(run.Nodes, observe.Node{
			Node: gputrain.Node{Rank: n, Provider: "acme", HourlyUSD: driver.USD(1)}, Pool: pool, Key: key(n), State: "ready", Launched: t0, ReadyAt: at(time.Minute), SpentUSD: 1, Known: true,
		})
		for p := range 20 {
			run.Phases = append(run.Phases, observe.Phase{Pool: pool, Node: key(n), Rank: n, Name: fmt.Sprint("setup ", p), State: "done", Began: at(time.Duration(p) * 3 * time.Second), Ended: at(time.Duration(p+1) * 3 * time.Second)})
		}
	}
	for i := range 10_000 {
		began := at(time.Minute + time.Duration(i/500)*2*time.Minute)
		t := observe.Task{
			Pool: pool, ID: fmt.Sprint("t", i), Name: fmt.Sprintf("trial %c %d", 'a'+i%70, i), State: "done", Started: began, Ended: began.Add(time.Minute), Attempt: 1,
			Attempts: []observe.Attempt{{Number: 1, Node: key(i % 500), Began: began, Ended: began.Add(time.Minute)}},
		}
		if i%3 == 0 {
			t.State = "failed"
			run.Failures = append(run.Failures, observe.Failure{Seq: int64(i), At: t.Ended, Pool: pool, Kind: "task", Task: t.ID, Node: key(i % 500), Rank: i % 500, Cause: "exit", Err: "exit code 1"})
		}
		for l := range 20 {
			t.Lines = append(t.Lines, gputrain.Line{Time: began, Text: fmt.Sprint("line ", l)})
		}
		run.Tasks = append(run.Tasks, t)
	}
	return run
}
