package gputrain

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain/providers/driver"
)

func TestResultPrints(t *testing.T) {
	secret := []byte("hunter2\nof many lines\n")
	for want, r := range map[string]Result{
		"task 0: not run":                 {},
		"t7: task 0: not run":             {Task: "t7"},
		"t3: lr-0.01 on node 0: done, 0s": {Task: "t3", Name: "lr-0.01", Attempts: 1},
		"t4: train on node 4: exit code 3, 0s": {
			Task: "t4", Name: "train", Attempts: 1, Err: &TaskError{Name: "train", Node: Node{Rank: 4}, Attempt: 1, ExitCode: 3}},
		"task 2 on node 1: done, 1.23s, $0.0123, stdout 22 B": {
			Index: 2, Node: Node{Rank: 1}, Attempts: 1, Elapsed: 1234567890, CostUSD: driver.USD(0.01234), Stdout: secret, StdoutBytes: int64(len(secret))},
		"task 0 on node 0: done at attempt 3, 1h2m3.6s, less than $0.0001, stdout 3.0 MiB, stderr 9999 B, 2 outputs in /results/t1-a3/outputs": {
			Attempts: 3, Elapsed: time.Hour + 2*time.Minute + 3600*time.Millisecond, CostUSD: driver.USD(1e-9), StdoutBytes: 3 << 20, StderrBytes: 9999,
			Outputs: make([]OutputFile, 2), OutputDir: "/results/t1-a3/outputs"},
		"task 0 on node 0: done, 12µs": {Attempts: 1, Elapsed: 12345},
		"train on node 4: exit code 3, 2.5ms, $0.00, stderr 12 B": {
			Index: 7, Attempts: 1, Elapsed: 2500 * time.Microsecond, CostUSD: driver.USD(0), StderrBytes: 12,
			Err: &TaskError{Index: 7, Name: "train", Node: Node{Rank: 4}, Attempt: 1, ExitCode: 3, Tail: "one\ntwo"}},
		"node 4 (attempt 2): exit code 3, 0s": { // of a broadcast: its node is named once
			Attempts: 2, Err: &TaskError{Name: "node 4", Node: Node{Rank: 4}, Attempt: 2, ExitCode: 3}},
		"task: invalid: the command is empty": {Index: -1, Err: errors.New("task: invalid: the command is empty")},
	} {
		for _, got := range []string{fmt.Sprint(r), fmt.Sprintf("%+v", r)} {
			if got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		}
		if strings.Contains(fmt.Sprintln([]Result{r}), "hunter2") {
			t.Errorf("the task's output is in %v", r)
		}
	}
}

func TestCostPrints(t *testing.T) {
	now := time.Now()
	two := []NodeCost{{From: now}, {From: now}, {From: now, To: now}}
	for want, c := range map[string]Cost{
		"$0.00 so far, no machine runs": {Bounded: true},
		"$1.50 so far, 2 machines for $2.40 an hour, at most $3.90 if this program dies now":                             {USD: 1.5, HourlyUSD: 2.4, AtMostUSD: 3.9, Bounded: true, Nodes: two},
		"$1.50 so far, 2 machines for $2.40 an hour, at most $3.90 if this program dies now, $0.40 over the budget then": {USD: 1.5, HourlyUSD: 2.4, AtMostUSD: 3.9, OverspendUSD: 0.4, Bounded: true, Nodes: two},
		"$0.00 so far, 1 machine for $0.00 an hour, not counting 1 machine of unknown price, without a bound if this program dies now": {
			Unknown: 1, Nodes: two[:1]},
		"$12.00 so far, no machine runs": {USD: 12, Bounded: true, Nodes: two[2:]},
	} {
		if got := fmt.Sprint(c); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}
